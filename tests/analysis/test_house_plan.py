"""Plans of houses for the viewer: as their generator drew them, or as graph and boxes tell."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vlnbert as vln
from vlnbert.analysis.house_plan import house_plan, meeting_point, place_objects
from vlnbert.errors import UnknownNameError
from vlnbert.house import generate


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planned") / "house"
    generate(folder, seed=2, scans=3, paths_per_scan=2)
    return folder


@pytest.fixture(scope="module")
def undrawn(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same houses as real ones come: without plans."""
    folder = tmp_path_factory.mktemp("undrawn") / "house"
    shutil.copytree(house, folder, ignore=shutil.ignore_patterns("plans"))
    return folder


def test_a_generated_house_is_as_it_was_drawn(house: Path) -> None:
    data = vln.open_data(house)
    for scan in data.world.scans:
        plan = json.loads(json.dumps(house_plan(data, scan)))
        file = json.loads((house / "plans" / f"{scan}.json").read_text())
        for key in ("floors", "rooms", "doors", "stairs", "objects"):
            assert plan[key] == file[key]


def test_viewpoints_and_edges_are_those_of_the_graph(house: Path) -> None:
    data = vln.open_data(house)
    for scan in data.world.scans:
        plan = house_plan(data, scan)
        names = [viewpoint["id"] for viewpoint in plan["viewpoints"]]
        assert names == data.world.names_in(scan)
        number = data.world.find(scan, names[0])
        ends = {data.world.viewpoints[end] for end in data.world.neighbour[number].tolist()} - {names[0]}
        joined = {names[one + other] for one, other in plan["edges"] if 0 in (one, other)}
        assert joined == ends


def test_every_viewpoint_is_inside_a_room_or_on_stairs(house: Path) -> None:
    data = vln.open_data(house)
    for scan in data.world.scans:
        plan = house_plan(data, scan)
        for viewpoint in plan["viewpoints"]:
            here = [room for room in plan["rooms"] if room["floor"] == viewpoint["floor"]] + plan["stairs"]
            assert any(inside(viewpoint, place["polygon"]) for place in here)


def inside(point: dict[str, float], polygon: list[list[float]]) -> bool:
    """Of a rectangle whose corners go round to the left; doorways lie up to 10 cm in the wall."""
    sides = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return all(
        ((b[0] - a[0]) * (point["y"] - a[1]) - (b[1] - a[1]) * (point["x"] - a[0])) / math.dist(a, b) > -0.1
        for a, b in sides
    )


def test_floors_without_a_plan_are_those_of_the_plan(house: Path, undrawn: Path) -> None:
    drawn, found = vln.open_data(house), vln.open_data(undrawn)
    for scan in drawn.world.scans:
        first, second = house_plan(drawn, scan), house_plan(found, scan)
        assert [v["floor"] for v in first["viewpoints"]] == [v["floor"] for v in second["viewpoints"]]
        assert second["rooms"] == second["doors"] == second["stairs"] == []


def test_objects_are_placed_where_lines_of_sight_meet(house: Path, undrawn: Path) -> None:
    data = vln.open_data(undrawn)
    for scan in data.world.scans:
        true = {thing["id"]: thing for thing in house_plan(vln.open_data(house), scan)["objects"]}
        placed = house_plan(data, scan)["objects"]
        assert len(placed) > len(true) / 3
        for thing in placed:
            assert math.dist(*((one["x"], one["y"]) for one in (thing, true[thing["id"]]))) < 0.5
            assert (thing["name"], thing["floor"]) == (true[thing["id"]]["name"], true[thing["id"]]["floor"])
        assert len(place_objects(data.world, data.objects, scan)) == len(placed)


@pytest.mark.parametrize(
    ("headings", "point"),
    [
        ([math.pi / 4, -math.pi / 4], [1.0, 1.0]),
        ([math.pi / 4, math.pi / 4], None),  # side by side
        ([-math.pi / 4, math.pi / 4], None),  # they part
        ([0.45 * math.pi, 0.46 * math.pi], None),  # too alike to tell
    ],
)
def test_lines_of_sight(headings: list[float], point: Any) -> None:
    found = meeting_point(np.array([[0.0, 0.0], [2.0, 0.0]]), headings)
    assert (found is None) if point is None else found == pytest.approx(point)


def test_a_house_that_is_not_there(house: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no scan '\.\./secret'"):
        house_plan(vln.open_data(house), "../secret")
