"""Image features from TSV and HDF5: every width and precision, and every way to be damaged."""

from contextlib import suppress

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlnbert.errors import SHOWN_FAULTS, DataError, VlnbertError
from vlnbert.sources.features import feature_width, read_features, read_object_features

HDF5, TSV = "features/tiny.hdf5", "features/tiny.tsv"


def loaded(path, width=None):
    return {(panorama.scan, panorama.viewpoint): panorama.values for panorama in read_features(path, width)}


@pytest.mark.parametrize("file", [HDF5, TSV])
def test_both_formats_hold_the_same(tiny, file):
    found = loaded(tiny.path(file))
    assert found.keys() == tiny.features.keys()
    for place, values in found.items():
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, tiny.features[place])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_any_precision(tmp_path, tiny, write_features, dtype):
    found = loaded(write_features(tmp_path / "a.hdf5", tiny.features, dtype))
    for place, values in found.items():
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, tiny.features[place])


@pytest.mark.parametrize("file", [HDF5, TSV])
@pytest.mark.parametrize("width", [1, 4, 6])
def test_a_width_keeps_the_first_columns(tiny, file, width):
    for place, values in loaded(tiny.path(file), width).items():
        np.testing.assert_array_equal(values, tiny.features[place][:, :width])


@pytest.mark.parametrize("name", ["a.tsv", "a.hdf5"])
@given(width=st.integers(1, 40))
@settings(max_examples=10)
def test_any_width(tmp_path, write_features, name, width):
    features = {("s", "v"): np.arange(36 * width, dtype=np.float32).reshape(36, width)}
    path = write_features(tmp_path / name, features)
    assert feature_width(path) == width
    np.testing.assert_array_equal(loaded(path)["s", "v"], features["s", "v"])


@pytest.mark.parametrize(("name", "places"), [("a.tsv", ["line 2", "line 3"]), ("a.hdf5", ["key s_b", "key s_c"])])
def test_widths_that_differ_and_numbers_that_are_none(tmp_path, refuses, write_features, name, places):
    bad = np.ones((36, 4))
    bad[35, 3] = np.nan
    path = write_features(
        tmp_path / name, {("s", "a"): np.ones((36, 4)), ("s", "b"): np.ones((36, 5)), ("s", "c"): bad}
    )
    wide, number = f"{places[0]}: is 5 wide, where 4 is expected", f"{places[1]}: holds NaN or infinity"
    refuses(path, lambda: list(read_features(path)), wide, number)


@pytest.mark.parametrize("file", [HDF5, TSV])
def test_a_width_the_file_does_not_have(tiny, file):
    with pytest.raises(VlnbertError, match="is 6 wide, where 7 is expected") as caught:
        list(read_features(tiny.path(file), 7))
    assert len(caught.value.faults) == len(tiny.features)


@pytest.mark.parametrize("width", [0, -1])
def test_a_width_that_is_none(tiny, width):
    with pytest.raises(VlnbertError):
        list(read_features(tiny.path(HDF5), width))


def test_a_panorama_twice(tiny, refuses):
    path = tiny.path(TSV)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[2]]))
    refuses(path, lambda: list(read_features(path)), f"line {len(lines) + 1}: occurs twice")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"alpha\ta0\t640\t480\n", "line 1: has 4 fields, not 6"),
        (b"\n", "line 1: has 1 fields, not 6"),
        (b"alpha\ta0\t640\t480\t60\t@@@@\n", "line 1: is not whole base64"),
        (b"alpha\ta0\t640\t480\t60\tAAA\n", "line 1: is not whole base64"),
        (b"alpha\ta0\t640\t480\t60\tAAAA\n", "line 1: is not 36 equally wide float32 features"),
        (b"alpha\ta0\t640\t480\t60\t\n", "line 1: is not 36 equally wide float32 features"),
    ],
)
def test_damaged_lines(tmp_path, refuses, line, words):
    path = tmp_path / "a.tsv"
    path.write_bytes(line)
    refuses(path, lambda: list(read_features(path)), words)


def test_a_truncated_tsv_at_any_byte_of_its_last_line(tiny):
    path = tiny.path(TSV)
    content = path.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    for size in range(last + 1, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(VlnbertError, match=f"line {len(tiny.features)}"):
            list(read_features(path))


@pytest.mark.parametrize("size", [0, 1, 100, 2000, -1])
def test_a_truncated_hdf5(tiny, refuses, size):
    path = tiny.cut(HDF5, size)
    refuses(path, lambda: list(read_features(path)), "is not a whole HDF5 file; fetch the file again")


@given(place=st.integers(0, 2600))
@settings(max_examples=150)
def test_damage_anywhere_in_an_hdf5_is_a_fault_or_other_numbers(tmp_path, write_features, place):
    path = write_features(tmp_path / "a.hdf5", {("s", f"v{k}"): np.ones((36, 2)) for k in range(3)})
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)
    with suppress(VlnbertError):
        list(read_features(path))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(np.ones((36, 4), dtype=int), id="integers"),
        pytest.param(np.ones((35, 4)), id="views"),
        pytest.param(np.ones((36, 4, 1)), id="axes"),
        pytest.param(np.float64(1), id="scalar"),
        pytest.param(np.ones((36, 0)), id="no width"),
        pytest.param(b"text", id="bytes"),
        pytest.param("text", id="text"),
        pytest.param(h5py.Empty("f4"), id="empty"),
        pytest.param(h5py.SoftLink("/nowhere"), id="dangling"),
        pytest.param(h5py.ExternalLink("nowhere.hdf5", "/x"), id="external"),
        pytest.param(np.full((36, 4), 1e300), id="overflow"),
    ],
)
def test_datasets_that_are_no_features(tmp_path, refuses, value):
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["scan_v"] = value
    refuses(path, lambda: list(read_features(path)), "key scan_v: ")


def test_keys_that_name_no_viewpoint(tmp_path, refuses):
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["plain"] = np.ones((36, 4))
        file.create_group("scan_v")
    words = "is not a dataset named <scan>_<viewpoint>"
    refuses(path, lambda: list(read_features(path)), f"key plain: {words}", f"key scan_v: {words}")


@pytest.mark.parametrize("name", ["a.tsv", "a.hdf5"])
def test_empty_and_missing_files(tmp_path, refuses, write_features, name):
    path = tmp_path / name
    refuses(path, lambda: list(read_features(path)), "no such feature file; check the path")
    write_features(path, {})
    refuses(path, lambda: list(read_features(path)), "holds no panoramas")
    refuses(path, lambda: feature_width(path), "holds no panoramas")


def test_a_file_of_another_kind_is_one_line(tmp_path):
    with h5py.File(tmp_path / "objects.hdf5", "w") as file:
        for index in range(SHOWN_FAULTS + 1):
            file[f"scan_v{index:02}"] = np.zeros((2, 5), dtype="float32")
    with pytest.raises(DataError) as caught:
        list(read_features(tmp_path / "objects.hdf5"))
    said = "is float32 of shape (2, 5), not 36 views of floating-point features, nor does any of the other 20 fit"
    assert str(caught.value) == f"{tmp_path}/objects.hdf5: key scan_v00: {said}; give another file of view features"


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


def loaded_objects(path, width=None):
    return {(place.scan, place.viewpoint): (place.ids, place.values) for place in read_object_features(path, width)}


@pytest.mark.parametrize("layout", WHERE)
@pytest.mark.parametrize(
    "ids", [[5, 60, 7], np.array([5, 60, 7], dtype=">i4"), ["5", "60", "7"], np.array([b"5", b"60", b"7"])]
)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_both_layouts_any_ids_any_precision(tmp_path, layout, ids, dtype):
    path = write(tmp_path / "a.hdf5", "some_scan_v", GOOD.astype(dtype), obj_ids=ids, **WHERE[layout])
    found, values = loaded_objects(path)["some_scan", "v"]
    assert found == ("5", "60", "7")
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, GOOD)


def test_a_width_keeps_the_first_columns_of_objects(tmp_path):
    path = write(tmp_path / "a.hdf5", obj_ids=[1, 2, 3])
    np.testing.assert_array_equal(loaded_objects(path, 2)["s", "v"][1], GOOD[:, :2])
    with pytest.raises(VlnbertError, match="is 4 wide, where 5 is expected"):
        loaded_objects(path, 5)
    with pytest.raises(VlnbertError, match="choose 1 or more"):
        loaded_objects(path, 0)


@pytest.mark.parametrize("values", [np.zeros((0, 768)), np.zeros(0), np.zeros((0, 4), dtype=np.float32)])
def test_viewpoints_without_objects(tmp_path, values):
    path = write(tmp_path / "a.hdf5", "s_empty", values, obj_ids=np.zeros(0))
    write(path, "s_v", GOOD, "a", obj_ids=[1, 2, 3])
    found = loaded_objects(path)
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
    refuses(path, lambda: loaded_objects(path), f"key s_v: {words}" if words.startswith(("h", "'")) else "key s_v: is ")
    with pytest.raises(VlnbertError) as caught:
        loaded_objects(path)
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
    refuses(
        path, lambda: loaded_objects(path), *expected, f"key s_d: {no_dataset}", "key s_e: is a link, not a dataset"
    )


def test_empty_missing_and_foreign_files(tmp_path, refuses):
    path = tmp_path / "a.hdf5"
    refuses(path, lambda: loaded_objects(path), "no such feature file; check the path")
    path.write_text("not HDF5")
    refuses(path, lambda: loaded_objects(path), "is not a whole HDF5 file")
    h5py.File(path, "w").close()
    refuses(path, lambda: loaded_objects(path), "holds no viewpoints")


def test_features_of_views_are_refused(tiny, refuses):
    path = tiny.path("features/tiny.hdf5")
    refuses(path, lambda: loaded_objects(path), *["has no attribute 'obj_ids'"] * len(tiny.features))


@given(st.data())
def test_damage_anywhere_is_one_of_ours(tmp_path, data):
    path = write(tmp_path / "a.hdf5", obj_ids=["1", "2", "3"])
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=20)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with suppress(VlnbertError):
        loaded_objects(path)
