"""A corridor of viewpoints two metres apart, `a` to `f`, with a side room `s` off `c`; in memory and as files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.conftest import finder, house, navigator
from vlnbert.sources.connectivity import ScanGraph
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.world.build import build_world, open_world
from vlnbert.world.world import World

__all__ = ["finder", "house", "navigator"]  # fixtures, here as there

NAMES = "abcdefs"
EDGES = ("ab", "bc", "cd", "de", "ef", "cs")
PLACES = [(0, 0), (0, 2), (0, 4), (0, 6), (0, 8), (0, 10), (3, 4)]  # `s` lies exactly 3 m east of `c`
R2R = [
    {"path_id": 1, "scan": "hall", "heading": 0.3, "path": list("abcd"), "instructions": ["Go on.", "Walk."]},
    {"path_id": 2, "scan": "hall", "heading": 3.0, "path": list("fed"), "instructions": ["Go back."]},
]
REVERIE = [
    {"id": "5_7", "scan": "hall", "heading": 0.0, "path": list("abcd"), "objId": 7, "instructions": ["Dust the lamp."]}
]
BOXES = {"c": {"7": []}, "d": {"7": [3, 4]}}  # at `c` the object is near, but no view shows it


@pytest.fixture(scope="session")
def hall() -> World:
    """The corridor as a world; viewpoint numbers follow the alphabet of `NAMES`."""
    adjacent = np.zeros((len(NAMES), len(NAMES)), dtype=bool)
    for start, end in EDGES:
        adjacent[NAMES.index(start), NAMES.index(end)] = adjacent[NAMES.index(end), NAMES.index(start)] = True
    position = np.array([(x, y, 1.5) for x, y in PLACES], dtype=np.float64)
    return build_world([ScanGraph("hall", tuple(NAMES), position, adjacent)])


@pytest.fixture
def hall_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFolder:
    """The corridor as files, with three R2R instructions and a REVERIE one."""
    monkeypatch.setenv("VLNBERT_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "data"
    write(root / "connectivity" / "hall_connectivity.json", [viewpoint(name) for name in NAMES])
    write(root / "r2r" / "R2R_val.json", R2R)
    write(root / "r2r" / "R2R_other.json", [R2R[0] | {"path_id": 3}])
    write(root / "r2r" / "R2R_test.json", [R2R[0] | {"path": ["a"]}])
    write(root / "reverie" / "REVERIE_val.json", REVERIE)
    for name, objects in BOXES.items():
        boxes = {
            key: {"name": "lamp", "visible_pos": v, "bbox2d": [[1, 2, 3, 4]] * len(v)} for key, v in objects.items()
        }
        write(root / "reverie" / "BBox" / f"hall_{name}.json", {name: boxes})
    return DataFolder(root)


@pytest.fixture
def episodes_of(hall_folder: DataFolder) -> Callable[[str, str], tuple[Episodes, World]]:
    """A split of the corridor, by task and name, with its world."""
    world = open_world(hall_folder)
    return lambda task, split: (load_episodes(hall_folder, world, task, split), world)


def viewpoint(name: str) -> dict[str, Any]:
    x, y = PLACES[NAMES.index(name)]
    flags = [name + other in EDGES or other + name in EDGES for other in NAMES]
    pose = [1, 0, 0, x, 0, 1, 0, y, 0, 0, 1, 1.5, 0, 0, 0, 1]
    return {"image_id": name, "pose": pose, "included": True, "visible": flags, "unobstructed": flags}


def write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
