"""Features are put on the objects they belong to; what does not fit is counted, or named."""

import h5py
import numpy as np
import pytest
import torch

from tests.world.samples import ORDER, everyone, furnished
from vlnbert.errors import DataError
from vlnbert.features import objects as module
from vlnbert.features.objects import open_object_features
from vlnbert.house import generate
from vlnbert.sources.layout import open_folder
from vlnbert.world.build import open_world
from vlnbert.world.objects import open_object_table


@pytest.fixture
def objects(tiny, world):
    return furnished(tiny, world)


@pytest.fixture
def path(tiny, world, objects):
    """A feature of three numbers for every object: its row, its viewpoint and something to be cut off."""
    file = tiny.path("features/objects.hdf5")
    with h5py.File(file, "w") as features:
        for number, scan, name in everyone(world):
            rows = (objects.viewpoint == number).nonzero().flatten().tolist()
            order = rows[::-1]  # the order of a file means nothing
            key = f"{scan}_{name}"
            features[key] = np.array([[row, number, 99] for row in order], dtype=np.float32).reshape(-1, 3)
            features[key].attrs["obj_ids"] = [objects.ids[row] for row in order] or np.zeros(0)
    return file


def edit(path, key, ids, values=None):
    with h5py.File(path, "a") as features:
        old = dict(zip(features[key].attrs["obj_ids"], features[key][:], strict=True)) if key in features else {}
        if key in features:
            del features[key]
        if ids:
            features[key] = np.stack([old.get(id, np.zeros(3)) for id in ids]) if values is None else values
            features[key].attrs["obj_ids"] = ids


def test_everything_fits(world, objects, path):
    bank, fit = open_object_features(world, objects, path, width=2)
    assert (fit.matched, fit.featureless, fit.boxless, fit.bare, fit.lines()) == (len(objects), 0, 0, (), [])
    assert bank.object_table.ids == objects.ids
    assert bank.width == 2
    seen = bank.look(torch.arange(len(world)), torch.zeros(len(world), dtype=torch.long))
    assert seen.features[seen.present].tolist() == [[row, int(objects.viewpoint[row])] for row in range(len(objects))]


def test_the_second_time_the_file_is_not_read(world, objects, path, monkeypatch):
    edit(path, "alpha_a1", [*ORDER[1:], "77"])
    first, fit = open_object_features(world, objects, path)
    monkeypatch.setattr(module, "read_object_features", None)
    again, same = open_object_features(world, objects, path)
    assert torch.equal(first.table, again.table)
    assert (again.object_table.ids, same) == (first.object_table.ids, fit)


def test_objects_without_a_feature_are_left_out_and_counted(world, objects, path):
    where = world.find("alpha", "a1")
    edit(path, "alpha_a1", ["bed", "9"])
    edit(path, "alpha_a3", [])
    bank, fit = open_object_features(world, objects, path)
    missing = len(ORDER) - 2 + 1
    assert (fit.matched, fit.featureless, fit.boxless) == (len(objects) - missing, missing, 0)
    assert fit.bare == ("alpha_a3",)
    assert fit.lines() == [
        "5 objects have a box and no feature; they are left out",
        "1 viewpoints show objects none of which has a feature: alpha_a3",
    ]
    assert bank.object_table.left_out == missing
    assert [bank.object_table.index(where, id) for id in ("9", "bed", "7")] == [0, 1, -1]
    seen = bank.look(torch.tensor([where]), torch.tensor([0]))
    rows = [int(objects.first[where]) + objects.index(where, id) for id in ("9", "bed")]
    assert seen.features[0, :2, 0].tolist() == rows


def test_features_without_a_box_are_counted(world, objects, path):
    edit(path, "alpha_a1", [*ORDER, "3", "77"])  # 3 is there, and no view shows it
    bank, fit = open_object_features(world, objects, path)
    assert (fit.matched, fit.boxless) == (len(objects), 2)
    assert fit.lines() == ["2 features are of objects that no view shows there"]
    assert bank.object_table.ids == objects.ids


def test_no_more_than_asked_for(world, objects, path):
    bank, fit = open_object_features(world, objects, path, max_objects=4)
    assert (bank.widest, fit.featureless) == (4, 0)
    assert bank.object_table.left_out == len(objects) - len(bank.object_table) > 0
    where = world.find("alpha", "a0")
    largest = objects.select(objects.largest(4))
    expected = [objects.first[where] + objects.index(where, id) for id in largest.ids[:4]]
    assert bank.look(torch.tensor([where]), torch.tensor([0])).features[0, :, 0].tolist() == expected


def test_unknown_viewpoints_are_named_with_the_files_own_faults(world, objects, path, refuses):
    edit(path, "alpha_a9", ["1"])
    edit(path, "beta_b4", ["1"])  # there, but left out of the graph
    edit(path, "delta_d0", ["1"])  # a scan that this world does not have
    edit(path, "gamma_g0", ["1", "1"])
    refuses(
        path,
        lambda: open_object_features(world, objects, path),
        "key alpha_a9: its viewpoint is not in the graph; use the object features, boxes and graphs of one data set",
        "key beta_b4: its viewpoint is not in the graph",
        "key gamma_g0: 'obj_ids' names an object twice",
    )


def test_other_scans_do_not_matter(tiny, path):
    beta = open_world(tiny.folder, scans=["beta"])
    objects = open_object_table(beta, tiny.folder.boxes)
    bank, fit = open_object_features(beta, objects, path)
    assert (bank.object_table.ids, fit.matched, fit.boxless) == (("7",), 1, 0)


def test_a_file_of_other_objects_altogether(world, objects, path, refuses):
    for _, scan, name in everyone(world):
        edit(path, f"{scan}_{name}", ["1234"])
    refuses(path, lambda: open_object_features(world, objects, path), "has a feature of none of the objects")


def test_faults_leave_no_cache(world, objects, path, cache):
    before = sorted(cache.iterdir())
    edit(path, "alpha_a1", ORDER, np.full((len(ORDER), 3), np.nan))
    with pytest.raises(DataError, match="key alpha_a1: holds NaN"):
        open_object_features(world, objects, path)
    assert sorted(cache.iterdir()) == before


def test_a_generated_house_fits(tmp_path):
    generate(tmp_path / "house", scans=3, paths_per_scan=2)
    folder = open_folder(tmp_path / "house")
    world, (file,) = open_world(folder), folder.object_feature_files()
    objects = open_object_table(world, folder.boxes)
    bank, fit = open_object_features(world, objects, file)
    assert (fit.lines(), len(bank.object_table), bank.width) == ([], len(objects), 128)
    with h5py.File(file) as features:  # its own word on which view shows an object is ours
        for key in features:
            where = world.find(*key.split("_"))
            rows = objects.viewpoint == where
            assert objects.view[rows].tolist() == features[key].attrs["viewindexs"].tolist()
            assert [id for id, row in zip(objects.ids, rows, strict=True) if row] == list(
                map(str, features[key].attrs["obj_ids"])
            )
