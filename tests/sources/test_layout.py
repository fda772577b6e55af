"""Where things are in a data folder."""

import pytest

from vlnbert.errors import UnknownNameError
from vlnbert.sources.layout import DataFolder, open_folder
from vlnbert.tasks.task import TASKS


def test_everything_is_found(tiny):
    folder = open_folder(str(tiny.root))
    assert list(folder.graphs()) == ["alpha", "beta", "gamma"]
    assert list(TASKS["r2r"].files(folder)) == ["test", "train", "val_unseen", "aug"]
    assert list(TASKS["reverie"].files(folder)) == ["test", "train", "val_unseen"]
    assert TASKS["r2r"].file(folder, "aug") == tiny.path("r2r/prevalent_aug.json")
    assert [path.name for path in folder.feature_files()] == ["tiny.hdf5", "tiny.tsv"]
    assert folder.object_feature_files() == []
    for path in (folder.connectivity, folder.boxes, folder.captions, folder.features, folder.vocabulary):
        assert path.exists()


def test_features_of_objects_are_told_by_their_name(tiny):
    """Those that HAMT and DUET publish are, as they are."""
    names = ["obj.avg.top3.min80_vit_base_patch16_224_imagenet.hdf5", "objects.h5"]
    for name in (*names, "obj.tsv", "notes.txt"):
        tiny.path(f"features/{name}").touch()
    assert [path.name for path in tiny.folder.object_feature_files()] == names
    assert [path.name for path in tiny.folder.feature_files()] == ["obj.tsv", "tiny.hdf5", "tiny.tsv"]


def test_no_folder(tmp_path, refuses):
    refuses(
        tmp_path / "no",
        lambda: open_folder(tmp_path / "no"),
        "no such data folder; get the open data with: vlnbert data fetch DIR",
    )
    (tmp_path / "file").touch()
    refuses(tmp_path / "file", lambda: open_folder(tmp_path / "file"), "is a file, not a data folder")


def test_an_empty_folder(tmp_path, refuses):
    folder = DataFolder(tmp_path)
    refuses(tmp_path / "connectivity", folder.graphs, "holds no <scan>_connectivity.json")
    refuses(tmp_path / "r2r", lambda: TASKS["r2r"].file(folder, "train"), "holds no R2R_<split>.json")
    assert TASKS["reverie"].files(folder) == {}
    assert folder.feature_files() == folder.object_feature_files() == []


def test_unknown_names(tiny):
    with pytest.raises(UnknownNameError, match="no task 'r3r'; did you mean r2r or r4r"):
        TASKS["r3r"].files(tiny.folder)
    with pytest.raises(UnknownNameError, match="'val_unsen'; did you mean val_unseen"):
        TASKS["r2r"].file(tiny.folder, "val_unsen")
