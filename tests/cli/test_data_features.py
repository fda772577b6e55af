"""`vlnbert features captions` and `views`: what is made and where it is kept; what is missing is told in one line."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.features.samples import write_bert
from vlnbert.features.views import facing_views, index_captions, open_labels
from vlnbert.world.build import open_world

WORDS = ("features", "captions", "--data")


@pytest.fixture(scope="module")
def bert(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"), house / "vocab.txt")


def test_an_object_tells_what_was_made(run: Callable, house: Path, bert: Path, cache: Path) -> None:
    outcome = run(*WORDS, house, "--encoder", bert, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    facts = json.loads(outcome.out)
    world = open_world(house)
    classes = len(open_labels(world, house / "captions")[1])
    captions = len(index_captions(world, house / "captions", facing_views(world))[0])
    seconds = facts.pop("seconds")
    assert facts == {
        "views": facing_views(world).count,
        "captions": captions,
        "caption_width": 24,
        "classes": classes,
        "width": 24 + classes,
        "cache": str(next(cache.glob("captions-*.safetensors"))),
    }
    assert 0 < seconds < 600
    again = json.loads(run(*WORDS, house, "--encoder", bert, "--json").out)
    assert {**facts, "seconds": again["seconds"]} == again


def test_a_table_tells_the_same(run: Callable, house: Path, bert: Path) -> None:
    facts = json.loads(run(*WORDS, house, "--encoder", bert, "--json").out)
    printed = run(*WORDS, house, "--encoder", bert).out
    rows = dict(re.split(r"  +", line.strip()) for line in printed.splitlines() if re.search(r"\S  +[\d,.]+$", line))
    assert rows["views that face a neighbour"] == f"{facts['views']:,}"
    assert rows["distinct captions"] == f"{facts['captions']:,}"
    assert rows["width of a caption's embedding"] == "24"
    assert rows["classes of detected objects"] == str(facts["classes"])
    assert rows["width of a view's feature"] == str(facts["width"])
    assert printed.splitlines()[-1] == f"cached in {facts['cache']}"


def test_a_cache_that_cannot_be_written_is_told(
    run: Callable, house: Path, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("VLNBERT_CACHE", str(tmp_path / "file" / "below"))
    assert json.loads(run(*WORDS, house, "--encoder", bert, "--json").out)["cache"] is None
    assert "not cached" in run(*WORDS, house, "--encoder", bert).out


def test_what_is_missing_is_one_line(run: Callable, house: Path, bert: Path, tmp_path: Path) -> None:
    bare = shutil.copytree(house, tmp_path / "bare")
    shutil.rmtree(bare / "captions")
    for words, expected in (
        ((bare, "--encoder", bert), "no such caption file; get them with"),
        ((tmp_path / "no-data", "--encoder", bert), "no such data folder"),
        ((house, "--encoder", tmp_path / "no-bert"), "no such file or folder"),
        ((house, "--encoder", bert, "--device", "tpu7"), "no device 'tpu7' here"),
    ):
        outcome = run(*WORDS, *words)
        assert (outcome.code, outcome.out) == (2, "")
        assert len(outcome.err.splitlines()) == 1
        assert expected in outcome.err


def test_channels_and_their_widths(run: Callable, house: Path, bert: Path) -> None:
    words = ("features", "views", "--data", house, "--encoder", bert, "--views", "observations,detections")
    outcome = run(*words, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    facts = json.loads(outcome.out)
    world = open_world(house)
    classes = len(open_labels(world, house / "captions")[1])
    channels = {"observations-ahead": 24, "observations-above-below": 24, "detections": classes}
    assert (facts["views"], facts["width"]) == (facing_views(world).count, 48 + classes)
    assert list(facts["channels"].items()) == list(channels.items())
    printed = run(*words).out
    assert re.search(rf"all of them +{48 + classes}$", printed, flags=re.MULTILINE)


def test_channels_that_cannot_be_made_are_one_line(run: Callable, house: Path, bert: Path, tmp_path: Path) -> None:
    bare = shutil.copytree(house, tmp_path / "bare")
    shutil.rmtree(bare / "observations")
    for words, expected in (
        ((bare,), "no such observation file; get them with: vlnbert data fetch DIR --only observations"),
        ((house, "--views", "captions,pixels"), "no channel 'pixels'; known: caption-text, captions"),
        ((house, "--views", "views.hdf5"), "'views.hdf5' names no channels; known: captions, observations"),
    ):
        outcome = run("features", "views", "--data", *words, "--encoder", bert)
        assert (outcome.code, outcome.out) == (2, "")
        assert len(outcome.err.splitlines()) == 1
        assert expected in outcome.err
