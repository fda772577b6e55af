"""What a navigator was shown: kept in its folder, read with care, told by its card."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.navigator.samples import ONE
from vlnbert.errors import DataError
from vlnbert.features.spec import OFF, FeatureSpec
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.folder import NONE, SIZES, WORDS, describe_shown
from vlnbert.weights.importing import inspect_weights, open_navigator

SHOWN: dict[str, str | int] = {
    "views": "captions,observations",
    "objects": "names",
    "max_objects": 20,
    "encoder": "a/b",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    navigator = Navigator(ONE)
    navigator.features = dict(SHOWN)
    navigator.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_the_values_are_those_of_a_spec() -> None:
    assert {item.name for item in fields(FeatureSpec)} == {*WORDS, *SIZES}
    assert NONE == OFF


def test_it_travels_with_a_navigator(folder: Path, tmp_path: Path) -> None:
    """Opened either way and saved again; the configuration is as it was."""
    for place, opened in enumerate((Navigator.from_pretrained(folder), open_navigator(folder))):
        assert opened.features == SHOWN
        assert opened.config == ONE
        opened.save_pretrained(tmp_path / str(place))
        assert Navigator.from_pretrained(tmp_path / str(place)).features == SHOWN
        again = tmp_path / str(place) / "config.json"
        assert again.read_bytes() == (folder / "config.json").read_bytes()


def test_a_folder_of_before_says_nothing(tmp_path: Path) -> None:
    Navigator(ONE).save_pretrained(tmp_path)
    assert "features" not in json.loads((tmp_path / "config.json").read_text())
    for opened in (Navigator.from_pretrained(tmp_path), open_navigator(tmp_path)):
        assert opened.features is None
    assert "| shown |" not in (tmp_path / "README.md").read_text()
    report = inspect_weights(tmp_path)
    assert report.as_json()["features"] is None
    assert not any("shown" in line for line in report.lines())


def test_names_of_other_versions_and_nothing_said_are_left_out(folder: Path) -> None:
    """As in a speaker's folder, which says null where nobody said anything."""
    rewrite(folder, {"views": "captions", "objects": None, "depth": [1]})
    assert Navigator.from_pretrained(folder).features == {"views": "captions"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (7, "features: does not say what the navigator was shown"),
        (None, "features: does not say what the navigator was shown"),
        (["captions"], "features: does not say what the navigator was shown"),
        ({"views": 7}, "features.views: does not say what the navigator was shown, but a int"),
        ({"views": ["captions"]}, "features.views: does not say what the navigator was shown, but a list"),
        ({"views": ""}, "features.views: does not say what the navigator was shown, but ''"),
        ({"views": "x" * 5000}, "features.views: does not say what the navigator was shown, but 5,000 characters"),
        ({"objects": "a\nb"}, "features.objects: does not say what the navigator was shown, but 'a\\nb'"),
        ({"encoder": "\x1b[2J"}, "features.encoder: does not say what the navigator was shown, but '\\x1b[2J'"),
        ({"view_width": "2048"}, "features.view_width: does not say what the navigator was shown, but '2048'"),
        ({"view_width": 0}, "features.view_width: does not say what the navigator was shown, but 0"),
        ({"object_width": 2.5}, "features.object_width: does not say what the navigator was shown, but 2.5"),
        ({"max_objects": True}, "features.max_objects: does not say what the navigator was shown, but True"),
        ({"max_objects": 10**12}, "features.max_objects: does not say what the navigator was shown, but 10000"),
        ({"views": "/etc/secret.hdf5"}, "features.views: names a path, '/etc/secret.hdf5'"),
        ({"objects": "../objects.hdf5"}, "features.objects: names a path, '../objects.hdf5'"),
        ({"encoder": "~/bert"}, "features.encoder: names a path, '~/bert'"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_in_one_line(folder: Path, said: Any, told: str) -> None:
    rewrite(folder, said)
    for use in (Navigator.from_pretrained, open_navigator, inspect_weights):
        with pytest.raises(DataError) as caught:
            use(folder)
        (line,) = str(caught.value).splitlines()
        assert f"config.json: {told}" in line
        assert line.endswith("; save the navigator again")
        assert len(line) < 400


def test_a_digest_notices_other_values(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(path.read_text().replace("captions,observations", "observations,captions"))
    with pytest.raises(DataError, match="is not what was written, by its digest"):
        Navigator.from_pretrained(folder)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (SHOWN, "views captions,observations; objects names, at most 20; encoder a/b"),
        ({"views": "a.hdf5", "view_width": 2048, "objects": "off"}, "views a.hdf5, 2048 wide"),
        ({}, "views of the only feature file; objects of the only feature file"),
        ({"views": "<in memory>", "objects": "off"}, "views <in memory>"),
        ({"views": "a|b.hdf5", "objects": "off"}, "views a|b.hdf5"),
    ],
    ids=["channels", "a file", "nothing said", "in memory", "a bar"],
)
def test_the_card_and_an_inspection_show_it(tmp_path: Path, shown: dict[str, str | int], words: str) -> None:
    navigator = Navigator(ONE)
    navigator.features = shown
    navigator.save_pretrained(tmp_path)
    assert describe_shown(shown) == words
    cell = words.replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
    assert f"| shown | {cell} |" in (tmp_path / "README.md").read_text().splitlines()
    report = inspect_weights(tmp_path)
    assert report.as_json()["features"] == shown
    assert f"  shown {words}" in report.lines()


def rewrite(folder: Path, said: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"features": said}))
    (folder / "digests.json").unlink()
