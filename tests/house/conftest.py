"""A small generated house on disk, shared by the tests, and a reader of its files that knows no generator."""

import json
import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vlnbert.house import HouseSummary, generate
from vlnbert.house.building import Building, build

SEED, SCANS, PATHS = 5, 6, 40
SPLITS = ("train", "val_seen", "val_unseen", "test")


class Folder:
    """The written files, read with nothing but json."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def json(self, name: str) -> Any:
        return json.loads((self.path / name).read_text())

    def records(self, task: str, split: str) -> list[dict[str, Any]]:
        return self.json(f"{task.lower()}/{task}_{split}.json")

    def boxes(self, scan: str, viewpoint: str) -> dict[str, Any]:
        return self.json(f"reverie/BBox/{scan}_{viewpoint}.json")[viewpoint]

    @cached_property
    def scans(self) -> list[str]:
        return (self.path / "connectivity" / "scans.txt").read_text().split()

    @cached_property
    def graphs(self) -> dict[str, "Graph"]:
        return {scan: Graph(self.json(f"connectivity/{scan}_connectivity.json")) for scan in self.scans}


class Graph:
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.names = [row["image_id"] for row in rows]
        self.included = np.array([row["included"] for row in rows])
        self.positions = np.array([[row["pose"][i] for i in (3, 7, 11)] for row in rows])
        self.visible = np.array([row["visible"] for row in rows])
        self.edges = np.array([row["unobstructed"] for row in rows])

    @cached_property
    def lengths(self) -> np.ndarray:
        """Metres of the edges that an agent can use, 0 elsewhere."""
        usable = self.edges & self.included[:, None] & self.included[None]
        return np.where(usable, np.linalg.norm(self.positions[:, None] - self.positions[None], axis=2), 0.0)

    def heading(self, start: str, end: str) -> float:
        """Degrees, 0 along +y, clockwise."""
        dx, dy, _ = self.positions[self.names.index(end)] - self.positions[self.names.index(start)]
        return math.degrees(math.atan2(dx, dy)) % 360.0


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Folder, HouseSummary]:
    path = tmp_path_factory.mktemp("houses") / "house"
    summary = generate(path, seed=SEED, scans=SCANS, paths_per_scan=PATHS)
    return Folder(path), summary


@pytest.fixture(scope="session")
def folder(written: tuple[Folder, HouseSummary]) -> Folder:
    return written[0]


@pytest.fixture(scope="session")
def buildings() -> dict[str, Building]:
    """The houses behind the files, by scan."""
    houses = [build(SEED, number) for number in range(SCANS)]
    return {house.scan: house for house in houses}
