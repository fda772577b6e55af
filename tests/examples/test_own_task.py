"""A task outside the package: trained, resumed and evaluated, from Python and from the command line."""

from pathlib import Path

import pytest

import vlnbert as vln
from vlnbert.errors import UsageError
from vlnbert.registry import load_plugin

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_task.py"
SPLITS = {"train_on": "exact/train", "validate_on": "exact/val_unseen", "best_on": "exact/val_unseen"}
SMALL = {"batch": 4, "max_steps": 8, "hidden": 16, "heads": 2, "inner": 32, "iterations": 6, "validate_every": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> vln.Data:
    load_plugin(EXAMPLE)
    return vln.generate_house(tmp_path_factory.mktemp("task") / "house", scans=3, bar=False)


def test_one_file(data: vln.Data) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    assert "exact/val_unseen" in data.splits


def test_who_follows_its_teacher_succeeds(data: vln.Data) -> None:
    found = vln.evaluate("shortest", data, ["exact/val_unseen", "r2r/val_unseen"], bar=False).scores
    assert found["exact/val_unseen"]["sr"] == 1.0
    near = vln.evaluate("random", data, ["exact/val_unseen", "r2r/val_unseen"], bar=False).scores
    assert near["exact/val_unseen"]["sr"] < near["r2r/val_unseen"]["sr"], "it asks for more"


def test_it_trains_resumes_and_evaluates(data: vln.Data, tmp_path: Path) -> None:
    run = vln.train("demo", data, tmp_path / "run", bar=False, tensorboard=False, **SPLITS, **SMALL)
    best = max(line["scores"]["exact/val_unseen"]["sdtw"] for line in run.log if "scores" in line)
    assert run.progress.best == best, "its own metric chooses"
    assert run.resume(bar=False, tensorboard=False).progress == run.progress
    assert vln.evaluate(run, split="exact/val_unseen", bar=False).scores["exact/val_unseen"]["sdtw"] == best


def test_faults_are_one_line() -> None:
    with pytest.raises(UsageError, match=r"the task nameless|has no name; give it one"):
        vln.register_task(type("Nameless", (vln.Task,), {}))
    with pytest.raises(UsageError, match=r"the task mute has no reader; define read\(self, path\)"):
        vln.register_task(type("Mute", (vln.Task,), {"name": "mute"}))
    with pytest.raises(UsageError, match="two tasks are called 'r2r'"):
        vln.register_task(type("Again", (vln.R2R,), {"__module__": "elsewhere"}))
