"""`vlnbert train` from its words to a run: begun, interrupted, resumed, together, and what it says when it cannot."""

import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from tests.cli.conftest import TINY, called
from tests.learning.samples import same, weights
from tests.refusals.mistakes import interrupted
from vlnbert.cli.train import _again
from vlnbert.learning.presets import presets
from vlnbert.learning.run_folder import read_log
from vlnbert.navigator import Navigator

ITERATIONS = 30
WORDS = (*TINY, "--training.iterations", str(ITERATIONS), "--training.validate-every", "10")


@pytest.fixture(scope="module")
def whole(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody interrupted."""
    run = tmp_path_factory.mktemp("train") / "whole"
    outcome = called("train", "demo", "--data", house, "--out", run, *WORDS)
    assert outcome.code == 0
    assert f"{run}: {ITERATIONS} updates, the best after " in outcome.out
    assert f"score it in full with: vlnbert evaluate {run}\n" in outcome.out
    return run


def best(run: Path) -> dict[str, Tensor]:
    return Navigator.from_pretrained(run / "best").state_dict()


def spoken(*words: object) -> list[str]:
    return [sys.executable, "-m", "vlnbert", *map(str, words)]


def check_curves(run: Path) -> None:
    """Every update is in the log and drawn, once."""
    lines = [line for line in read_log(run / "log.jsonl") if "scores" not in line]
    assert [line["iteration"] for line in lines] == list(range(1, ITERATIONS + 1))
    drawn = EventAccumulator(str(run / "tensorboard"))
    drawn.Reload()
    assert [event.step for event in drawn.Scalars("training/total")] == list(range(1, ITERATIONS + 1))
    assert [event.step for event in drawn.Scalars("r2r/val_unseen/spl")] == [10, 20, 30]
    assert [event.value for event in drawn.Scalars("training/total")] == pytest.approx(
        [line["total"] for line in lines]
    )


def test_a_run_leaves_logs_and_curves(whole: Path) -> None:
    check_curves(whole)


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupted_run_ends_with_the_same_bits(
    house: Path, whole: Path, tmp_path: Path, name: str, code: int
) -> None:
    run = tmp_path / "a run"
    words = spoken("train", "demo", "--data", house, "--out", run, *WORDS)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (run / "log.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    said, again = err.splitlines()[-1].split("; go on with: ")
    done = int(said.removeprefix("stopped after ").removesuffix(" updates"))
    assert 0 < done < ITERATIONS
    assert again == f"vlnbert train --resume '{run}' --threads 1"
    outcome = called(*shlex.split(again)[1:])
    assert outcome.code == 0
    assert same(weights(whole), weights(run))
    assert same(best(whole), best(run))
    check_curves(run)


def test_sigterm_ends_a_validation_within_seconds(house: Path, tmp_path: Path) -> None:
    """Whoever resumes makes up for it: log and best weights are those of a run that was not stopped."""
    words = ("train", "demo", "--data", str(house))
    short = (*TINY, "--training.iterations", "4", "--training.validate-every", "2")
    place, run = "vlnbert.learning.navigator_recipe.NavigatorRecipe.scores", tmp_path / "run"
    whole, spoken_words = tmp_path / "whole", [*words, "--out", str(run), *short]
    code, told = interrupted(spoken_words, place, tmp_path, tmp_path, signal.SIGTERM, 10)
    assert code == 143
    assert told.splitlines()[-1] == (f"stopped after 2 updates; go on with: vlnbert train --resume {run} --threads 1")
    assert not (run / "best").exists()
    assert called("train", "--resume", run, "--threads", 1).code == 0
    assert called(*words, "--out", whole, *short).code == 0
    assert same(weights(whole), weights(run))
    assert same(best(whole), best(run))
    logs = [[{**line, "time": 0} for line in read_log(one / "log.jsonl")] for one in (run, whole)]
    assert logs[0] == logs[1]


def test_to_resume_what_is_done_is_harmless(run: Callable, whole: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(whole, tmp_path / "copy")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    outcome = run("train", "--resume", copy)
    assert outcome.code == 0
    assert f"{copy}: {ITERATIONS} updates" in outcome.out
    assert all(path.read_bytes() == content for path, content in before.items())
    check_curves(copy)


def test_the_menu_of_presets(run: Callable) -> None:
    outcome = run("train", "--help")
    assert outcome.code == 0
    for preset in presets.values():
        assert f"  {preset.name} " in outcome.out
        assert preset.description in outcome.out
    assert run("train").code == 2


def test_help_shows_every_setting(run: Callable) -> None:
    outcome = run("train", "r2r-open", "--help-all")
    assert outcome.code == 0
    shown = " ".join(outcome.out.replace("│", " ").split())
    assert "examples: vlnbert train r2r-open --data data --out runs/r2r-open" in shown
    assert "--training.iterations INT Updates of the weights. (default: 4500)" in shown
    assert "--training.objective.imitation FLOAT Weight of the imitation loss" in shown
    assert "--navigator.hidden INT Width of a token. (default: 384)" in shown
    assert "--train-on STR ... Splits to learn from" in shown
    shown = " ".join(run("train", "--resume", "run", "--help").out.replace("│", " ").split())
    assert "examples: vlnbert train --resume" in shown


def test_who_starts_from_nothing_is_told(run: Callable, house: Path, tmp_path: Path) -> None:
    words = ("--data", house, "--out", tmp_path / "run", *TINY, "--training.iterations", "1", "--train-on", "r2r/train")
    outcome = run("train", "r2r-one-stream", *words, "--navigator.layers", "1")
    assert outcome.code == 0
    assert "starting from random weights; the paper's agent starts from OSCAR's: --start FILE" in outcome.err


def test_the_way_back_names_what_was_chosen() -> None:
    assert _again(Path("run"), data=None, device="cpu") == "vlnbert train --resume run"
    expected = "vlnbert train --resume 'a run' --data 'my data' --device cuda --threads 2"
    assert _again(Path("a run"), data=Path("my data"), device="cuda", threads=2) == expected


def test_a_constant_rate_goes_on_beyond_its_end(run: Callable, house: Path, tmp_path: Path) -> None:
    words = ("--training.iterations", "2", "--training.schedule", "constant")
    assert run("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY, *words).code == 0
    outcome = run("train", "--resume", tmp_path / "run", "--training.iterations", "4")
    assert f"{tmp_path / 'run'}: 4 updates" in outcome.out
