"""Objects in the tiny data folder, and what is seen of them by a slow and obvious way."""

import json
import math
from random import Random
from typing import Any

import torch
from torch import Tensor

from tests.conftest import TinyData, included
from vlnbert.world.objects import ObjectTable, open_object_table
from vlnbert.world.world import World

CROWD = 60  # objects at alpha's a0
MIXED = {  # alpha's a1; boxes are [x, y, width, height]
    "10": {"name": "lamp", "visible_pos": [2], "bbox2d": [[0, 0, 64, 48]]},
    "table": {"name": "table", "visible_pos": [35], "bbox2d": [[320, 240, 320, 240]]},
    "9": {"name": "sofa#chair", "visible_pos": [5, 17, 29], "bbox2d": [[0, 0, 10, 10], [0, 0, 20, 20], [7, 0, 20, 20]]},
    "3": {"name": "lamp", "visible_pos": [], "bbox2d": []},
    "007": {"name": "wall", "visible_pos": [20, 4], "bbox2d": [[600, 440, 1000, 1000], [630, 0, 1000, 480]]},
    "7": {"name": "door", "visible_pos": [9, 8], "bbox2d": [[-10, -20, 20, 40], [-10, -20, 20, 40]]},
    "bed": {"name": "bed", "visible_pos": [0], "bbox2d": [[700, 500, 10, 10]]},
}
ORDER = ["007", "7", "9", "10", "bed", "table"]


def furnish(tiny: TinyData) -> None:
    """A crowd at a0, all kinds of ids and boxes at a1, nothing visible at a2."""
    tiny.write("reverie/BBox/alpha_a0.json", {"a0": crowd()})
    tiny.write("reverie/BBox/alpha_a1.json", {"a1": MIXED})


def crowd(seed: int = 0) -> dict[str, Any]:
    rng, found = Random(seed), {}
    for number in rng.sample(range(1000), CROWD):
        views = rng.sample(range(36), rng.randint(1, 5))
        boxes = [[rng.randint(0, 500), rng.randint(0, 400), rng.randint(1, 140), rng.randint(1, 80)] for _ in views]
        found[str(number)] = {"name": f"thing {number % 7}", "visible_pos": views, "bbox2d": boxes}
    return found


def furnished(tiny: TinyData, world: World) -> ObjectTable:
    furnish(tiny)
    return open_object_table(world, tiny.folder.boxes)


def plain_objects(tiny: TinyData, scan: str, viewpoint: str) -> list[tuple[str, int, list[float]]]:
    """Id, view and position of the objects of a viewpoint, straight from its file."""
    entries = json.loads(tiny.path(f"reverie/BBox/{scan}_{viewpoint}.json").read_text())[viewpoint]
    found = []
    for number, entry in entries.items():
        best: tuple[int, list[float]] | None = None
        for view, box in sorted(zip(entry["visible_pos"], entry["bbox2d"], strict=True)):
            position = plain_position(*box)
            if best is None or position[4] > best[1][4]:
                best = view, position
        if best is not None:
            found.append((number, *best))
    return sorted(found, key=lambda item: (0, int(item[0]), item[0]) if item[0].isdigit() else (1, 0, item[0]))


def plain_position(x: float, y: float, width: float, height: float) -> list[float]:
    left, right = min(max(x, 0), 640), min(max(x + width, 0), 640)
    top, bottom = min(max(y, 0), 480), min(max(y + height, 0), 480)
    area = (right - left) * (bottom - top) / (640 * 480)
    return [left / 640, top / 480, right / 640, bottom / 480, area]


def plain_direction(shown: int, faced: int) -> list[float]:
    """Of a view, by someone who faces another."""
    turn, rise = math.radians(30 * (shown % 12 - faced % 12)), math.radians(30 * (shown // 12 - 1))
    return [math.sin(turn), math.cos(turn), math.sin(rise), math.cos(rise)]


def codes_of(objects: ObjectTable) -> Tensor:
    """A feature for each row by which it can be told."""
    return torch.stack((torch.arange(1.0, len(objects) + 1), objects.view + 1.0), dim=1)


def everyone(world: World) -> list[tuple[int, str, str]]:
    return [(world.find(scan, name), scan, name) for scan, name in included()]
