"""Which objects a viewpoint shows, in which view and where in it: as read from the files by hand."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.world.samples import CROWD, MIXED, ORDER, everyone, furnish, furnished, plain_objects
from vlnbert.errors import InvalidFileError
from vlnbert.sources.annotations import BoxedObject, ViewpointObjects
from vlnbert.world import objects as module
from vlnbert.world.build import open_world
from vlnbert.world.objects import NONE, build_object_table, find_sightings, open_object_table


@pytest.fixture
def objects(tiny, world):
    return furnished(tiny, world)


def rows_of(objects, viewpoint):
    first = int(objects.first[viewpoint])
    return range(first, first + int(objects.count[viewpoint]))


def test_every_viewpoint_as_its_file_says(tiny, world, objects):
    for number, scan, name in everyone(world):
        rows, expected = rows_of(objects, number), plain_objects(tiny, scan, name)
        assert [objects.ids[row] for row in rows] == [id for id, _, _ in expected]
        assert objects.view[list(rows)].tolist() == [view for _, view, _ in expected]
        for row, (_, _, position) in zip(rows, expected, strict=True):
            assert objects.position[row].tolist() == pytest.approx(position, abs=1e-6)
            assert objects.viewpoint[row] == number
    assert len(objects) == sum(len(plain_objects(tiny, scan, name)) for _, scan, name in everyone(world))


def test_a_viewpoint_by_hand(world, objects):
    """Numbers by value, then text; the larger box, in the earliest view of equals; boxes cut to the image."""
    rows = list(rows_of(objects, world.find("alpha", "a1")))
    assert [objects.ids[row] for row in rows] == ORDER
    assert objects.view[rows].tolist() == [4, 8, 17, 2, 0, 35]
    assert [objects.names[code] for code in objects.name[rows]] == [MIXED[id]["name"] for id in ORDER]
    by_hand = [
        [630 / 640, 0, 1, 1, 10 / 640],  # of 1,000 pixels, ten are in the image: more than 40 x 40 in view 20
        [0, 0, 10 / 640, 20 / 480, 10 * 20 / 640 / 480],
        [0, 0, 20 / 640, 20 / 480, 20 * 20 / 640 / 480],
        [0, 0, 0.1, 0.1, 0.01],
        [1, 1, 1, 1, 0],  # wholly outside
        [0.5, 0.5, 1, 1, 0.25],
    ]
    torch.testing.assert_close(objects.position[rows], torch.tensor(by_hand))


@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 440), st.integers(0, 280))
def test_equal_boxes_are_equal_wherever_they_lie(tiny, world, width, height, x, y):
    boxes = ((x, y, width, height), (0, 0, width, height), (0, 0, height, width))
    item = BoxedObject("1", "x", (9, 4, 20), boxes)
    place = ViewpointObjects("alpha", "a0", (item,), tiny.folder.boxes / "alpha_a0.json")
    assert build_object_table(world, [place], tiny.folder.boxes).view.tolist() == [4]


def test_the_fullest_and_the_empty(world, objects):
    assert objects.widest == objects.count[world.find("alpha", "a0")] == CROWD
    assert objects.count[world.find("alpha", "a2")] == 0
    assert objects.left_out == 0
    assert list(objects.names) == sorted(set(objects.names))


def test_there_and_back(world, objects):
    where = world.find("alpha", "a1")
    assert [objects.index(where, id) for id in ORDER] == list(range(len(ORDER)))
    for viewpoint, id in ((where, "3"), (where, "11"), (world.find("alpha", "a2"), "7"), (NONE, "7")):
        assert objects.index(viewpoint, id) == NONE
    places = torch.tensor([0, 5, 6, 20, NONE])
    assert objects.ids_at(torch.full((5,), where), places) == ["007", "table", None, None, None]
    empty = torch.tensor([world.find("alpha", "a2")])
    assert objects.ids_at(empty, torch.tensor([0])) == [None]


@pytest.mark.parametrize("max_objects", [1, 4, 59, 60, 100])
def test_the_largest_boxes_remain_in_their_order(tiny, world, objects, max_objects):
    some = objects.select(objects.largest(max_objects))
    for number, scan, name in everyone(world):
        shown = plain_objects(tiny, scan, name)
        kept = sorted(shown, key=lambda item: -item[2][4])[:max_objects]  # a stable sort: the first of equals
        expected = [id for id, _, _ in shown if id in {id for id, _, _ in kept}]
        assert [some.ids[row] for row in rows_of(some, number)] == expected
        assert [some.index(number, id) for id in expected] == list(range(len(expected)))
    assert some.left_out == len(objects) - len(some)
    assert some.widest == min(max_objects, CROWD)


def test_sightings(world, objects):
    found = find_sightings(world, objects)
    assert found["alpha", "7"] == [world.find("alpha", name) for name in ("a1", "a3", "a4")]
    assert ("alpha", "8") not in found
    assert sum(map(len, found.values())) == len(objects)


def test_the_second_time_no_file_is_parsed(tiny, world, objects, monkeypatch):
    monkeypatch.setattr(module, "read_box_folder", None)
    again = open_object_table(world, tiny.folder.boxes)
    assert (again.ids, again.names) == (objects.ids, objects.names)
    for name in module.TABLES:
        assert torch.equal(getattr(again, name), getattr(objects, name)), name
    assert again.fingerprint() == objects.fingerprint()


def test_other_content_is_not_taken_from_the_cache(tiny, world, objects):
    """Of the same length, and with the same time of change."""
    path = tiny.path("reverie/BBox/alpha_a3.json")
    state = path.stat()
    path.write_text(path.read_text().replace('"7"', '"6"'))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    changed = open_object_table(world, tiny.folder.boxes)
    assert changed.index(world.find("alpha", "a3"), "6") == 0
    assert changed.fingerprint() != objects.fingerprint()


def test_a_world_of_some_scans(tiny):
    furnish(tiny)
    beta = open_world(tiny.folder, scans=["beta"])
    objects = open_object_table(beta, tiny.folder.boxes)
    assert objects.viewpoint.tolist() == [beta.find("beta", "b3")]
    assert objects.ids == ("7",)


def test_no_objects_at_all(tiny, world):
    nothing = build_object_table(world, [], tiny.folder.boxes)
    assert (len(nothing), nothing.widest, nothing.names) == (0, 0, ())
    assert nothing.position.shape == (0, 5)
    assert nothing.largest(3).tolist() == []


def test_an_unknown_viewpoint_and_damage_are_told_together(tiny, world, refuses):
    tiny.write("reverie/BBox/alpha_a9.json", {"a9": {}})
    tiny.write("reverie/BBox/delta_d0.json", {"d0": {}})  # a scan that this world does not have
    tiny.cut("reverie/BBox/beta_b0.json", 5)
    with pytest.raises(InvalidFileError) as caught:
        open_object_table(world, tiny.folder.boxes)
    assert [fault.path.name for fault in caught.value.faults] == ["alpha_a9.json", "beta_b0.json"]
    for path in tiny.folder.boxes.iterdir():
        path.unlink()
    refuses(tiny.folder.boxes, lambda: open_object_table(world, tiny.folder.boxes), "holds no <scan>_<viewpoint>.json")


@given(st.lists(st.text(alphabet="0123459ab٣-", min_size=0, max_size=6), unique=True, max_size=12))
def test_any_ids_have_an_order(tiny, world, ids):
    items = tuple(BoxedObject(id, "x", (0,), ((0, 0, 1, 1),)) for id in ids)
    place = ViewpointObjects("alpha", "a0", items, tiny.folder.boxes / "alpha_a0.json")
    numbers = [id for id in ids if id.isascii() and id.isdigit()]
    expected = [*sorted(numbers, key=lambda id: (int(id), id)), *sorted(set(ids) - set(numbers))]
    assert list(build_object_table(world, [place], tiny.folder.boxes).ids) == expected
