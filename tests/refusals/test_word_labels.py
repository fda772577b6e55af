"""Word labels that are asked for where there are none: refused in one line, before anything is written."""

import shutil
from pathlib import Path

import pytest

import vlnbert as vln
from tests.api.conftest import QUIETLY, TINY
from tests.cli.conftest import called
from tests.learning.samples import write_labels
from tests.refusals.test_python import refused
from vlnbert.data.inventory import describe_need
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.objective import ObjectiveConfig

ALIGN = {**QUIETLY, **TINY, "alignment": 0.5}


@pytest.mark.parametrize(
    "more",
    [
        {"train_on": ["r2r/val_seen"]},
        {"train_on": ["reverie/train"]},
        {"train_on": ["r4r/train"]},
    ],
    ids=str,
)
def test_a_split_without_labels(data: vln.Data, tmp_path: Path, more: dict[str, list[str]]) -> None:
    words = (
        "alignment needs word labels, which r2r/train alone has, and that is not learned from; "
        "add it to train_on, or do without: alignment=0"
    )
    refused(lambda: vln.train("demo", data, tmp_path / "run", **ALIGN, **more), words)
    assert not (tmp_path / "run").exists()


def test_a_preset_of_reverie(data: vln.Data, tmp_path: Path) -> None:
    words = "alignment needs word labels, which r2r/train alone has"
    refused(lambda: vln.train("demo-reverie", data, tmp_path / "run", **ALIGN), words)
    assert not (tmp_path / "run").exists()


def test_no_labels_in_the_folder(data: vln.Data, tmp_path: Path) -> None:
    words = "no such file of word labels; get it with: vlnbert data fetch DIR --only landmarks"
    refused(lambda: vln.train("demo", data, tmp_path / "run", **ALIGN), words)
    refused(
        lambda: vln.train("demo", data, tmp_path / "run", **{**ALIGN, "features": "captions"}), words
    )  # not read yet
    assert not (tmp_path / "run").exists()


def test_speakers_have_no_alignment(data: vln.Data, tmp_path: Path) -> None:
    refused(lambda: vln.train("speaker-demo", data, tmp_path / "run", alignment=0.5), "no setting 'alignment'")


def test_the_command_line_names_its_own_options(house: Path, tmp_path: Path) -> None:
    asked = ("--training.objective.alignment", 1, "--train-on", "r2r/val_seen")
    outcome = called("train", "demo", "--data", house, "--out", tmp_path / "run", *asked)
    assert outcome.code == 2
    [line] = outcome.err.splitlines()
    assert line.startswith("vlnbert: --training.objective.alignment needs word labels, which r2r/train alone has")
    assert line.endswith("; add it to --train-on, or do without: --training.objective.alignment 0")
    assert not (tmp_path / "run").exists()


def test_where_there_are_labels_one_can_train(house: Path, tmp_path: Path) -> None:
    labelled = write_labels(shutil.copytree(house, tmp_path / "house"))
    run = vln.train("demo", labelled, tmp_path / "run", **ALIGN)
    assert run.experiment.training.objective.alignment == 0.5


def test_what_needs_labels_says_so() -> None:
    aligned = Experiment(training=TrainConfig(objective=ObjectiveConfig(alignment=0.5)))
    assert set(aligned.needs) - set(Experiment().needs) == {"landmarks"}
    assert describe_need("landmarks") == "r2r/LAR2R_train.json"
