"""One whole house: plan, viewpoints in rooms, doorways and hallways and on stairs, edges, objects, lines of sight."""

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from vlnbert.house.objects import FURNISHING, HouseObject, place_objects
from vlnbert.house.plan import HALF_HALL, HALLWAY, STAIRS, STOREY, HousePlan, Opening, PlanPoint, Region, draw_plan

EYE = 1.5  # metres above the floor
REACH = 5.0  # metres: the longest edge
# An edge is left out if the way by another viewpoint is less than this many times as long.
DETOUR = 1.06
MOST_NEIGHBOURS = 12
ROOM, DOORWAY, HALL, FOOT, HEAD, LANDING = "room", "doorway", "hall", "foot", "head", "landing"
NEAR = 3.0  # metres within which an object counts as visible in REVERIE
# A line that only grazes the end of a wall is not blocked.
TOUCH = 1e-9
ATTEMPTS = 50  # to draw a house in which one can walk everywhere

Position = tuple[float, float, float]  # metres in the world's frame


@dataclass(frozen=True)
class Viewpoint:
    """A place to stand; `x` and `y` are in the plan's frame, and a landing belongs to two floors."""

    name: str
    kind: str
    regions: tuple[int, ...]
    floors: tuple[int, ...]
    x: float
    y: float
    position: Position
    included: bool = True
    door: int = -1  # in which it stands
    flight: int = -1  # of stairs, to which it belongs

    def point(self) -> PlanPoint:
        return PlanPoint(self.x, self.y, self.floors)


def find_edges(
    viewpoints: list[Viewpoint], visible: NDArray[np.bool_], distances: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """[viewpoint, viewpoint] whether one move leads from one to the other: a symmetric table."""
    edges = visible & (distances <= REACH)
    for i, j in np.argwhere(edges):
        edges[i, j] = _may_walk(viewpoints[i], viewpoints[j])
    halls = np.array([viewpoint.kind == HALL for viewpoint in viewpoints])
    for i, viewpoint in enumerate(viewpoints):
        # From a doorway or the end of stairs one steps to the nearest point of the hallway, and then follows it.
        if viewpoint.kind in (DOORWAY, FOOT, HEAD):
            _keep_nearest(edges, distances, i, np.flatnonzero(edges[i] & halls), 1)
    steps = np.where(edges, distances, np.inf)
    by = steps[:, [i for i, viewpoint in enumerate(viewpoints) if viewpoint.included]]
    shortest_by = np.round((by[:, None, :] + by[None, :, :]).min(axis=2), 6)
    edges &= shortest_by >= DETOUR * distances
    for i in range(len(edges)):
        _keep_nearest(edges, distances, i, np.flatnonzero(edges[i]), MOST_NEIGHBOURS)
    return edges


def straight_distances(ends: Sequence[Position], others: Sequence[Position]) -> NDArray[np.float64]:
    """[end, other] metres in a straight line."""
    difference = np.array(ends)[:, None] - np.array(others)[None]
    distances: NDArray[np.float64] = np.sqrt(
        difference[..., 0] ** 2 + difference[..., 1] ** 2 + difference[..., 2] ** 2
    )
    return distances


def _may_walk(first: Viewpoint, second: Viewpoint) -> bool:
    """A doorway is reached from within a room or hallway, the end of stairs from a hallway, a landing by its stairs."""
    kinds = {first.kind, second.kind}
    if LANDING in kinds:
        return first.flight == second.flight
    if kinds <= {DOORWAY, FOOT, HEAD} and DOORWAY in kinds:
        return False
    return not set(first.regions).isdisjoint(second.regions)


def _keep_nearest(
    edges: NDArray[np.bool_], distances: NDArray[np.float64], i: int, others: NDArray[np.int64], most: int
) -> None:
    """Drop the edges from viewpoint `i` to all but the `most` nearest of the others."""
    for j in sorted(others, key=lambda j: (distances[i, j], j))[most:]:
        edges[i, j] = edges[j, i] = False


class Placer:
    """Places the viewpoints of a plan at random, one region, door or flight of stairs at a time."""

    def __init__(self, rng: Random, plan: HousePlan) -> None:
        self.rng, self.plan = rng, plan
        self.viewpoints: list[Viewpoint] = []
        for region in plan.regions:
            if region.kind == HALLWAY:
                self.hallway(region)
            elif region.kind != STAIRS:
                self.room(region)
        for door in plan.doors:
            self.doorway(door)
        for flight in range(len(plan.stairwells) - 1):
            self.stairs(flight)
        for _ in range(rng.randint(1, 3)):
            self.excluded()

    def room(self, region: Region) -> None:
        """Two or three viewpoints, well apart and clear of the walls."""
        wanted, chosen = self.rng.randint(2, 3), list[tuple[float, float]]()
        for _ in range(60):
            point = self._inside(region)
            if len(chosen) < wanted and all(math.dist(point, other) > 1.8 for other in chosen):
                chosen.append(point)
        for point in chosen:
            self._add(ROOM, (region,), *point)

    def hallway(self, region: Region) -> None:
        """One in front of each door or pair of doors, and more where the way between them is long."""
        stops = sorted(door.x for door in self.plan.doors_of(region.index) if door.along == "x")
        stops += [well.box.centre[0] for well in self.plan.stairwells[:1]]
        ends = [region.box.left + 0.9, region.box.right - 0.9]
        for x in _spread(sorted([*stops, *ends])):
            self._add(HALL, (region,), x + self.rng.uniform(-0.2, 0.2), self.rng.uniform(-0.35, 0.35))

    def doorway(self, door: Opening) -> None:
        regions = self.plan.regions[door.first], self.plan.regions[door.second]
        inward, sideways = self.rng.uniform(-0.08, 0.08), self.rng.uniform(-0.1, 0.1)
        dx, dy = (sideways, inward) if door.along == "x" else (inward, sideways)
        self._add(DOORWAY, regions, door.x + dx, door.y + dy, door=door.index)

    def stairs(self, flight: int) -> None:
        """Up along the left half of the stairwell to a landing at its far end, and back along the right half."""
        low, high = self.plan.stairwells[flight : flight + 2]
        halls = {region.floor: region for region in self.plan.regions if region.kind == HALLWAY}
        box = low.box
        jitter = [self.rng.uniform(-0.1, 0.1) for _ in range(3)]
        foot, head = box.left + 0.7 + jitter[0], box.right - 0.7 + jitter[1]
        self._add(FOOT, (halls[low.floor], low), foot, HALF_HALL + 0.6, flight=flight)
        self._add(LANDING, (low, high), box.centre[0] + jitter[2], box.top - 0.5, flight=flight, rise=STOREY / 2)
        self._add(HEAD, (halls[high.floor], high), head, HALF_HALL + 0.6, flight=flight)

    def excluded(self) -> None:
        """A viewpoint that the graph excludes, as real graphs have some."""
        region = self.rng.choice([region for region in self.plan.regions if region.kind != STAIRS])
        others = [(viewpoint.x, viewpoint.y) for viewpoint in self.viewpoints if region.floor in viewpoint.floors]
        points = [self._inside(region) for _ in range(10)]
        clearest = max(points, key=lambda point: min(round(math.dist(point, other), 6) for other in others))
        self._add(ROOM, (region,), *clearest, included=False)

    def _inside(self, region: Region) -> tuple[float, float]:
        box, margin = region.box, min(1.0, (region.box.top - region.box.bottom) / 3)
        x = self.rng.uniform(box.left + margin, box.right - margin)
        return x, self.rng.uniform(box.bottom + margin, box.top - margin)

    def _add(
        self, kind: str, regions: tuple[Region, ...], x: float, y: float, rise: float = 0.0, **values: Any
    ) -> None:
        x, y = round(x, 6), round(y, 6)
        name, indices = f"{self.rng.getrandbits(128):032x}", tuple(region.index for region in regions)
        floors = tuple(sorted({region.floor for region in regions}))
        position = (*self.plan.to_world(x, y), round(floors[0] * STOREY + EYE + rise, 6))
        self.viewpoints.append(Viewpoint(name, kind, indices, floors, x, y, position, **values))


def _spread(stops: list[float]) -> list[float]:
    """Merge stops that are close together and fill gaps that are wide."""
    merged = [stops[0]]
    for stop in stops[1:]:
        if stop - merged[-1] > 0.9:
            merged.append(stop)
        else:
            merged[-1] = (merged[-1] + stop) / 2
    filled = [merged[0]]
    for stop in merged[1:]:
        if stop - filled[-1] > 4.2:
            filled.append((filled[-1] + stop) / 2)
        filled.append(stop)
    return filled


@dataclass(frozen=True)
class Building:
    """A house; `visible` and `edges` are symmetric tables over all viewpoints, those that are not included too."""

    scan: str
    plan: HousePlan
    viewpoints: list[Viewpoint]
    objects: list[HouseObject]
    visible: NDArray[np.bool_]
    edges: NDArray[np.bool_]
    lengths: NDArray[np.float64]  # [viewpoint, viewpoint] metres in a straight line

    @cached_property
    def walkable(self) -> NDArray[np.bool_]:
        """Edges between included viewpoints, which an agent can use."""
        included = np.array([viewpoint.included for viewpoint in self.viewpoints])
        walkable: NDArray[np.bool_] = self.edges & included[:, None] & included[None]
        return walkable

    @cached_property
    def sees_object(self) -> NDArray[np.bool_]:
        """[viewpoint, object] whether a viewpoint sees an object."""
        eyes = [viewpoint.point() for viewpoint in self.viewpoints]
        return line_of_sight(self.plan, eyes, [thing.point() for thing in self.objects])

    @cached_property
    def object_distance(self) -> NDArray[np.float64]:
        """[viewpoint, object] metres in a straight line."""
        eyes, objects = [eye.position for eye in self.viewpoints], [thing.position for thing in self.objects]
        return np.round(straight_distances(eyes, objects), 6)

    def objects_near(self, viewpoint: int) -> list[HouseObject]:
        """The objects in sight within 3 m, nearest first."""
        distance = self.object_distance[viewpoint]
        near = np.flatnonzero(self.sees_object[viewpoint] & (distance <= NEAR))
        return [self.objects[j] for j in sorted(near, key=lambda j: (distance[j], j))]


def build(seed: int, number: int) -> Building:
    """House `number` of a seed; it does not depend on how many others there are."""
    naming = Random(f"{seed}/{number}/name")
    scan = "".join(naming.choice(string.ascii_letters + string.digits) for _ in range(11))
    for attempt in range(ATTEMPTS):
        rng = Random(f"{seed}/{number}/{attempt}/building")
        plan = draw_plan(rng, number, FURNISHING)
        viewpoints = Placer(rng, plan).viewpoints
        points = [viewpoint.point() for viewpoint in viewpoints]
        visible = line_of_sight(plan, points, points)
        visible |= visible.T
        np.fill_diagonal(visible, False)
        positions = [viewpoint.position for viewpoint in viewpoints]
        lengths = np.round(straight_distances(positions, positions), 9)
        edges = find_edges(viewpoints, visible, lengths)
        if connected_components(edges, directed=False)[0] == 1:
            objects = place_objects(rng, plan, viewpoints)
            return Building(scan, plan, viewpoints, objects, visible, edges, lengths)
    # The layout guarantees one in a few.
    raise AssertionError(f"no connected house in {ATTEMPTS} attempts")


def line_of_sight(plan: HousePlan, eyes: Sequence[PlanPoint], targets: Sequence[PlanPoint]) -> NDArray[np.bool_]:
    """Whether each of `eyes` sees each of `targets`: they share a floor on which no wall lies between them."""
    seen = np.zeros((len(eyes), len(targets)), dtype=bool)
    for floor in range(plan.floors):
        rows = [i for i, eye in enumerate(eyes) if floor in eye.floors]
        columns = [j for j, target in enumerate(targets) if floor in target.floors]
        if rows and columns:
            start = np.array([(eyes[i].x, eyes[i].y) for i in rows])
            end = np.array([(targets[j].x, targets[j].y) for j in columns])
            seen[np.ix_(rows, columns)] |= ~_blocked(start, end, np.array(plan.walls[floor]))
    return seen


def _blocked(start: NDArray[np.float64], end: NDArray[np.float64], walls: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the segment from each start to each end crosses a wall."""
    p, q = start[:, None, None, :], end[None, :, None, :]
    a, b = walls[None, None, :, :2], walls[None, None, :, 2:]
    sides_of_wall = _side(a, b, p) * _side(a, b, q)
    sides_of_line = _side(p, q, a) * _side(p, q, b)
    crossing = (sides_of_wall < -TOUCH) & (sides_of_line < -TOUCH)
    blocked: NDArray[np.bool_] = np.logical_or.reduce(crossing, axis=2)
    return blocked


def _side(a: NDArray[np.float64], b: NDArray[np.float64], point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positive where `point` lies to the left of the line from a to b, rounded against the last bit."""
    along, aside = b - a, point - a
    return np.round(along[..., 0] * aside[..., 1] - along[..., 1] * aside[..., 0], 9)
