"""`vln.score_speaker`: words, likelihood and, what counts, whether a navigator can follow."""

import json

import pytest
import torch

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT, TINY
from tests.api.test_speaking import SHAPE
from vlnbert.errors import UsageError
from vlnbert.evaluation.text_metrics import bleu, cider
from vlnbert.house import generate


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> vln.Data:
    """With a house more, to keep one out."""
    folder = tmp_path_factory.mktemp("scores") / "house"
    generate(folder, scans=4, paths_per_scan=6)
    return vln.open_data(folder)


@pytest.fixture(scope="module")
def spoken(data: vln.Data, tmp_path_factory: pytest.TempPathFactory) -> vln.Run:
    folder = tmp_path_factory.mktemp("scores") / "speaker"
    return vln.train("speaker-demo", data, folder, **QUIETLY, **SHAPE, holdout=1)


@pytest.fixture(scope="module")
def walked(data: vln.Data, tmp_path_factory: pytest.TempPathFactory) -> vln.Run:
    return vln.train("demo", data, tmp_path_factory.mktemp("scores") / "walked", **QUIETLY, **TINY)


def test_words_and_likelihood(spoken: vln.Run) -> None:
    found, told = vln.score_speaker(spoken, split=SPLIT, bar=False), vln.speak(spoken, split=SPLIT, bar=False)
    people = [one.people for one in told]
    assert found.paths == len(told)
    assert found.left_out == len(told.left_out)
    assert (found.bleu, found.cider) == (bleu(told.texts, people), cider(told.texts, people))
    assert found.perplexity == pytest.approx(spoken.progress.best, rel=1e-4), "as the training found it"
    assert "perplexity" in repr(found)
    assert set(json.loads(found.to_json())) == {"speaker", "split", "paths", "left_out", "bleu", "cider", "perplexity"}


def test_a_navigator_follows_both(spoken: vln.Run, walked: vln.Run, data: vln.Data) -> None:
    found = vln.score_speaker(spoken, split=SPLIT, navigator=walked, bar=False)
    assert found.told is not None
    assert found.people is not None
    told = vln.speak(spoken, split=SPLIT, bar=False)
    assert found.told["episodes"] == len(told)
    assert found.people["episodes"] == sum(len(one.people) for one in told)
    if not found.left_out:
        assert found.people == pytest.approx(vln.evaluate(walked, data, SPLIT, bar=False).scores[SPLIT], nan_ok=True)
    assert json.loads(found.to_json())["ratio"] == found.ratio
    assert found.ratio["ndtw"] == pytest.approx(found.told["ndtw"] / found.people["ndtw"])
    assert not {"tl", "ne", "episodes"} & set(found.ratio)
    perfect = vln.score_speaker(spoken, split=SPLIT, navigator="shortest", bar=False)
    assert perfect.ratio["spl"] == 1


def test_dev_unseen_must_be_the_same_houses(spoken: vln.Run, walked: vln.Run) -> None:
    with pytest.raises(UsageError, match="speaker and walked kept other houses out, so r2r/dev_unseen is not the same"):
        vln.score_speaker(spoken, split="r2r/dev_unseen", navigator=walked, bar=False)
    assert vln.score_speaker(spoken, split="r2r/dev_unseen", bar=False).paths > 0


def test_a_split_without_paths(spoken: vln.Run) -> None:
    with pytest.raises(UsageError, match="withholds its paths"):
        vln.score_speaker(spoken, split="r2r/test", bar=False)


def test_a_speaker_is_no_navigator(spoken: vln.Run) -> None:
    with pytest.raises(UsageError, match="a speaker does not walk"):
        vln.score_speaker(spoken, split=SPLIT, navigator=spoken, bar=False)


@pytest.mark.parametrize("navigator", [None, "shortest"])
def test_nothing_to_score(spoken: vln.Run, data: vln.Data, navigator: str | None) -> None:
    mute = vln.Speaker.from_pretrained(spoken.weights)
    with torch.no_grad():
        mute.bias[mute.marks[1]] = 1e4
    with pytest.raises(
        UsageError, match=r"wrote nothing usable for r2r/val_unseen.* \(\d+ of \d+ are empty\); train it longer"
    ):
        vln.score_speaker(mute, data, SPLIT, navigator=navigator, bar=False)


def test_sacrebleu_is_missed_before_anything_is_told(spoken: vln.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlnbert.evaluation.text_metrics.find_spec", lambda name: None)
    monkeypatch.setattr("vlnbert.api.speaking.open_speaker", lambda *given, **named: pytest.fail("too late"))
    with pytest.raises(UsageError, match=r"BLEU needs sacrebleu, which is not installed; install it with: pip install"):
        vln.score_speaker(spoken, split=SPLIT, bar=False)
