"""Plans of generated houses: what the generator writes is read, and damaged files are told in a line each."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from vlnbert.errors import DataError
from vlnbert.house.building import build
from vlnbert.house.write import plan_document
from vlnbert.sources.annotations import LARGEST_FILE, read_plan

DOCUMENT = plan_document(build(3, 0))


def written(folder: Path, document: Any) -> Path:
    path = folder / f"{DOCUMENT['scan']}.json"
    path.write_text(json.dumps(document))
    return path


def test_what_was_drawn_is_read(tmp_path: Path) -> None:
    building = build(3, 0)
    plan = read_plan(written(tmp_path, DOCUMENT))
    assert plan.scan == building.scan
    assert plan.floors == (1.5, 4.5)
    assert len(plan.rooms) == sum(region.kind != "stairs" for region in building.plan.regions)
    assert len(plan.doors) == len(building.plan.doors) + 2  # and the ways into the stairwell of each floor
    assert [stairs.floor for stairs in plan.stairs] == [0]
    assert [thing.name for thing in plan.objects] == [thing.name for thing in building.objects]
    for thing, drawn in zip(plan.objects, building.objects, strict=True):
        assert (thing.x, thing.y) == pytest.approx(drawn.position[:2], abs=1e-3)


def changed(*keys: Any, to: Any) -> dict[str, Any]:
    document = deepcopy(DOCUMENT)
    place: Any = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    return document


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "does not hold a plan of format 1"),
        (changed("format", to=2), "does not hold a plan of format 1"),
        (changed("floors", to=[]), "'floors' is not a list of heights"),
        (changed("floors", to=[{"z": 3.0}, {"z": 0.0}]), "lowest first"),
        (changed("rooms", to="many"), "'rooms' is not a list"),
        (changed("rooms", to=[{}] * 5001), "'rooms' is not a list of at most 5,000"),
        (changed("rooms", 0, "name", to="x" * 101), "rooms 0: 'name' is not a text"),
        (changed("rooms", 0, "floor", to=2), "rooms 0: 'floor' is not one of 0 to 1"),
        (changed("rooms", 0, "floor", to=True), "rooms 0: 'floor' is not one of 0 to 1"),
        (changed("rooms", 0, "polygon", to=[[0, 0]]), "rooms 0: 'polygon' is not a list of 3 to 100 points"),
        (changed("rooms", 0, "polygon", 0, to=[0, 1e9]), "is not two numbers of at most 10,000 m"),
        (changed("doors", 0, "from", to=None), "doors 0 'from': is not two numbers"),
        (changed("stairs", 0, to=7), "'stairs' is not a list"),
        (changed("objects", 0, "x", to="1"), "objects 0: is not two numbers"),
        (changed("objects", 0, "id", to=7), "objects 0: 'id' is not a text"),
    ],
)
def test_a_damaged_plan_is_told_in_a_line(tmp_path: Path, document: Any, told: str) -> None:
    path = written(tmp_path, document)
    with pytest.raises(DataError, match="vlnbert house DIR") as caught:
        read_plan(path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_is_not_read_without_end(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(DataError, match="is larger than any plan"):
        read_plan(path)
