"""Data, presets and weights from Python: what is there, said as tables and as plain values."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT, TINY
from tests.cli.conftest import called
from tests.features.samples import write_bert
from vlnbert.environment.environment import Environment


@pytest.fixture(scope="module")
def bert(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"), house / "vocab.txt")


def test_a_house_is_data(tmp_path: Path) -> None:
    one = vln.generate_house(str(tmp_path / "one"), seed=3, scans=3, bar=False)
    assert isinstance(one, vln.Data)
    assert {"r2r/train", "r2r/val_unseen", "reverie/test"} <= set(one.splits)
    assert repr(one).splitlines()[0] == f"Data({str(tmp_path / 'one')!r}, device='cpu')"
    assert "scans: 3" in repr(one)


def test_data_opens_what_is_asked_for(house: Path) -> None:
    data = vln.open_data(house)
    assert "world" not in vars(data), "nothing is opened before it is asked for"
    assert data.world is data.world
    assert isinstance(data.environment, Environment)
    assert data.environment.world is data.world
    split = data.split(SPLIT)
    assert split.name == SPLIT
    assert len(split.episodes) == len(split.tokens.ids) == len(data.episodes(SPLIT))
    assert vln.open_data(data) is data
    assert vln.open_data(data, features="captions").features.views == "captions"
    assert vln.open_data(data, features="captions").world is data.world


def test_check_data(house: Path, tiny: object) -> None:
    report = vln.check_data(str(house), bar=False)
    assert not report.damaged
    assert report.missing["demo"] == report.missing["demo-both"] == []
    assert report.missing["r2r-two-stream"] == ["augmented"]
    assert "r2r val_unseen" in str(report)
    assert "<table>" in report._repr_html_()
    assert json.loads(json.dumps(report.to_plain()))["presets"] == report.missing
    tiny.cut("captions/beta.json", 10)  # type: ignore[attr-defined]
    damaged = vln.check_data(tiny.root, bar=False)  # type: ignore[attr-defined]
    assert damaged.damaged
    assert "damaged" in str(damaged)


def test_check_world(data: vln.Data, house: Path) -> None:
    assert vln.check_world(data) is data
    assert isinstance(vln.check_world(str(house)), vln.Data)


def test_candidates(data: vln.Data, house: Path) -> None:
    scan = data.world.scans[0]
    found = vln.candidates(house, scan)
    outcome = called("world", "candidates", scan, "--data", house, "--json")
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert {line["viewpoint"]: line["candidates"] for line in lines} == found
    assert set(found) <= set(data.world.viewpoints)


def test_presets() -> None:
    assert isinstance(vln.presets, Mapping)
    assert "r2r-open" in vln.presets
    assert vln.presets["demo"].experiment.best_on == SPLIT
    for name, preset in vln.presets.items():
        assert preset.name == name
        assert name in str(vln.presets)
        assert preset.description in str(vln.presets)
    assert "<table>" in vln.presets._repr_html_()
    with pytest.raises(vln.VlnbertError, match="no preset 'r2r-two-steam'; did you mean r2r-two-stream"):
        vln.presets["r2r-two-steam"]


def test_features_of_captions(data: vln.Data, bert: Path, tmp_path: Path) -> None:
    """Made once, then trained on by the word captions alone."""
    made = vln.caption_features(data, str(bert), bar=False)
    assert made["caption_width"] == 24
    assert made["width"] == 24 + made["classes"]
    assert Path(made["cache"]).is_file()
    again = vln.caption_features(str(data.folder.root), str(bert), bar=False)
    assert {**again, "seconds": 0} == {**made, "seconds": 0}
    changes = {**QUIETLY, **TINY, "iterations": 1, "encoder": str(bert)}
    run = vln.train("demo", data, tmp_path / "run", features="captions", **changes)
    assert run.experiment.features == vln.FeatureSpec(views="captions", encoder=str(bert))
    assert run.navigator.config.feature_width == made["width"]
    assert vln.evaluate(run, split=SPLIT, bar=False).scores
    named = vln.open_data(data, features=vln.FeatureSpec(views="captions", encoder=str(bert)))
    other = vln.train("demo", named, tmp_path / "other", **QUIETLY, **{**TINY, "iterations": 1})
    assert other.experiment == run.experiment


def test_features_of_objects(data: vln.Data, bert: Path) -> None:
    made = vln.object_features(data, "names", str(bert), bar=False)
    assert (made["channels"], made["width"]) == ({"name": 24, "view-caption": 24}, 48)
    assert set(made["targets"]) == {"train", "val_seen", "val_unseen", "test"}
    assert made["objects"] == len(data.objects)


def test_weights_in_and_out(bert: Path, tmp_path: Path) -> None:
    seen = {"backbone": "two-stream", "layers": 1, "cross_layers": 1, "feature_width": 8, "angle_width": 4}
    report = vln.inspect_weights(str(bert), **seen)
    assert report.config is not None
    assert vln.import_weights(str(bert), str(tmp_path / "navigator"), **seen).as_json() | {"notes": 0} == (
        report.as_json() | {"notes": 0}
    )
    navigator = vln.Navigator.from_pretrained(tmp_path / "navigator")
    assert navigator.config.backbone == "two-stream"
    assert isinstance(navigator.config, vln.NavigatorConfig)
    done = vln.export_weights(str(tmp_path / "navigator"), str(tmp_path / "agent.pt"))
    assert done.backbone == "two-stream"
    assert set(torch.load(tmp_path / "agent.pt", weights_only=True)) == {"vln_bert", "critic", "vlnbert"}
    with pytest.raises(vln.VlnbertError, match="unexpected keyword argument 'backbon'; did you mean backbone"):
        vln.inspect_weights(str(bert), backbon="one-stream")
