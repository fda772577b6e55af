"""The plan of a house as a page draws it: floors, rooms, graph and objects, as JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlnbert.data.data import Data
from vlnbert.errors import UnknownNameError
from vlnbert.features.objects import box_direction, readable_name
from vlnbert.sources.plans import ScanPlan, read_plan
from vlnbert.world.objects import ObjectTable
from vlnbert.world.world import World

FORMAT = 1
LEVEL = 0.5  # metres up or down that a floor may have: steps, thresholds, a sunken room
STOREY = 2.0  # floors are at least this far apart; half a storey is drawn with its neighbour, as architects do
CROWD = 3  # viewpoints that make a floor; fewer are a landing
FARTHEST = 6.0  # metres from a viewpoint that sees an object; REVERIE shows those within 3 m, measured otherwise
STRAY = 0.5  # metres by which the lines of sight may miss the point that is nearest to all of them
SPREAD = 0.15  # how much the lines must differ in direction: the smaller eigenvalue of their mean projection


def house_plan(data: Data, scan: str) -> dict[str, Any]:
    """The plan of one scan of a data folder.

    A generated house has rooms, doors, stairs and objects, as its generator drew them. A real one has the objects whose
    places follow from REVERIE's boxes, where the folder has them. Positions are metres of the graph.
    """
    world, file = data.world, data.folder.plans / f"{scan}.json"
    if scan not in world.scans:
        raise UnknownNameError("scan", scan, world.scans)
    members = [number for (where, _), number in world.numbers.items() if where == scan]
    position = world.position.cpu().numpy()[members]
    drawn = read_plan(file) if file.is_file() else None
    if drawn is not None:
        heights = list(drawn.floors)
    else:
        floor_of = find_floors(position[:, 2])
        heights = [float(np.median(position[floor_of == floor, 2])) for floor in range(int(floor_of.max()) + 1)]
    floors = np.abs(position[:, 2:] - heights).argmin(axis=1)
    place = {number: index for index, number in enumerate(members)}
    ends = zip(members, world.neighbour[members].tolist(), strict=True)
    edges = {(place[start], place[end]) for start, row in ends for end in row}
    return {
        "format": FORMAT,
        "scan": scan,
        "viewpoints": [
            {"id": world.viewpoints[number], "x": _metres(x), "y": _metres(y), "z": _metres(z), "floor": int(floor)}
            for number, (x, y, z), floor in zip(members, position.tolist(), floors, strict=True)
        ],
        "edges": [[start, end] for start, end in sorted(edges) if start < end],
        "floors": [{"z": _metres(height)} for height in heights],
        **(_seen(data, scan, heights) if drawn is None else _drawn(drawn)),
    }


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
    """The part of a plan of a house without a drawn one: no rooms, and the objects that boxes place."""
    objects = place_objects(data.world, data.objects, scan) if data.folder.boxes.is_dir() else []
    floors = [int(np.abs(np.array(heights) - thing.z).argmin()) for thing in objects]
    placed = [
        {"id": thing.id, "name": thing.name, "floor": floor, "x": _metres(thing.x), "y": _metres(thing.y)}
        for thing, floor in zip(objects, floors, strict=True)
    ]
    return {"rooms": [], "doors": [], "stairs": [], "objects": placed}


def _metres(value: float) -> float:
    return round(float(value), 3)


@dataclass(frozen=True)
class SeenObject:
    """An object at a place that was worked out from its sightings."""

    id: str
    name: str
    x: float
    y: float
    z: float  # of the viewpoints that see it, on average


def place_objects(world: World, objects: ObjectTable, scan: str) -> list[SeenObject]:
    """The objects of a scan whose places follow from two or more lines of sight that agree."""
    heading, position = box_direction(objects)[0].tolist(), world.position.cpu().numpy()
    number = world.scans.index(scan)
    scan_of, seen = world.scan_of.tolist(), dict[str, list[int]]()
    for row, viewpoint in enumerate(objects.viewpoint.tolist()):
        if scan_of[viewpoint] == number:
            seen.setdefault(objects.ids[row], []).append(row)
    placed = []
    for id, rows in seen.items():
        eyes = position[objects.viewpoint[rows].numpy()]
        where = meeting_point(eyes[:, :2], [heading[row] for row in rows])
        if where is not None:
            name = readable_name(objects.names[int(objects.name[rows[0]])])
            placed.append(SeenObject(id, name, float(where[0]), float(where[1]), float(eyes[:, 2].mean())))
    return placed


def meeting_point(eyes: NDArray[np.float64], headings: Sequence[float]) -> NDArray[np.float64] | None:
    """The point nearest to all lines of sight, None where they are alike, miss each other or lead away from it."""
    ahead = np.array([[math.sin(heading), math.cos(heading)] for heading in headings])
    across = np.eye(2) - ahead[:, :, None] * ahead[:, None, :]  # [line, 2, 2] what a point has beside each line
    mean = across.mean(axis=0)
    if float(np.linalg.eigvalsh(mean)[0]) < SPREAD:
        return None
    point = np.linalg.solve(mean, (across @ eyes[:, :, None])[..., 0].mean(axis=0))
    off = point - eyes
    stray = np.linalg.norm((across @ off[:, :, None])[..., 0], axis=1)
    far = (off * ahead).sum(axis=1)
    fits = float(np.sqrt((stray**2).mean())) <= STRAY and bool((far > 0).all()) and float(far.max()) <= FARTHEST
    return np.asarray(point) if fits else None


def find_floors(height: NDArray[np.float64]) -> NDArray[np.int64]:
    """[viewpoint] the floor of each, counted from the lowest one up.

    Viewpoints on stairs fill the gaps between floors, so gaps do not tell floors apart. Counts do: the height that most
    viewpoints share is a floor, and so is the commonest height among those at least a storey away, until only a few
    viewpoints are left. Viewpoints on stairs then go to the nearer floor.
    """
    levels, rest = list[float](), height
    while rest.size:
        alike = np.abs(rest[:, None] - rest) <= LEVEL
        crowded = int(alike.sum(axis=1).argmax())
        if levels and alike[crowded].sum() < CROWD:
            break
        levels.append(float(rest[alike[crowded]].mean()))
        rest = rest[np.abs(rest - levels[-1]) >= STOREY]
    return np.asarray(np.abs(height[:, None] - np.sort(levels)).argmin(axis=1))
