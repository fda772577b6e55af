"""Object features from HDF5 in both published layouts, and every way to be damaged."""

from contextlib import suppress

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlnbert.errors import VlnbertError
from vlnbert.sources.features import read_object_features

GOOD = np.arange(12, dtype=np.float32).reshape(3, 4)
WHERE = {
    "hamt": {"bboxes": np.ones((3, 4), dtype=int), "viewindexs": [3, 4, 35]},
    "duet": {"directions": np.zeros((3, 2)), "sizes": np.ones((3, 2), dtype=int)},
}


def write(path, key="s_v", values=GOOD, mode="w", **attributes):
    with h5py.File(path, mode) as file:
        file[key] = values
        file[key].attrs.update(attributes)
    return path


def loaded(path, width=None):
    return {(place.scan, place.viewpoint): (place.ids, place.values) for place in read_object_features(path, width)}


@pytest.mark.parametrize("layout", WHERE)
@pytest.mark.parametrize(
    "ids", [[5, 60, 7], np.array([5, 60, 7], dtype=">i4"), ["5", "60", "7"], np.array([b"5", b"60", b"7"])]
)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_both_layouts_any_ids_any_precision(tmp_path, layout, ids, dtype):
    path = write(tmp_path / "a.hdf5", "some_scan_v", GOOD.astype(dtype), obj_ids=ids, **WHERE[layout])
    found, values = loaded(path)["some_scan", "v"]
    assert found == ("5", "60", "7")
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, GOOD)


def test_a_width_keeps_the_first_columns(tmp_path):
    path = write(tmp_path / "a.hdf5", obj_ids=[1, 2, 3])
    np.testing.assert_array_equal(loaded(path, 2)["s", "v"][1], GOOD[:, :2])
    with pytest.raises(VlnbertError, match="is 4 wide, where 5 is expected"):
        loaded(path, 5)
    with pytest.raises(VlnbertError, match="choose 1 or more"):
        loaded(path, 0)


@pytest.mark.parametrize("values", [np.zeros((0, 768)), np.zeros(0), np.zeros((0, 4), dtype=np.float32)])
def test_viewpoints_without_objects(tmp_path, values):
    path = write(tmp_path / "a.hdf5", "s_empty", values, obj_ids=np.zeros(0))
    write(path, "s_v", GOOD, "a", obj_ids=[1, 2, 3])
    found = loaded(path)
    assert found["s", "empty"][0] == ()
    assert found["s", "v"][0] == ("1", "2", "3")


BAD = {
    "no ids": ({}, GOOD, "has no attribute 'obj_ids'"),
    "an id twice": ({"obj_ids": [1, 2, 1]}, GOOD, "'obj_ids' names an object twice"),
    "fractions": ({"obj_ids": [1.0, 2.0, 3.0]}, GOOD, "'obj_ids' is not a list of whole numbers or texts"),
    "truths": ({"obj_ids": [True, False, True]}, GOOD, "'obj_ids' is not a list of whole numbers or texts"),
    "one number": ({"obj_ids": 3}, GOOD, "'obj_ids' is not a list of whole numbers or texts"),
    "a table": ({"obj_ids": [[1], [2], [3]]}, GOOD, "'obj_ids' is not a list of whole numbers or texts"),
    "too few rows": ({"obj_ids": [1, 2, 3, 4]}, GOOD, "holds 3 features of 4 objects"),
    "too many rows": ({"obj_ids": [1]}, GOOD, "holds 3 features of 1 objects"),
    "no objects": ({"obj_ids": np.zeros(0)}, GOOD, "holds 3 features of 0 objects"),
    "no rows": ({"obj_ids": [1]}, np.zeros((0, 4)), "holds 0 features of 1 objects"),
    "one axis": ({"obj_ids": [1, 2]}, np.ones(2), "not floating-point features of objects"),
    "no width": ({"obj_ids": [1, 2]}, np.ones((2, 0)), "not floating-point features of objects"),
    "integers": ({"obj_ids": [1, 2]}, np.ones((2, 4), dtype=int), "not floating-point features of objects"),
    "text": ({"obj_ids": [1]}, "text", "not floating-point features of objects"),
    "NaN": ({"obj_ids": [1]}, np.full((1, 4), np.nan), "holds NaN or infinity"),
    "overflow": ({"obj_ids": [1]}, np.full((1, 4), 1e300), "holds NaN or infinity"),
}


@pytest.mark.parametrize(("attributes", "values", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_with_a_dataset(tmp_path, refuses, attributes, values, words):
    path = write(tmp_path / "a.hdf5", "s_v", values, **attributes)
    refuses(path, lambda: loaded(path), f"key s_v: {words}" if words.startswith(("h", "'")) else "key s_v: is ")
    with pytest.raises(VlnbertError) as caught:
        loaded(path)
    assert words in str(caught.value)


def test_all_faults_at_once(tmp_path, refuses):
    path = write(tmp_path / "a.hdf5", "s_a", GOOD, obj_ids=[1, 2, 3])
    write(path, "s_b", GOOD[:, :3], "a", obj_ids=[1, 2, 3])
    write(path, "s_c", GOOD, "a")
    write(path, "plain", GOOD, "a", obj_ids=[1, 2, 3])
    with h5py.File(path, "a") as file:
        file.create_group("s_d")
        file["s_e"] = h5py.SoftLink("/nowhere")
    no_dataset = "is not a dataset named <scan>_<viewpoint>"
    expected = [f"key plain: {no_dataset}", "key s_b: is 3 wide, where 4 is expected", "key s_c: has no attribute"]
    refuses(path, lambda: loaded(path), *expected, f"key s_d: {no_dataset}", "key s_e: is a link, not a dataset")


def test_empty_missing_and_foreign_files(tmp_path, refuses):
    path = tmp_path / "a.hdf5"
    refuses(path, lambda: loaded(path), "no such feature file; check the path")
    path.write_text("not HDF5")
    refuses(path, lambda: loaded(path), "is not a whole HDF5 file")
    h5py.File(path, "w").close()
    refuses(path, lambda: loaded(path), "holds no viewpoints")


def test_features_of_views_are_refused(tiny, refuses):
    path = tiny.path("features/tiny.hdf5")
    refuses(path, lambda: loaded(path), *["has no attribute 'obj_ids'"] * len(tiny.features))


@given(st.data())
def test_damage_anywhere_is_one_of_ours(tmp_path, data):
    path = write(tmp_path / "a.hdf5", obj_ids=["1", "2", "3"])
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=20)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(VlnbertError):
        loaded(path)
