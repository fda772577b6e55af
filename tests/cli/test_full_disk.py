"""A disk that is full, in the middle of a training: one line, and the last checkpoint is whole."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, called
from tests.learning.samples import same, weights
from vlnbert.learning.runs import resume_run

WORDS = (*TINY, "--training.iterations", "4", "--training.validate-every", "2")
# No file may grow beyond some size: to the program, a disk that is full. Python ignores the signal that comes with it.
LIMITED = """
import resource, sys
from vlnbert.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
main()
"""


@pytest.fixture(scope="module")
def whole(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("full") / "whole"
    assert called("train", "demo", "--data", house, "--out", run, *WORDS).code == 0
    return run


@pytest.fixture
def begun(whole: Path, tmp_path: Path) -> Path:
    """A run that stopped after its first update."""
    run = tmp_path / "begun"
    run.mkdir()
    shutil.copy(whole / "run.json", run)
    trainer = resume_run(run)
    trainer.stopping = True
    trainer.train()
    assert trainer.progress.iteration == 1
    return run


def resumed(run: Path, room: int) -> list[str]:
    """What is said where no file may have more bytes than `room`."""
    command = [sys.executable, "-c", LIMITED, str(room), "train", "--resume", str(run), "--threads", "1"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (2, "")
    return outcome.stderr.splitlines()


def no_room_for_weights(run: Path) -> int:
    return size(run, "model.safetensors") - 1


def no_room_for_moments(run: Path) -> int:
    return size(run, "trainer.safetensors") - 64  # its header, which tells the best score, may become shorter


def no_room_for_lines(run: Path) -> int:
    (run / "log.jsonl").write_text("\n" * size(run, "trainer.safetensors"))
    return size(run, "trainer.safetensors") + 1


def size(run: Path, name: str) -> int:
    return (run / "checkpoints" / "0000001" / name).stat().st_size


CASES = {
    "weights": (no_room_for_weights, "checkpoints/0000002"),
    "moments": (no_room_for_moments, "checkpoints/0000002"),
    "lines": (no_room_for_lines, "log.jsonl"),
}


@pytest.mark.parametrize(("prepare", "where"), CASES.values(), ids=CASES)
def test_a_full_disk_loses_nothing(whole: Path, begun: Path, prepare: Callable[[Path], int], where: str) -> None:
    room, before = prepare(begun), weights(begun)
    lines = [line for line in resumed(begun, room) if not line.startswith("after ")]  # how it went until then
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"vlnbert: {begun / where}: cannot be written (")
    assert "free some space" in lines[0]
    assert same(weights(begun), before)
    assert not [path for path in begun.rglob("*") if path.name.startswith(".")], "nothing is left lying about"
    (begun / "log.jsonl").unlink(missing_ok=True)
    assert called("train", "--resume", begun, "--threads", "1").code == 0
    assert same(weights(begun), weights(whole))
