"""torchrun on the command line: ranks train together, one speaks, and says how to go on with torchrun."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import vlnbert as vln
from tests.cli.conftest import TINY, called
from vlnbert.cli.train import _again
from vlnbert.learning.run_folder import last_checkpoint

PATIENCE = 300  # seconds; several processes import torch on what may be a busy machine
TOGETHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "vlnbert")
ENDLESS = ("--training.iterations", "100000", "--training.validate-every", "3", "--training.schedule", "constant")


@contextmanager
def trained_together(*words: object) -> Iterator[subprocess.Popen[str]]:
    """A training by two processes, ended with the block."""
    command = [sys.executable, *TOGETHER, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def rank_of(parent: int, rank: int) -> int:
    """The process that has a rank, among the children of torchrun."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) != parent:
                continue
            if f"RANK={rank}" in stat.with_name("environ").read_text().split("\0"):
                return int(stat.parent.name)
        except OSError:  # it ended meanwhile
            continue
    raise AssertionError(f"there is no rank {rank}")


def wait_for_checkpoint(run: Path, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not (run / "last.json").exists() or last_checkpoint(run).name == "0000000":
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.1)


PLUGIN = """
import torch
import vlnbert as vln

vln.register_reward("mine")(lambda rollout, batch, world: torch.ones(rollout.slot.shape))
vln.register_features("mine")(lambda world: torch.ones(len(world), 36, 3))
"""


@pytest.mark.slow
def test_they_train_together(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    """With somebody's plugin, which each of them loads."""
    run, plugin = tmp_path / "run", tmp_path / "my.py"
    plugin.write_text(PLUGIN)
    words = ("train", "demo", "--data", house, "--out", run, *TINY, "--training.iterations", "4")
    mine = ("--training.reward", "mine", "--features.views", "mine")
    with trained_together("--plugin", plugin, *words, *mine) as process:
        out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert out.count("4 updates") == 1, "one rank speaks"
    assert len(list((run / "tensorboard").iterdir())) == 1
    assert vln.open_run(run).record.plugins == (str(plugin),)
    resumed = called("train", "--resume", run)
    assert resumed.code == 0
    assert "4 updates" in resumed.out
    assert called("evaluate", run, "--data", house, "--split", "val_unseen", "--json").code == 0


@pytest.mark.slow
def test_a_killed_rank_ends_the_training_with_one_line(house: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with trained_together("train", "demo", "--data", house, "--out", run, *TINY, *ENDLESS) as process:
        wait_for_checkpoint(run, process)
        os.kill(rank_of(process.pid, 1), signal.SIGKILL)
        killed = time.monotonic()
        _, said = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - killed < 30
    ours = [line for line in said.splitlines() if line.startswith("vlnbert: ")]
    again = f"torchrun --nproc-per-node 2 -m vlnbert train --resume {run}"
    assert ours == [f"vlnbert: another process of this training has ended; go on with: {again}"]
    assert int(last_checkpoint(run).name) >= 3


HANGING = "import os, time\nif os.environ['RANK'] == {rank!r}:\n    time.sleep(600)\n"


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_rank_that_never_comes_is_told_in_a_line(house: Path, tmp_path: Path, rank: str) -> None:
    """Whichever it is, and the run's folder stays as it was."""
    run, plugin = tmp_path / "run", tmp_path / "hang.py"
    plugin.write_text(HANGING.format(rank=rank))
    words = ("--plugin", plugin, "train", "demo", "--data", house, "--out", run, *TINY, "--rank-timeout", "3")
    with trained_together(*words) as process:
        _, said = process.communicate(timeout=PATIENCE)
    ours = [line for line in said.splitlines() if line.startswith("vlnbert: ") and line != "vlnbert: interrupted"]
    longer = "(where one takes longer to start, give more: --rank-timeout SECONDS); begin it again"
    assert ours == [f"vlnbert: another process of this training did not come within 3 s {longer}"]
    assert "rendezvous" not in said, "no traceback of torch"
    assert not run.exists()


@pytest.mark.slow
def test_a_mistake_is_told_once(house: Path) -> None:
    with trained_together("train", "demo", "--data", house, "--out", house) as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, "torchrun's own"
    assert len([line for line in said.splitlines() if line.startswith("vlnbert: ")]) == 1, said


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
def test_a_mistyped_word_is_told_by_one_rank(monkeypatch: pytest.MonkeyPatch, rank: str, lines: int) -> None:
    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    outcome = called("train", "dmo")
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == lines


def test_the_way_back_is_torchrun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    again = "train --resume run --rank-timeout 900.0"
    assert _again(Path("run"), device="cpu", rank_timeout=900.0) == f"torchrun --nproc-per-node 4 -m vlnbert {again}"
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    assert _again(Path("run")).startswith("torchrun --nnodes 2 --nproc-per-node 4 -m vlnbert")
