"""Rows that see their house in a mirror: refused, in one line and before anything is written, where they cannot be."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.api.conftest import QUIETLY, TINY
from tests.cli.conftest import called
from tests.refusals.test_python import refused

FLIP = {**QUIETLY, **TINY, "flip": 0.5}


@pytest.mark.parametrize(
    ("features", "what"),
    [
        (None, "a file of image features"),  # the only one of the data folder
        ("features/views.hdf5", "a file of image features"),
        ("captions,detection-places", "detection-places"),
        ("mine", "mine"),
        ("detections,mine", "mine"),
    ],
)
def test_what_a_mirror_would_change(
    data: vln.Data, tmp_path: Path, forget_plugins: Callable[[], None], features: str | None, what: str
) -> None:
    vln.register_features("mine")(lambda world: torch.ones(len(world), 36, 3))
    out, seen = tmp_path / "run", {} if features is None else {"features": features}
    words = f"flip changes left and right, but {what} cannot be seen in a mirror; do without: flip=0"
    refused(lambda: vln.train("demo", data, out, **FLIP, **seen), words)
    assert not out.exists()


def test_objects_by_their_pictures(data: vln.Data, tmp_path: Path) -> None:
    words = "but a file of objects' features cannot be seen in a mirror"
    refused(lambda: vln.train("demo-reverie", data, tmp_path / "run", **FLIP, features="detections"), words)
    assert not (tmp_path / "run").exists()


def test_what_is_no_feature_is_no_matter_of_mirrors(data: vln.Data, tmp_path: Path) -> None:
    seen = vln.FeatureSpec(views="detections", objects="box_shape")
    words = r"no features of objects 'box_shape': no file and no channel \(.*\); did you mean box-shape\?"
    with pytest.raises(vln.UsageError, match=words):
        vln.train("demo-reverie", data, tmp_path / "run", **FLIP, features=seen)


def test_features_in_memory(data: vln.Data, house: Path, tmp_path: Path) -> None:
    held: Any = torch.ones(len(data.world), 36, 3)
    words = "but features held in memory cannot be seen in a mirror; do without: flip=0"
    refused(lambda: vln.train("demo", data, tmp_path / "run", **FLIP, features=held), words)
    other = vln.open_data(house, features=held)
    refused(lambda: vln.train("demo", other, tmp_path / "run", **FLIP), words)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_without_the_words(house: Path, tmp_path: Path) -> None:
    other = shutil.copytree(house, tmp_path / "other")
    pieces = (other / "vocab.txt").read_text().splitlines()
    (other / "vocab.txt").write_text("\n".join(piece for piece in pieces if piece != "left"))
    words = "flip needs the words left and right, which the vocabulary lacks; do without: flip=0"
    refused(lambda: vln.train("demo", other, tmp_path / "run", **FLIP, features="detections"), words)
    assert not (tmp_path / "run").exists()


def test_speakers_have_no_flips(data: vln.Data, tmp_path: Path) -> None:
    for name in ("flip", "training.flip"):
        refused(
            lambda name=name: vln.train("speaker-demo", data, tmp_path / "run", **{name: 0.5}), f"no setting '{name}'"
        )
    assert not (tmp_path / "run").exists()


def test_the_command_line_names_its_own_option(house: Path, tmp_path: Path) -> None:
    outcome = called("train", "demo", "--data", house, "--out", tmp_path / "run", "--training.flip", "0.5")
    assert outcome.code == 2
    [line] = outcome.err.splitlines()
    assert line.startswith("vlnbert: --training.flip changes left and right, but a file of image features")
    assert line.endswith("; do without: --training.flip 0")
    assert not (tmp_path / "run").exists()
