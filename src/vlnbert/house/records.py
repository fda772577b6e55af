"""Connectivity and box files of a house, as the documents that their real counterparts hold."""

import math
from random import Random
from typing import Any

import numpy as np

from vlnbert.house.building import NEAR, Building
from vlnbert.house.sights import Panorama
from vlnbert.house.viewpoints import EYE, Viewpoint


def connectivity(building: Building) -> list[dict[str, Any]]:
    rng = Random(f"{building.scan}/cameras")
    return [
        {
            "image_id": viewpoint.name,
            "pose": _pose(rng, viewpoint),
            "included": viewpoint.included,
            "visible": building.visible[index].tolist(),
            "unobstructed": building.edges[index].tolist(),
            "height": EYE,
        }
        for index, viewpoint in enumerate(building.viewpoints)
    ]


def boxes_of(building: Building, index: int, panorama: Panorama) -> dict[str, Any]:
    """The objects within 3 m; one behind a wall is listed too, with no view that shows it."""
    things = [sight.thing for sight in panorama.sights if sight.thing]
    rows = {thing.number: row for row, thing in enumerate(things)}
    entries = {}
    for number in np.flatnonzero(building.thing_distance[index] <= NEAR).tolist():
        views = np.flatnonzero(panorama.boxed[rows[number]]).tolist() if number in rows else []
        entries[str(number)] = {
            "name": building.things[number].name.replace(" ", "#"),
            "visible_pos": views,
            "bbox2d": [panorama.boxes[rows[number], view].tolist() for view in views],
        }
    return {building.viewpoints[index].name: entries}


def largest_boxes(entries: dict[str, Any]) -> dict[str, list[Any]]:
    """What an object feature file says of the objects that some view shows: ids, the largest box, and its view."""
    shown = {number: entry for number, entry in entries.items() if entry["visible_pos"]}
    best = [int(np.argmax([box[2] * box[3] for box in entry["bbox2d"]])) for entry in shown.values()]
    if not shown:
        return {}
    return {
        "obj_ids": [int(number) for number in shown],
        "bboxes": [entry["bbox2d"][place] for entry, place in zip(shown.values(), best, strict=True)],
        "viewindexs": [entry["visible_pos"][place] for entry, place in zip(shown.values(), best, strict=True)],
    }


def _pose(rng: Random, viewpoint: Viewpoint) -> list[float]:
    """A camera that looks level in some direction: columns right, down, forward and position."""
    x, y, z = viewpoint.position
    heading = rng.uniform(0.0, 6.283)
    cosine, sine = round(math.cos(heading), 6), round(math.sin(heading), 6)
    return [cosine, 0.0, sine, x, -sine, 0.0, cosine, y, 0.0, -1.0, 0.0, z, 0, 0, 0, 1]
