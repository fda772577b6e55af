"""Runs that go on beyond their end: to the same bits as if that had been meant, or one line that says why not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.learning.samples import SCORED, SHAPE, in_use, same, weights
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.run_record import RECORD_FORMAT
from vlnbert.learning.runs import begin_run, read_record, resume_run

TRAINING = TrainConfig(iterations=2, batch=4, learning_rate=1e-3, validate_every=2, max_steps=5, warmup=3)
EXPERIMENT = Experiment(validate_on=(SCORED,), navigator=SHAPE, training=TRAINING)


def trained(house: Path, run: Path, **training: object) -> Path:
    experiment = replace(EXPERIMENT, training=replace(TRAINING, **training))
    begin_run("mine", experiment, open_data(house), run).train()
    return run


def test_a_longer_run_has_the_same_bits(house: Path, tmp_path: Path) -> None:
    whole, run = trained(house, tmp_path / "whole", iterations=5), trained(house, tmp_path / "run")
    resume_run(run, iterations=5).train()
    assert same(weights(whole), weights(run))
    assert read_record(run).experiment == read_record(whole).experiment
    before = (run / "run.json").read_bytes()
    assert resume_run(run, iterations=5).progress.iteration == 5
    assert (run / "run.json").read_bytes() == before


def test_a_run_that_never_began_can_be_extended(house: Path, tmp_path: Path) -> None:
    begin_run("mine", EXPERIMENT, open_data(house), tmp_path / "run")
    resume_run(tmp_path / "run", iterations=5).train()
    assert same(weights(trained(house, tmp_path / "whole", iterations=5)), weights(tmp_path / "run"))


def test_an_older_run_is_of_todays_format_then(house: Path, tmp_path: Path) -> None:
    """With the shape that was trained, though format 2 kept the one that was asked for."""
    run = trained(house, tmp_path / "run")
    values = json.loads((run / "run.json").read_text())
    shape = dict(values["experiment"]["navigator"])
    values["experiment"]["navigator"]["feature_width"] = 2048
    del values["asked"]
    (run / "run.json").write_text(json.dumps({**values, "format": 2}))
    resume_run(run, iterations=3)
    found = json.loads((run / "run.json").read_text())
    assert (found["format"], found["experiment"]["navigator"]) == (RECORD_FORMAT, shape)


REFUSALS = {
    "cosine": ({"schedule": "cosine"}, 5, r"its cosine learning rate comes down over 2 updates.*; begin another from"),
    "fewer": ({}, 1, r"^iterations is 1, fewer than the 2 of .*; choose more to extend it$"),
    "beyond all measure": ({}, 10**12, r"^iterations is 1000000000000; choose 1 to"),
    "stale": ({"iterations": 6, "patience": 1}, 9, r"it no longer got better \(patience\); begin another from"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_cannot_be_extended_is_told_and_left_alone(house: Path, tmp_path: Path, kind: str) -> None:
    training, iterations, expected = REFUSALS[kind]
    run = trained(house, tmp_path / "run", **{"learning_rate": 0.0, **training})
    before = (run / "run.json").read_bytes()
    with pytest.raises(UsageError, match=expected):
        resume_run(run, iterations=iterations)
    assert (run / "run.json").read_bytes() == before


def test_a_run_in_use_is_left_alone(house: Path, tmp_path: Path) -> None:
    run = trained(house, tmp_path / "run")
    before = (run / "run.json").read_bytes()
    with in_use(run), pytest.raises(DataError, match="is in use by another process"):
        resume_run(run, iterations=5)
    assert (run / "run.json").read_bytes() == before


CHANGES = {
    "dropout": (
        {"backbone": "one-stream", "cross_layers": 0},
        {},
        "dropout stands elsewhere in the one-stream navigator",
    ),
    "batches": ({}, {"accumulate": 2}, "all batches of an update come from one split"),
    "neither": ({}, {}, None),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_an_older_run_says_in_what_it_goes_on_otherwise(house: Path, tmp_path: Path, kind: str) -> None:
    shape, training, expected = CHANGES[kind]
    experiment = replace(
        EXPERIMENT,
        train_on=("r2r/train", "r2r/val_seen"),
        navigator=replace(SHAPE, **shape),
        training=replace(TRAINING, **training),
    )
    run, told = tmp_path / "run", list[str]()
    one = begin_run("mine", experiment, open_data(house), run)
    one.stopping = True  # after one update
    one.train()
    resume_run(run, tell=told.append)
    assert told == [], "it is of today's format"
    values = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**values, "format": 2}))
    resume_run(run, tell=told.append)
    line = f"{run} was begun by an older version and goes on otherwise: {expected}"
    assert told == ([] if expected is None else [line])
