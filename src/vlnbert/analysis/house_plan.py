"""The plan of a house as JSON, for the viewer: the graph on its floors and, where they are known, rooms and objects."""

from typing import Any

import numpy as np

from vlnbert.analysis.object_places import place_objects
from vlnbert.analysis.plan import find_floors
from vlnbert.data.data import Data
from vlnbert.errors import UnknownNameError
from vlnbert.sources.plans import ScanPlan, read_plan
from vlnbert.world.world import World

FORMAT = 1


def house_plan(data: Data, scan: str) -> dict[str, Any]:
    """The plan of one scan of a data folder.

    A generated house has rooms, doors, stairs and objects, as its generator drew them. A real one has the objects whose
    places follow from REVERIE's boxes, where the folder has them. Positions are metres of the graph.
    """
    world, file = data.world, data.folder.plans / f"{scan}.json"
    if scan not in world.scans:
        raise UnknownNameError("scan", scan, world.scans)
    members = _members(world, scan)
    position = world.position.cpu().numpy()[members]
    drawn = read_plan(file) if file.is_file() else None
    heights = _heights(position[:, 2], drawn)
    floors = np.abs(position[:, 2:] - heights).argmin(axis=1)
    return {
        "format": FORMAT,
        "scan": scan,
        "viewpoints": [
            {"id": world.viewpoints[number], "x": _metres(x), "y": _metres(y), "z": _metres(z), "floor": int(floor)}
            for number, (x, y, z), floor in zip(members, position.tolist(), floors, strict=True)
        ],
        "edges": _edges(world, members),
        "floors": [{"z": _metres(height)} for height in heights],
        **(_seen(data, scan, heights) if drawn is None else _drawn(drawn)),
    }


def _members(world: World, scan: str) -> list[int]:
    return [number for (where, _), number in world.numbers.items() if where == scan]


def _heights(z: Any, drawn: ScanPlan | None) -> list[float]:
    """The height of each floor: as it was drawn, else the mean of the viewpoints that are on it."""
    if drawn is not None:
        return list(drawn.floors)
    floors = find_floors(z)
    return [float(np.median(z[floors == floor])) for floor in range(int(floors.max()) + 1)]


def _edges(world: World, members: list[int]) -> list[list[int]]:
    place = {number: index for index, number in enumerate(members)}
    ends = world.neighbour[members].tolist()
    pairs = {(place[start], place[end]) for start, row in zip(members, ends, strict=True) for end in row}
    return [[start, end] for start, end in sorted(pairs) if start < end]


def _drawn(plan: ScanPlan) -> dict[str, Any]:
    return {
        "rooms": [
            {"name": room.name, "floor": room.floor, "polygon": list(map(list, room.polygon))} for room in plan.rooms
        ],
        "doors": [{"floor": door.floor, "from": list(door.start), "to": list(door.end)} for door in plan.doors],
        "stairs": [{"floor": stairs.floor, "polygon": list(map(list, stairs.polygon))} for stairs in plan.stairs],
        "objects": [
            {"id": thing.id, "name": thing.name, "floor": thing.floor, "x": thing.x, "y": thing.y}
            for thing in plan.objects
        ],
    }


def _seen(data: Data, scan: str, heights: list[float]) -> dict[str, Any]:
    """A house that nobody drew: no rooms, and the objects that its boxes place."""
    objects = place_objects(data.world, data.objects, scan) if data.folder.boxes.is_dir() else []
    floors = [int(np.abs(np.array(heights) - thing.z).argmin()) for thing in objects]
    placed = [
        {"id": thing.id, "name": thing.name, "floor": floor, "x": _metres(thing.x), "y": _metres(thing.y)}
        for thing, floor in zip(objects, floors, strict=True)
    ]
    return {"rooms": [], "doors": [], "stairs": [], "objects": placed}


def _metres(value: float) -> float:
    return round(float(value), 3)
