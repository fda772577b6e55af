"""From `--features.views captions,observations` to a run that is resumed, evaluated and refuses other data."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, called
from tests.features.samples import write_bert
from vlnbert.navigator import Navigator

SHORT = (*TINY, "--training.iterations", "2", "--training.validate-every", "2")
VIEWS = "captions,observations"


@pytest.fixture(scope="module")
def bert(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"), house / "vocab.txt")


@pytest.fixture(scope="module")
def trained(house: Path, bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("channels") / "run"
    words = ("--features.views", VIEWS, "--features.encoder", bert)
    outcome = called("train", "demo", "--data", house, "--out", run, *SHORT, *words)
    assert outcome.code == 0, outcome.err
    return run


def test_a_run_remembers_its_channels(run: Callable, house: Path, trained: Path) -> None:
    record = json.loads((trained / "run.json").read_text())
    assert record["experiment"]["features"]["views"] == VIEWS
    assert {"captions", "observations", "the encoder"} <= set(record["fingerprints"])
    classes = json.loads(run("features", "views", "--data", house, "--views", "detections", "--json").out)["width"]
    assert Navigator.from_pretrained(trained / "best").config.feature_width == 3 * 24 + classes
    scores = json.loads(run("evaluate", trained, "--data", house, "--splits", "val_unseen", "--json").out)
    logged = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    seen = next(line["scores"]["r2r/val_unseen"] for line in logged if "scores" in line)
    assert scores["r2r/val_unseen"]["spl"] == pytest.approx(seen["spl"])
    assert run("train", "--resume", trained).code == 0


def test_its_best_navigator_alone_does_too(run: Callable, house: Path, bert: Path, trained: Path) -> None:
    """All but where the encoder lies; the card and an inspection tell it."""
    words = ("--data", house, "--splits", "val_unseen", "--json")
    alone = run("evaluate", trained / "best", *words, "--features.encoder", bert)
    assert json.loads(alone.out) == json.loads(run("evaluate", trained, *words).out)
    lost = run("evaluate", trained / "best", *words)
    assert (lost.code, len(lost.err.splitlines())) == (2, 1)
    assert f"encoder {bert.name}/, a folder that is not here; name it: --features.encoder DIR" in lost.err
    told = f"views {VIEWS}; encoder {bert.name}/"
    assert f"| shown | {told} |" in (trained / "best" / "README.md").read_text()
    for source in (trained, trained / "best"):
        assert f"  shown {told}" in run("weights", "inspect", source).out.splitlines()
        shown = json.loads(run("weights", "inspect", source, "--json").out)["features"]
        assert shown == {"views": VIEWS, "objects": "off", "encoder": f"{bert.name}/"}


def test_other_observations_are_other_data(run: Callable, house: Path, trained: Path, tmp_path: Path) -> None:
    other = shutil.copytree(house, tmp_path / "other")
    path = next((other / "observations").glob("*.json"))
    path.write_text(path.read_text().replace("hallway", "kitchen"))
    outcome = run("train", "--resume", trained, "--data", other)
    assert (outcome.code, "observations changed since the run began" in outcome.err) == (2, True)


@pytest.mark.parametrize("objects", ["detections", "detections,observations"])
def test_objects_without_names(run: Callable, house: Path, bert: Path, tmp_path: Path, objects: str) -> None:
    seen = ("--features.views", VIEWS, "--features.objects", objects, "--features.encoder", bert)
    outcome = run("train", "demo-reverie", "--data", house, "--out", tmp_path / "run", *SHORT, *seen)
    assert outcome.code == 0, outcome.err
    said = json.loads(run("evaluate", tmp_path / "run", "--data", house, "--splits", "val_unseen", "--json").out)
    assert said["reverie/val_unseen"]["rgs"] is not None


def test_a_channel_that_is_not_there(run: Callable, house: Path, tmp_path: Path) -> None:
    for setting in ("--features.views", "--features.objects"):
        outcome = run("train", "demo-reverie", "--data", house, "--out", tmp_path / "run", setting, "captions,pixels")
        assert outcome.code == 2
        assert len(outcome.err.splitlines()) == 1
        assert "no channel" in outcome.err
    assert not (tmp_path / "run").exists()
