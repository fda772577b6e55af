"""Shortest paths through a house, and the actions along one: the facts that an instruction puts into words."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from random import Random

import numpy as np
from numpy.typing import NDArray

from vlnbert.house.building import DOORWAY, FOOT, HALL, HEAD, LANDING, ROOM, Building, Viewpoint
from vlnbert.house.objects import HouseObject
from vlnbert.house.plan import Opening

# Metres: paths whose lengths differ by less count as equal, and their ends are not used.
TIE = 0.02
FEWEST_HOPS, MOST_HOPS = 3, 6
SHORTEST = 5.0  # metres
OTHER_GOALS = 0.2  # how many of the paths that end outside a room are kept

# actions: to or through a door, from it into a room, out into a hallway, along it, to the stairs, across a room, stairs
DOOR, ENTER, STEP, ALONG, REACH, CROSS, UP, DOWN = "door", "enter", "step", "along", "reach", "cross", "up", "down"
STRAIGHT, LEFT, RIGHT, AROUND = "straight", "left", "right", "around"
# Metres: a door nearer than the first is beside the walker, one farther than the second ahead.
BESIDE, AHEAD = 0.7, 1.1


@dataclass(frozen=True)
class Route:
    """Viewpoint indices from start to goal, the start heading in radians and the length in metres."""

    nodes: tuple[int, ...]
    heading: float
    length: float


@dataclass(frozen=True)
class RouteStep:
    """One action of a walker: its ends, the turn before it, and doors and objects on the way."""

    action: str
    turn: str
    nodes: tuple[int, ...]
    heading: float  # in degrees, at its end
    source: str = ""  # kinds of region
    target: str = ""
    side: str = ""  # of a door seen from the hallway: left, right or end
    ordinal: int = 0  # which door on that side, 0 where it is not clear
    turn_after: str = STRAIGHT  # behind the door
    passed: HouseObject | None = None  # on the way along a hallway
    floor: int = -1  # reached by stairs


def choose_paths(rng: Random, building: Building, count: int) -> list[Route]:
    """Up to `count` different paths of R2R's lengths, most of them ending in a room."""
    table = graph_distances(building)
    included = [i for i, viewpoint in enumerate(building.viewpoints) if viewpoint.included]
    ends = list(permutations(included, 2))
    rng.shuffle(ends)
    chosen: list[Route] = []
    for start, goal in ends:
        if len(chosen) == count:
            break
        heading = round(rng.uniform(0.0, 6.283), 3)
        kept = building.viewpoints[goal].kind == ROOM or rng.random() < OTHER_GOALS
        nodes = shortest_path(building, table, start, goal) if kept else None
        if nodes and FEWEST_HOPS <= len(nodes) - 1 <= MOST_HOPS:
            length = round(sum(float(building.lengths[a, b]) for a, b in pairwise(nodes)), 6)
            if length >= SHORTEST:
                chosen.append(Route(tuple(nodes), heading, length))
    return chosen


def graph_distances(building: Building) -> NDArray[np.float64]:
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


def turn_of(before: float, after: float) -> str:
    """Name the turn between two headings, in degrees clockwise from +y."""
    angle = round((after - before + 180.0) % 360.0 - 180.0, 6)
    side = RIGHT if angle > 0 else LEFT
    if abs(angle) < 30.0:
        return STRAIGHT
    if abs(angle) < 60.0:
        return f"slight {side}"
    return side if abs(angle) < 140.0 else AROUND


def route_steps(building: Building, path: Route) -> list[RouteStep]:
    """The actions along a path; moves that people describe as one are one step."""
    steps: list[RouteStep] = []
    heading = round(math.degrees(path.heading), 6)
    for here, there in pairwise(path.nodes):
        step = _move(building, here, there, heading=heading, last=steps[-1] if steps else None)
        heading = step.heading
        if steps and (joined := _joined(steps[-1], step)):
            steps[-1] = joined
        else:
            steps.append(step)
    return [_with_object_passed(building, step) if step.action == ALONG else step for step in steps]


def _move(building: Building, here: int, there: int, *, heading: float, last: RouteStep | None) -> RouteStep:
    """The step from a viewpoint to a neighbour, where one arrived with `heading` after the `last` step."""
    start, end, regions = building.viewpoints[here], building.viewpoints[there], building.plan.regions
    dx, dy = end.position[0] - start.position[0], end.position[1] - start.position[1]
    after = round(math.degrees(math.atan2(dx, dy)) % 360.0, 6)
    shared = next(region for region in start.regions if region in end.regions)
    kind = regions[shared].kind
    step = RouteStep(_action(start, end), turn_of(heading, after), (here, there), after, source=kind, target=kind)
    if step.action == DOOR:
        door = building.plan.doors[end.door]
        step = replace(step, target=regions[door.beyond(shared)].kind)
        if last and last.action == ALONG:
            step = _numbered(building, step, last, door=door, hall=shared)
    if step.action in (UP, DOWN):
        step = replace(step, floor=end.floors[0] if end.kind != LANDING else -1)
    return step


def _action(start: Viewpoint, end: Viewpoint) -> str:
    if LANDING in (start.kind, end.kind):
        return UP if end.position[2] > start.position[2] else DOWN
    if end.kind == DOORWAY:
        return DOOR
    if end.kind in (FOOT, HEAD):
        return REACH
    if end.kind == ROOM:
        return ENTER if start.kind == DOORWAY else CROSS
    return ALONG if start.kind == HALL else STEP


def _joined(first: RouteStep, second: RouteStep) -> RouteStep | None:
    """Two steps that people describe as one, or None."""
    nodes = first.nodes + second.nodes[1:]
    if first.action == DOOR and second.action == ENTER and len(first.nodes) == 2:
        return replace(first, nodes=nodes, heading=second.heading, turn_after=second.turn)
    if (first.action in (DOOR, UP, DOWN) and second.action == STEP) or first.action == second.action == ALONG:
        return replace(first, nodes=nodes, heading=second.heading)
    if first.action == REACH and second.action in (UP, DOWN):
        return replace(second, nodes=nodes, turn=first.turn)
    if first.action == second.action and first.action in (UP, DOWN):
        return replace(first, nodes=nodes, heading=second.heading, floor=second.floor)
    return None


def _numbered(building: Building, step: RouteStep, last: RouteStep, *, door: Opening, hall: int) -> RouteStep:
    """Say on which side of the hallway the door is, and how many doors on that side come before it."""
    start, end = (building.viewpoints[node] for node in (last.nodes[0], step.nodes[0]))
    if door.along == "y":
        return replace(step, side="end")
    forward = 1 if end.x > start.x else -1
    ahead = (door.x - start.x) * forward
    if ahead < AHEAD:
        return step
    side = LEFT if (door.y > 0) == (forward > 0) else RIGHT
    same_side = [d for d in building.plan.doors_of(hall) if d.along == "x" and d.y == door.y]
    offsets = [(d.x - start.x) * forward for d in same_side]
    clear = not any(BESIDE < offset < AHEAD for offset in offsets)
    ordinal = 1 + sum(AHEAD <= offset < ahead for offset in offsets) if clear else 0
    return replace(step, side=side, ordinal=ordinal)


def _with_object_passed(building: Building, step: RouteStep) -> RouteStep:
    """The last object of the hallway that is well behind at the end of the walk."""
    start, end = (building.viewpoints[node] for node in (step.nodes[0], step.nodes[-1]))
    hall = next((region for region in end.regions if region in start.regions), -1)
    forward, reach = 1 if end.x > start.x else -1, abs(end.x - start.x)
    passed = [t for t in building.objects if t.region == hall and 0.3 < (t.x - start.x) * forward < reach - 1.0]
    return replace(step, passed=max(passed, key=lambda t: t.x * forward, default=None))
