"""A navigator's folder alone walks as its run does: it says what it was shown."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT, TINY
from tests.features.samples import write_bert
from vlnbert.api.exploring import open_explorer
from vlnbert.features.spec import IN_MEMORY
from vlnbert.learning.run_folder import last_checkpoint

REVERIE = "reverie/val_unseen"


@pytest.fixture(scope="module")
def bert(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("encoders") / "small", house / "vocab.txt")


@pytest.fixture(scope="module")
def seeing_words(house: Path, bert: Path, tmp_path_factory: pytest.TempPathFactory) -> vln.Run:
    """A run for REVERIE by channels, through an encoder in a folder."""
    spec = vln.FeatureSpec(views="captions,observations", objects="detections", max_objects=3, encoder=str(bert))
    folder = tmp_path_factory.mktemp("shown") / "run"
    return vln.train("demo-reverie", house, folder, features=spec, **{**TINY, "iterations": 3}, **QUIETLY)


def same(one: vln.Evaluations, other: vln.Evaluations, split: str) -> bool:
    walked = (each[split].trajectories.viewpoint for each in (one, other))
    return one.scores[split] == other.scores[split] and torch.equal(*walked)


def test_channels(seeing_words: vln.Run, house: Path, bert: Path, tmp_path: Path) -> None:
    """All but the encoder's place, which is another on every machine; as a folder, opened, and saved again."""
    expected = vln.evaluate(seeing_words, split=REVERIE, bar=False)
    best = seeing_words.folder / "best"
    shown = {"views": "captions,observations", "objects": "detections", "max_objects": 3, "encoder": "small/"}
    assert json.loads((best / "config.json").read_text())["features"] == shown
    assert json.loads((last_checkpoint(seeing_words.folder) / "config.json").read_text())["features"] == shown
    assert str(house) not in (best / "config.json").read_text()
    vln.Navigator.from_pretrained(best).save_pretrained(tmp_path / "again")
    here = vln.FeatureSpec(encoder=str(bert))
    for agent in (best, seeing_words.navigator, tmp_path / "again"):
        assert same(vln.evaluate(agent, house, REVERIE, features=here, bar=False), expected, REVERIE)


def test_an_encoder_that_lies_elsewhere(
    seeing_words: vln.Run, house: Path, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = r"^best reads what it sees through the encoder small/, a folder that is not here; name it: .*encoder="
    with pytest.raises(vln.UsageError, match=said):
        vln.evaluate(seeing_words.folder / "best", house, REVERIE, bar=False)
    monkeypatch.chdir(bert.parent)
    assert vln.evaluate(seeing_words.folder / "best", house, REVERIE, bar=False).scores


def test_channels_without_an_encoder(house: Path, tmp_path: Path) -> None:
    """Nothing needs to be said, whoever asks; what is said, or the data was opened with, still wins."""
    changes = {**TINY, "iterations": 3}
    run = vln.train("demo", house, tmp_path / "run", features="detections", **changes, **QUIETLY)
    expected = vln.evaluate(run, split=SPLIT, bar=False)
    best = run.folder / "best"
    assert same(vln.evaluate(best, house, SPLIT, bar=False), expected, SPLIT)
    compared = vln.compare([run, best], house, SPLIT, bar=False)
    assert list(compared.scores.values()) == [expected.scores[SPLIT]] * 2
    first = expected[SPLIT].episodes.ids[0]
    steps = [vln.episode(agent, first, house, SPLIT, bar=False).record.steps for agent in (run, best)]
    assert steps[0] == steps[1]
    assert open_explorer([best], house, device=None, threads=1).walkers
    for data, features in ((house, "detection-places"), (vln.open_data(house, features="detection-places"), None)):
        with pytest.raises(vln.UsageError, match=r"best sees views .* wide, and they are"):
            vln.evaluate(best, data, SPLIT, features=features, bar=False)


def test_a_file_by_its_name(house: Path, tmp_path: Path) -> None:
    """A second file beside it makes no difference; where it is not there, one line says which is meant."""
    folder = shutil.copytree(house, tmp_path / "house")
    (views,) = (path for path in (folder / "features").iterdir() if not path.name.startswith("obj"))
    shutil.copy(views, views.with_name("mine.hdf5"))
    mine = vln.FeatureSpec(views=str(views.with_name("mine.hdf5")))
    run = vln.train("demo", folder, tmp_path / "run", features=mine, **{**TINY, "iterations": 3}, **QUIETLY)
    best = run.folder / "best"
    assert vln.Navigator.from_pretrained(best).features == {"views": "mine.hdf5", "objects": "off"}
    expected = vln.evaluate(run, split=SPLIT, bar=False)
    assert same(vln.evaluate(best, folder, SPLIT, bar=False), expected, SPLIT)
    with pytest.raises(vln.DataError, match=r"features/mine\.hdf5: no such") as caught:
        vln.evaluate(best, house, SPLIT, bar=False)
    assert len(str(caught.value).splitlines()) == 1
    assert same(vln.evaluate(best, house, SPLIT, features=str(views), bar=False), expected, SPLIT)


def test_features_of_ones_own(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    changes = {**TINY, "iterations": 3}
    values = torch.rand(len(vln.open_data(house).world), 36, 5, generator=torch.Generator().manual_seed(0))
    held = vln.train("demo", house, tmp_path / "held", features=values, **changes, **QUIETLY)
    best = held.folder / "best"
    assert vln.Navigator.from_pretrained(best).features == {"views": IN_MEMORY, "objects": "off"}
    with pytest.raises(vln.UsageError, match="what was held in memory; give it again"):
        vln.evaluate(best, house, SPLIT, bar=False)
    assert vln.evaluate(best, house, SPLIT, features=values, bar=False).scores
    vln.register_features("mine")(lambda world: values)
    named = vln.train("demo", house, tmp_path / "named", features="mine", **changes, **QUIETLY)
    assert vln.Navigator.from_pretrained(named.folder / "best").features == {"views": "mine", "objects": "off"}
    expected = vln.evaluate(named, split=SPLIT, bar=False)
    assert same(vln.evaluate(named.folder / "best", house, SPLIT, bar=False), expected, SPLIT)


def test_a_resumed_run_says_the_same(house: Path, tmp_path: Path) -> None:
    """Also one whose checkpoint was written before navigators said it."""
    run = vln.train("demo", house, tmp_path / "run", features="detections", schedule="constant", **TINY, **QUIETLY)
    for path in run.folder.rglob("config.json"):
        settings: dict[str, Any] = json.loads(path.read_text())
        del settings["features"]
        path.write_text(json.dumps(settings))
        path.with_name("digests.json").unlink()
    assert vln.Navigator.from_pretrained(last_checkpoint(run.folder)).features is None
    run.resume(iterations=7, threads=1, bar=False, tensorboard=False)
    shown = {"views": "detections", "objects": "off"}
    assert vln.Navigator.from_pretrained(last_checkpoint(run.folder)).features == shown


def test_a_folder_of_before_is_shown_the_only_file(trained: vln.Run, house: Path, tmp_path: Path) -> None:
    old = shutil.copytree(trained.folder / "best", tmp_path / "old")
    settings = json.loads((old / "config.json").read_text())
    assert settings.pop("features") == {"objects": "off"}
    (old / "config.json").write_text(json.dumps(settings))
    (old / "digests.json").unlink()
    expected = vln.evaluate(trained, split=SPLIT, bar=False)
    assert same(vln.evaluate(old, house, SPLIT, bar=False), expected, SPLIT)
