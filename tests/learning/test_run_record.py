"""What a run says of itself in run.json: damaged ones are told in one line, older ones open."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.learning.samples import EXPERIMENT, same, weights
from vlnbert.data.data import open_data
from vlnbert.errors import DataError
from vlnbert.learning.runs import begin_run, read_record, resume_run
from vlnbert.navigator import Navigator

DAMAGES = {
    "cut": (lambda text: text[:50], "is not whole JSON"),
    "a list": (lambda text: "[]", r"is damaged \(RunRecord is \[\], where settings are expected\)"),
    "an unknown setting": (
        lambda text: text.replace('"max_steps"', '"max_step"'),
        r"\(experiment.training has no max_step\)",
    ),
    "a wrong type": (
        lambda text: text.replace('"max_steps": 5', '"max_steps": "5"'),
        "max_steps is '5', where int . None is expected",
    ),
    "a missing part": (lambda text: text.replace('"preset": "mine",', ""), "is damaged"),
    "a lost setting": (
        lambda text: text.replace('"max_steps": 5,', ""),
        r"is damaged \(it lacks experiment.training.max_steps\)",
    ),
    "lost houses": (lambda text: text.replace(',\n  "held_out": []', ""), r"is damaged \(it lacks held_out\)"),
    "nonsense": (lambda text: text.replace('"batch": 4', '"batch": 3'), "a batch of 3 has no two halves"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_told(run: Path, damage: str) -> None:
    change, expected = DAMAGES[damage]
    path = run / "run.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(
        DataError, match=rf"^{path}: .*{expected}.*; begin anew in another folder; start=.{run}. goes on"
    ):
        resume_run(run)


def aged(run: Path, version: int, *places: tuple[str, ...]) -> Path:
    """Make a run's record one of an older format, without some fields."""
    path = run / "run.json"
    record = json.loads(path.read_text())
    record["format"] = version
    for *groups, name in places:
        part = record
        for group in groups:
            part = part[group]
        del part[name]
    path.write_text(json.dumps(record))
    return path


FLIP, EMA = ("experiment", "training", "flip"), ("experiment", "training", "ema")
ALIGNMENT = ("experiment", "training", "objective", "alignment")
GROUNDED = ("experiment", "training", "objective", "grounding_rows")
KEEP = ("experiment", "training", "keep")


def test_an_older_record_need_not_know_every_setting(run: Path) -> None:
    aged(run, 3, EMA, FLIP, ALIGNMENT, GROUNDED, KEEP)
    assert resume_run(run).config.ema == 0.0


BEFORE = {
    4: (FLIP, ALIGNMENT, GROUNDED, KEEP),
    5: (ALIGNMENT, GROUNDED, KEEP),
    6: (GROUNDED, KEEP),
    7: (KEEP,),
}


@pytest.mark.parametrize(("version", "unknown"), BEFORE.items(), ids=map(str, BEFORE))
def test_a_record_of_before_a_setting_opens_and_goes_on(
    finished: Path, run: Path, version: int, unknown: tuple[tuple[str, ...], ...]
) -> None:
    path = aged(run, version, *unknown)
    assert read_record(run) == read_record(finished)
    shutil.rmtree(run / "checkpoints")
    (run / "last.json").unlink()
    trainer = resume_run(run)
    assert (trainer.config.flip, trainer.config.objective.alignment) == (0.0, 0.0)
    assert trainer.config.objective.grounding_rows == "all"
    trainer.train()
    assert same(weights(finished), weights(run))
    assert json.loads(path.read_text())["format"] == version, "to go on is not to write it anew"


@pytest.mark.parametrize(
    ("version", "places", "lost"),
    [
        (4, (EMA, FLIP, ALIGNMENT), "experiment.training.ema"),
        (4, (FLIP, ALIGNMENT, ("held_out",)), "held_out"),
        (5, (FLIP, ALIGNMENT), "experiment.training.flip"),
        (6, (ALIGNMENT,), "experiment.training.objective.alignment"),
        (7, (GROUNDED,), "experiment.training.objective.grounding_rows"),
        (8, (KEEP,), "experiment.training.keep"),
    ],
)
def test_a_record_of_every_field_lacks_none(
    run: Path, version: int, places: tuple[tuple[str, ...], ...], lost: str
) -> None:
    path = aged(run, version, *places)
    with pytest.raises(DataError, match=rf"^{path}: is damaged \(it lacks {lost}\); begin anew"):
        resume_run(run)


def test_what_a_damaged_record_is_answered_with_helps(house: Path, run: Path, tmp_path: Path) -> None:
    (run / "run.json").write_text("{")
    again = begin_run("mine", replace(EXPERIMENT, start=str(run)), open_data(house), tmp_path / "again")
    assert same(again.model.state_dict(), Navigator.from_pretrained(run / "best").state_dict())


def test_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such run; name the folder that a training wrote"):
        resume_run(tmp_path)
