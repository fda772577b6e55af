"""Shortest paths by metres, and the choice of those that become episodes."""

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray

from vlnbert.house.building import Building
from vlnbert.house.viewpoints import ROOM

TIE = 0.02  # metres: paths closer than this are not told apart, and their ends are not used
FEWEST_HOPS, MOST_HOPS = 3, 6
SHORTEST = 5.0  # metres
OTHER_GOALS = 0.2  # how many of the paths that end outside a room are kept


@dataclass(frozen=True)
class Path:
    """Viewpoint indices from start to goal, the start heading in radians and the length in metres."""

    nodes: tuple[int, ...]
    heading: float
    length: float


def distances(building: Building) -> NDArray[np.float64]:
    """Metres along the graph between all viewpoints (Floyd-Warshall, by element, the same on every machine)."""
    table = np.where(building.walkable, building.lengths, np.inf)
    np.fill_diagonal(table, 0.0)
    for k in range(len(table)):
        table = np.minimum(table, table[:, k, None] + table[None, k, :])
    return table


def shortest_path(building: Building, table: NDArray[np.float64], start: int, goal: int) -> list[int] | None:
    """The shortest path, or None where there is none or another is as good."""
    if not np.isfinite(table[start, goal]):
        return None
    nodes = [start]
    while nodes[-1] != goal:
        here = nodes[-1]
        neighbours = np.flatnonzero(building.walkable[here])
        through = building.lengths[here, neighbours] + table[neighbours, goal]
        best = neighbours[through <= table[here, goal] + TIE]
        if len(best) != 1:
            return None
        nodes.append(int(best[0]))
    return nodes


def choose_paths(rng: Random, building: Building, count: int) -> list[Path]:
    """Up to `count` different paths of R2R's lengths, most of them ending in a room."""
    table = distances(building)
    included = [i for i, viewpoint in enumerate(building.viewpoints) if viewpoint.included]
    ends = [(start, goal) for start in included for goal in included if start != goal]
    rng.shuffle(ends)
    chosen: list[Path] = []
    for start, goal in ends:
        if len(chosen) == count:
            break
        heading = round(rng.uniform(0.0, 6.283), 3)
        kept = building.viewpoints[goal].kind == ROOM or rng.random() < OTHER_GOALS
        nodes = shortest_path(building, table, start, goal) if kept else None
        if nodes and FEWEST_HOPS <= len(nodes) - 1 <= MOST_HOPS:
            length = round(sum(float(building.lengths[a, b]) for a, b in pairwise(nodes)), 6)
            if length >= SHORTEST:
                chosen.append(Path(tuple(nodes), heading, length))
    return chosen
