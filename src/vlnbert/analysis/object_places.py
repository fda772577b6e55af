"""Where the objects of a house stand on its plan: the point that the lines of sight of several viewpoints meet in.

The boxes of real houses tell only in which direction a viewpoint sees an object.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlnbert.features.objects import box_direction, readable_name
from vlnbert.world.objects import ObjectTable
from vlnbert.world.world import World

FARTHEST = 6.0  # metres from a viewpoint that sees an object; REVERIE shows those within 3 m, measured otherwise
STRAY = 0.5  # metres by which the lines of sight may miss the point that is nearest to all of them
SPREAD = 0.15  # how much the lines must differ in direction: the smaller eigenvalue of their mean projection


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
