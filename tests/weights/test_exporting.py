"""Our own folders: inspected, checked, exported."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from vlnbert.errors import DataError
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.weights.exporting import export_weights
from vlnbert.weights.importing import import_weights, inspect_weights, open_navigator


@pytest.fixture
def own(tmp_path: Path) -> Path:
    config = NavigatorConfig(hidden=8, heads=2, inner=8, layers=1, vocabulary=9, feature_width=5, angle_width=4)
    Navigator(config).save_pretrained(tmp_path / "own")
    return tmp_path / "own"


def test_our_own_folders_are_inspected_and_not_imported(own: Path, tmp_path: Path) -> None:
    report = inspect_weights(own)
    assert (report.family, report.new, report.unused) == ("vlnbert", [], {})
    assert "backbone.layers.0.attention.key.bias" in report.loaded
    with pytest.raises(DataError, match="is a vlnbert navigator already"):
        import_weights(own, tmp_path / "dest")
    assert not (tmp_path / "dest").exists()


def test_our_own_folders_are_checked(own: Path, tmp_path: Path) -> None:
    state = load_file(own / "model.safetensors")
    state["critic.9.weight"] = state.pop("critic.0.bias")
    state["critic.3.bias"] = torch.zeros(2)
    save_file(state, own / "model.safetensors")
    (own / "digests.json").unlink()
    with pytest.raises(DataError) as caught:
        export_weights(own, tmp_path / "out.pt")
    expected = "lacks critic.0.bias; adds critic.9.weight; critic.3.bias has shape 2 where 1 is expected"
    assert expected in str(caught.value)
    assert not (tmp_path / "out.pt").exists()


@pytest.mark.parametrize("value", [torch.tensor([torch.inf]), torch.tensor([1])], ids=["infinity", "whole numbers"])
def test_weights_that_are_no_numbers_are_refused(own: Path, value: torch.Tensor) -> None:
    (own / "digests.json").unlink()
    save_file(load_file(own / "model.safetensors") | {"critic.3.bias": value}, own / "model.safetensors")
    for use in (inspect_weights, open_navigator, Navigator.from_pretrained):
        with pytest.raises(DataError, match=r"model.safetensors: critic\.3\.bias: holds (NaN or infinity|int64, not)"):
            use(own)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"heads": "two"}, "config.json: heads is 'two'"),
        ({"heads": 3}, "3 heads cannot share a width of 8"),
        ({"heads": 0}, "config.json: heads is 0"),
        ({"backbone": "three-stream"}, "config.json: no backbone 'three-stream'"),
        ({"layers": -1}, "config.json: layers is -1"),
    ],
)
def test_our_own_configurations_are_checked(own: Path, change: dict[str, Any], expected: str) -> None:
    path = own / "config.json"
    (own / "digests.json").unlink()
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError) as caught:
        inspect_weights(own)
    assert expected in str(caught.value)


def test_exports_need_a_navigator_and_a_new_name(own: Path, bert_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a vlnbert navigator; import it first"):
        export_weights(bert_folder, tmp_path / "out.pt")
    (tmp_path / "mine.pt").write_text("keep")
    with pytest.raises(DataError, match="exists already"):
        export_weights(own, tmp_path / "mine.pt")
    assert (tmp_path / "mine.pt").read_text() == "keep"
    (own / "config.json").unlink()
    with pytest.raises(DataError, match=r"has no config\.json beside it"):
        export_weights(own, tmp_path / "out.pt")


def test_an_export_that_fails_leaves_nothing(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(document: object, path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("PytorchStreamWriter failed writing file data/1: file write failed")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(DataError, match="cannot be written"):
        export_weights(own, tmp_path / "out.pt")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
