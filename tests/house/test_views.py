"""Features, boxes and captions are functions of what a view shows."""

import math
from dataclasses import replace

import h5py
import numpy as np
import pytest

from vlnbert.house import views
from vlnbert.house.building import DOORWAY, LANDING, ROOM, Building
from vlnbert.house.objects import COLOURS, OBJECT_KINDS, HouseObject
from vlnbert.house.views import DOOR, OBJECT, STAIRS_DOWN, STAIRS_UP, object_features, panoramas, view_features

WIDTH, NOISE = 128, 0.2


@pytest.fixture(scope="module")
def house(buildings) -> Building:
    return max(buildings.values(), key=lambda building: building.plan.floors)


def repainted(building: Building, number: int) -> Building:
    thing = building.objects[number]
    other = "red" if thing.colour != "red" else "blue"
    return replace(building, objects=[replace(t, colour=other) if t is thing else t for t in building.objects])


def test_a_new_colour_changes_the_views_that_show_it_and_no_other(house):
    before, after = panoramas(house), panoramas(repainted(house, 3))
    changed_views = 0
    for index, panorama in before.items():
        old = view_features(panorama, WIDTH, NOISE, "key")
        new = view_features(after[index], WIDTH, NOISE, "key")
        shares = zip(panorama.elements, panorama.weights, strict=True)
        rows = [w for e, w in shares if e.object and e.object.number == 3]
        shown = rows[0] > 0 if rows else np.zeros(36, dtype=bool)
        assert ((old != new).any(axis=1) == shown).all()
        changed_views += int(shown.sum())
    assert changed_views > 10


def object_code(kind: str, colour: str) -> np.ndarray:
    return views._object_code(HouseObject(0, OBJECT_KINDS[kind], colour, 0, 0, 0.0, 0.0, (0.0, 0.0, 0.0)), WIDTH)


def test_a_colour_is_bound_to_its_object():
    first = object_code("sofa", "red") + object_code("lamp", "blue")
    second = object_code("sofa", "blue") + object_code("lamp", "red")
    assert np.abs(first - second).mean() > 0.5


def test_noise_has_the_asked_deviation_and_no_more(house):
    panorama = next(iter(panoramas(house).values()))
    clean = view_features(panorama, WIDTH, 0.0, "key").astype(np.float64)
    noise = view_features(panorama, WIDTH, NOISE, "key").astype(np.float64) - clean
    assert noise.std() == pytest.approx(NOISE, rel=0.05)
    assert abs(noise.mean()) < 0.02
    assert clean[12:24].std() > NOISE  # the level views hold more signal than noise


def test_views_of_different_things_differ_more_than_noise(folder, house):
    found, matched = panoramas(house), []
    with h5py.File(folder.path / "features" / "views.hdf5") as stored:
        for index, panorama in list(found.items())[:20]:
            clean = view_features(panorama, WIDTH, 0.0, "key").astype(np.float64)
            noisy = stored[f"{house.scan}_{house.viewpoints[index].name}"][:].astype(np.float64)
            level = slice(12, 24)
            nearest = ((noisy[level, None] - clean[None, level]) ** 2).sum(axis=2).argmin(axis=1)
            distinct = [i for i in range(12) if clean[12 + i].any()]
            matched += [nearest[i] == i for i in distinct]
    assert np.mean(matched) > 0.9


def test_kind_and_colour_can_be_read_from_an_objects_feature(folder, buildings):
    """The nearest of all codes of kinds and colours is its own."""
    codes = {(kind, colour): object_code(kind, colour) for kind in OBJECT_KINDS for colour in COLOURS}
    names, table = list(codes), np.array(list(codes.values()))
    read = []
    with h5py.File(folder.path / "features" / "objects.hdf5") as stored:
        for key in stored:
            things = buildings[key.split("_")[0]].objects
            nearest = (stored[key][:].astype(np.float64) @ table.T).argmax(axis=1)
            own = [(things[id].kind.name, things[id].colour) for id in stored[key].attrs["obj_ids"]]
            read += [names[place] == name for place, name in zip(nearest, own, strict=True)]
    assert len(read) > 500
    assert np.mean(read) > 0.99


def test_object_features_are_their_own(house):
    """An object's noise is its own at every viewpoint, and not that of the views there."""
    things = house.objects[:3]
    clean = object_features(things, WIDTH, 0.0, "key")
    noisy, again, other = (object_features(things, WIDTH, NOISE, key) for key in ("key", "key", "other"))
    assert (noisy == again).all()
    assert (noisy != other).mean() > 0.9
    noise = noisy.astype(np.float64) - clean
    assert noise.std() == pytest.approx(NOISE, rel=0.1)
    assert abs(np.corrcoef(noise)[0, 1]) < 0.4
    assert clean.std() > 2 * NOISE


def test_a_door_shows_the_room_behind_it(house):
    """From inside a room a doorway shows where it leads, in the view that faces it."""
    found, plan = panoramas(house), house.plan
    for index, panorama in found.items():
        viewpoint = house.viewpoints[index]
        for element, weights in zip(panorama.elements, panorama.weights, strict=True):
            if element.kind == DOOR and viewpoint.kind == ROOM and element.door.joins(viewpoint.regions[0]):
                assert element.room == plan.regions[element.door.beyond(viewpoint.regions[0])].kind
                assert weights.argmax() == facing(viewpoint.position, element.position)
            if element.kind == DOOR and viewpoint.kind == DOORWAY:
                assert element.door.index != viewpoint.door


def test_stairs_show_as_going_up_or_down(house):
    found = panoramas(house)
    for index, panorama in found.items():
        viewpoint = house.viewpoints[index]
        stairs = [element for element in panorama.elements if element.kind in (STAIRS_UP, STAIRS_DOWN)]
        assert {element.kind for element in stairs} == {STAIRS_UP, STAIRS_DOWN} or viewpoint.kind != LANDING
        for element in stairs:
            rise = element.position[2] - viewpoint.position[2]
            assert rise == pytest.approx(1.5 if element.kind == STAIRS_UP else -1.5)


def facing(eye, position):
    dx, dy, dz = (b - a for a, b in zip(eye, position, strict=True))
    heading, elevation = math.degrees(math.atan2(dx, dy)), math.degrees(math.atan2(dz, math.hypot(dx, dy)))
    aside = [abs((heading - 30 * (view % 12) + 180) % 360 - 180) for view in range(36)]
    above = [abs(elevation - 30 * (view // 12) + 30) for view in range(36)]
    return min(range(36), key=lambda view: aside[view] ** 2 + above[view] ** 2)


def test_boxes_hold_the_projected_middle_of_an_object(house):
    """The middle of each object, projected by hand into the view that faces it, falls into its box there."""
    checked = 0
    for index, panorama in panoramas(house).items():
        eye = house.viewpoints[index].position
        things = [element.object for element in panorama.elements if element.kind == OBJECT]
        for row, thing in enumerate(things):
            view = facing(eye, thing.position)
            assert panorama.boxed[row, view]
            x, y = project(eye, thing.position, view)
            left, top, width, height = panorama.boxes[row, view]
            assert left - 2 <= x <= left + width + 2
            assert top - 2 <= y <= top + height + 2 or y > 480  # below the image: the box ends at its edge
            checked += 1
    assert checked > 100


def project(eye, position, view):
    """Turn by the view's heading, tilt by its elevation, divide by depth; 60 degrees are 480 pixels high."""
    dx, dy, dz = (b - a for a, b in zip(eye, position, strict=True))
    turn, tilt = math.radians(30 * (view % 12)), math.radians(30 * (view // 12) - 30)
    side, ahead = dx * math.cos(turn) - dy * math.sin(turn), dx * math.sin(turn) + dy * math.cos(turn)
    depth, rise = ahead * math.cos(tilt) + dz * math.sin(tilt), dz * math.cos(tilt) - ahead * math.sin(tilt)
    focal = 240 / math.tan(math.radians(30))
    return 320 + focal * side / depth, 240 - focal * rise / depth


def test_captions_name_objects_that_are_there(folder, house):
    names = {thing.name for thing in house.objects}
    for shown in folder.json(f"captions/{house.scan}.json").values():
        for view in shown.values():
            for found in view["dense_cap"]:
                assert any(name in found["caption"] for name in names if name.endswith(found["obj_class"]))


def test_observations_name_what_lies_in_their_direction(folder, house):
    """At every quarter turn a heading looks where a view does: what either names is in that view."""
    observations = folder.json(f"observations/{house.scan}.json")
    captions = folder.json(f"captions/{house.scan}.json")
    assert observations.keys() == captions.keys()
    named = 0
    for viewpoint, headings in observations.items():
        assert len(headings) == 8
        for quarter in range(4):
            levels = [line.partition(": ") for line in headings[2 * quarter].split("\n")]
            assert [level for level, _, _ in levels] == ["down", "middle", "top"]
            for level, (_, _, text) in enumerate(levels):
                view = captions[viewpoint][str(12 * level + 3 * quarter)]["global_cap"]
                assert set(text.split(" with ")[1:]) == set(view.split(" with ")[1:])
                named += " with " in text
    assert named
