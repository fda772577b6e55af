"""`vln.speak`: paths of a split or by name, told by a run or a speaker; and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT
from tests.conftest import TinyData
from vlnbert.errors import DataError, UnknownNameError, UsageError, VlnbertError

SHAPE: dict[str, Any] = {
    **{"hidden": 32, "heads": 2, "inner": 64, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0},
    **{"iterations": 60, "batch": 16, "validate_every": 30, "report_every": 10, "learning_rate": 1e-2, "warmup": 5},
}


@pytest.fixture(scope="module")
def spoken(data: vln.Data, tmp_path_factory: pytest.TempPathFactory) -> vln.Run:
    """A run of a small speaker that has learned to end its sentences."""
    return vln.train("speaker-demo", data, tmp_path_factory.mktemp("api") / "speaker", **QUIETLY, **SHAPE)


@pytest.fixture(scope="module")
def told(spoken: vln.Run) -> vln.Instructions:
    return vln.speak(spoken, split=SPLIT, bar=False)


def test_every_path_of_a_split_is_told_once(data: vln.Data, told: vln.Instructions) -> None:
    episodes = data.episodes(SPLIT)
    known = {name.rpartition("_")[0] for name in episodes.ids}
    assert sorted([one.id for one in told] + list(told.left_out)) == sorted(known)
    assert len(told) > len(known) / 2
    said = {name.rpartition("_")[0]: [] for name in episodes.ids}
    for name, text in zip(episodes.ids, episodes.texts, strict=True):
        said[name.rpartition("_")[0]].append(text)
    for one in told:
        assert one.text
        assert one.log_probability < 0
        assert list(one.people) == said[one.id]
        assert one.distance > 0


def test_it_prints_and_writes(told: vln.Instructions, tmp_path: Path) -> None:
    assert told[0].id in repr(told)
    assert told[0].text.split()[0] in repr(told)
    assert "<table" in told._repr_html_()
    items = json.loads(told.to_json())
    assert [item["instructions"] for item in items] == [[text] for text in told.texts]
    assert json.loads(told.write(tmp_path / "told.json").read_text()) == items
    assert set(items[0]) >= {"path_id", "scan", "path", "heading", "distance"}


def test_what_is_written_is_read_as_a_split(house: Path, told: vln.Instructions, data: vln.Data) -> None:
    """In R2R's form: our own reader takes it."""
    file = house / "r2r/R2R_told.json"
    try:
        told.write(file)
        episodes = data.episodes("r2r/told")
    finally:
        file.unlink()
    assert list(episodes.texts) == told.texts


def test_a_path_by_its_viewpoints_is_told_like_the_split_s(
    spoken: vln.Run, told: vln.Instructions, data: vln.Data
) -> None:
    route = f"{told[0].scan}:{','.join(told[0].path)}"
    [one] = vln.speak(spoken.speaker, data, paths=[route], bar=False)
    assert one.path == told[0].path
    assert one.text
    assert one.people == ()


@pytest.mark.parametrize("decoding", ["greedy", "nucleus", "beam"])
def test_ways_to_speak(spoken: vln.Run, decoding: Any) -> None:
    first, again = (vln.speak(spoken, split=SPLIT, decoding=decoding, bar=False, batch=batch) for batch in (8, 100))
    assert first.texts == again.texts
    if decoding == "nucleus":
        assert first.texts != vln.speak(spoken, split=SPLIT, decoding=decoding, seed=1, bar=False).texts


def test_a_folder_of_its_own_speaks_too(
    spoken: vln.Run, told: vln.Instructions, data: vln.Data, tmp_path: Path
) -> None:
    spoken.speaker.save_pretrained(tmp_path / "mine")
    assert vln.speak(tmp_path / "mine", data, SPLIT, bar=False).texts == told.texts
    assert vln.speak(spoken.folder, split=SPLIT, checkpoint="last", bar=False).texts
    with pytest.raises(UsageError, match="is no run, so it has no last checkpoint"):
        vln.speak(tmp_path / "mine", data, SPLIT, checkpoint="last", bar=False)


def test_left_out_paths_are_named(spoken: vln.Run, data: vln.Data, capsys: pytest.CaptureFixture[str]) -> None:
    mute = vln.Speaker.from_pretrained(spoken.weights)
    with torch.no_grad():
        mute.bias[mute.marks[1]] = 1e4
    told = vln.speak(mute, data, SPLIT)
    assert len(told) == 0
    assert "are empty" in capsys.readouterr().err
    assert f"left out: {told.left_out[0]}" in repr(told)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({}, "name a split or paths"),
        ({"split": SPLIT, "paths": ["a:b"]}, "name a split or paths"),
        ({"paths": ["nowhere"]}, "'nowhere' is no path; write it like scan:viewpoint,viewpoint"),
        ({"paths": ["a:"]}, "'a:' is no path"),
        ({"paths": []}, "no path is given"),
        ({"paths": ["attic:b"]}, "no scan 'attic'"),
        ({"split": "r2r/test"}, "withholds its paths"),
        ({"split": "r2r/nothing"}, "no r2r split"),
        ({"split": SPLIT, "decoding": "greedi"}, "did you mean greedy"),
        ({"split": SPLIT, "top_p": 2.0}, "top_p is 2.0"),
        ({"split": SPLIT, "max_tokens": 1000}, "max_tokens=1000 is more than the 80"),
        ({"split": SPLIT, "batch": 0}, "batch=0 is out of range"),
    ],
)
def test_what_cannot_be_told(spoken: vln.Run, named: dict[str, Any], words: str) -> None:
    with pytest.raises(VlnbertError) as caught:
        vln.speak(spoken, **named, bar=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_path_that_is_not_connected(spoken: vln.Run, data: vln.Data) -> None:
    world = data.world
    start = 0
    far = next(
        number
        for number in range(len(world))
        if world.scan_of[number] == world.scan_of[start] and number not in world.neighbour[start].tolist()
    )
    names = f"{world.scans[int(world.scan_of[start])]}:{world.viewpoints[start]},{world.viewpoints[far]}"
    with pytest.raises(UsageError, match="path 1 is not connected: no step leads from"):
        vln.speak(spoken, paths=[names], bar=False)


def test_runs_of_other_kinds_are_refused(spoken: vln.Run, trained: vln.Run, data: vln.Data) -> None:
    with pytest.raises(UsageError, match="is a navigator's run, and a navigator does not speak"):
        vln.speak(trained, split=SPLIT, bar=False)
    for call in (lambda: vln.evaluate(spoken, bar=False), lambda: vln.report(spoken), lambda: spoken.navigator):
        with pytest.raises(UsageError, match="is a speaker's run, and a speaker does not walk; let it tell of paths"):
            call()
    with pytest.raises(UsageError, match="is no speaker"):
        vln.speak(7, data, SPLIT, bar=False)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="does not describe a speaker"):
        vln.speak(trained.weights, data, SPLIT, bar=False)


def test_other_vocabularies_and_channels_are_refused(spoken: vln.Run, tiny: TinyData, data: vln.Data) -> None:
    with pytest.raises(UsageError, match=r"has another vocabulary, of .* word pieces, than"):
        vln.speak(spoken, vln.open_data(tiny.root), "r2r/val_unseen", bar=False)
    with pytest.raises(
        UsageError, match="trained with views the only feature file, and the data is opened with captions"
    ):
        vln.speak(spoken, vln.open_data(data, features="captions"), SPLIT, bar=False)


def test_a_run_tells_how_it_went(spoken: vln.Run, tmp_path: Path) -> None:
    assert "best perplexity" in str(spoken)
    assert "perplexity r2r/val_unseen" in spoken.table().text()
    figure = vln.curves(spoken, tmp_path / "curves.png")
    assert figure.axes[1].get_title() == f"{SPLIT}, perplexity"
    assert len(figure.axes[1].lines[0].get_xdata()) == 2
    assert {text.get_text() for text in figure.axes[0].get_legend().get_texts()} == {"total loss", "cross entropy loss"}


def test_unknown_settings_of_a_speaker_are_told(data: vln.Data, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no setting 'decoder_layer'; did you mean decoder_layers"):
        vln.train("speaker-demo", data, tmp_path / "run", decoder_layer=2)
    assert not (tmp_path / "run").exists()
