"""One whole house: plan, viewpoints, edges, objects, and lines of sight.

Viewpoints: a few in each room, one in each doorway, along the hallways and on the stairs.
"""

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from vlnbert.house.objects import FURNISHING, HouseObject, place_objects
from vlnbert.house.plan import HALF_HALL, HALLWAY, STAIRS, STOREY, HousePlan, Opening, PlanPoint, Region, draw_plan

EYE = 1.5  # metres above the floor
REACH = 5.0  # the longest edge, in metres
DETOUR = 1.06  # an edge that is hardly shorter than going by another viewpoint is left out
MOST_NEIGHBOURS = 12
ROOM, DOORWAY, HALL, FOOT, HEAD, LANDING = "room", "doorway", "hall", "foot", "head", "landing"
NEAR = 3.0  # metres within which an object counts as visible in REVERIE
TOUCH = 1e-9  # a line that only grazes the end of a wall is not blocked
ATTEMPTS = 50  # to draw a house in which one can walk everywhere


@dataclass(frozen=True)
class Viewpoint:
    """`x` and `y` are in the plan's frame, `position` in the world's; a landing belongs to two floors."""

    name: str
    kind: str
    regions: tuple[int, ...]
    floors: tuple[int, ...]
    x: float
    y: float
    position: tuple[float, float, float]
    included: bool = True
    door: int = -1  # in which it stands
    flight: int = -1  # of stairs, to which it belongs

    def point(self) -> PlanPoint:
        return PlanPoint(self.x, self.y, self.floors)


def place_viewpoints(rng: Random, plan: HousePlan) -> list[Viewpoint]:
    """The viewpoints of a plan at random places, some of them excluded from the graph."""
    placer = _Placer(rng, plan)
    for region in plan.regions:
        if region.kind == HALLWAY:
            placer.hallway(region)
        elif region.kind != STAIRS:
            placer.room(region)
    for door in plan.doors:
        placer.doorway(door)
    for flight in range(len(plan.stairwells) - 1):
        placer.stairs(flight)
    for _ in range(rng.randint(1, 3)):
        placer.excluded()
    return placer.found


def find_edges(viewpoints: list[Viewpoint], visible: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[viewpoint, viewpoint] whether one move leads from one to the other: a symmetric table."""
    distances = pairwise_distances(viewpoints)
    walkable = np.zeros_like(visible)
    for i, first in enumerate(viewpoints):
        for j in range(i):
            near = bool(visible[i, j]) and distances[i, j] <= REACH
            walkable[i, j] = walkable[j, i] = near and _may_walk(first, viewpoints[j])
    _step_into_halls(walkable, distances, viewpoints)
    return _thinned(_without_detours(walkable, distances, viewpoints), distances)


def pairwise_distances(viewpoints: list[Viewpoint]) -> NDArray[np.float64]:
    """Metres between the viewpoints, in a straight line."""
    positions = np.array([viewpoint.position for viewpoint in viewpoints])
    difference = positions[:, None] - positions[None]
    square = difference[..., 0] ** 2 + difference[..., 1] ** 2 + difference[..., 2] ** 2
    rounded: NDArray[np.float64] = np.round(np.sqrt(square), 9)
    return rounded


def _may_walk(first: Viewpoint, second: Viewpoint) -> bool:
    """A doorway is reached from within a room or hallway, the end of stairs from a hallway, a landing by its stairs."""
    kinds = {first.kind, second.kind}
    if LANDING in kinds:
        return first.flight == second.flight
    if kinds <= {DOORWAY, FOOT, HEAD} and DOORWAY in kinds:
        return False
    return not set(first.regions).isdisjoint(second.regions)


def _step_into_halls(walkable: NDArray[np.bool_], distances: NDArray[np.float64], viewpoints: list[Viewpoint]) -> None:
    """From a doorway or the end of stairs one steps to the nearest point of the hallway, and then follows it."""
    halls = np.array([viewpoint.kind == HALL for viewpoint in viewpoints])
    for i, viewpoint in enumerate(viewpoints):
        if viewpoint.kind in (DOORWAY, FOOT, HEAD):
            reached = sorted(np.flatnonzero(walkable[i] & halls), key=lambda j: (distances[i, j], j))
            for j in reached[1:]:
                walkable[i, j] = walkable[j, i] = False


def _without_detours(
    walkable: NDArray[np.bool_], distances: NDArray[np.float64], viewpoints: list[Viewpoint]
) -> NDArray[np.bool_]:
    steps = np.where(walkable, distances, np.inf)
    by = steps[:, [i for i, viewpoint in enumerate(viewpoints) if viewpoint.included]]
    shortest_by = np.round((by[:, None, :] + by[None, :, :]).min(axis=2), 6)
    kept: NDArray[np.bool_] = walkable & ~(shortest_by < DETOUR * distances)
    return kept


def _thinned(edges: NDArray[np.bool_], distances: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Drop the longest edges of a viewpoint that has too many neighbours."""
    thinned = edges.copy()
    for i in range(len(thinned)):
        neighbours = sorted(np.flatnonzero(thinned[i]), key=lambda j: (distances[i, j], j))
        for j in neighbours[MOST_NEIGHBOURS:]:
            thinned[i, j] = thinned[j, i] = False
    return thinned


class _Placer:
    """Places viewpoints one region, door or flight of stairs at a time."""

    def __init__(self, rng: Random, plan: HousePlan) -> None:
        self.rng, self.plan = rng, plan
        self.found: list[Viewpoint] = []

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
        inward = self.rng.uniform(-0.08, 0.08)
        shift = (self.rng.uniform(-0.1, 0.1), inward) if door.along == "x" else (inward, self.rng.uniform(-0.1, 0.1))
        self._add(DOORWAY, regions, door.x + shift[0], door.y + shift[1], door=door.index)

    def stairs(self, flight: int) -> None:
        """Up along the left half of the stairwell to a landing at its far end, and back along the right half."""
        low, high = self.plan.stairwells[flight : flight + 2]
        box = low.box
        jitter = [self.rng.uniform(-0.1, 0.1) for _ in range(3)]
        foot, head = box.left + 0.7 + jitter[0], box.right - 0.7 + jitter[1]
        self._add(FOOT, (self._hall(low), low), foot, HALF_HALL + 0.6, flight=flight)
        self._add(LANDING, (low, high), box.centre[0] + jitter[2], box.top - 0.5, flight=flight, rise=STOREY / 2)
        self._add(HEAD, (self._hall(high), high), head, HALF_HALL + 0.6, flight=flight)

    def excluded(self) -> None:
        """A viewpoint that the graph excludes, as real graphs have some."""
        rooms = [region for region in self.plan.regions if region.kind != STAIRS]
        region = self.rng.choice(rooms)
        others = [(viewpoint.x, viewpoint.y) for viewpoint in self.found if region.floor in viewpoint.floors]
        points = [self._inside(region) for _ in range(10)]
        clearest = max(points, key=lambda point: min(round(math.dist(point, other), 6) for other in others))
        self._add(ROOM, (region,), *clearest, included=False)

    def _inside(self, region: Region) -> tuple[float, float]:
        box, margin = region.box, min(1.0, (region.box.top - region.box.bottom) / 3)
        x = self.rng.uniform(box.left + margin, box.right - margin)
        return x, self.rng.uniform(box.bottom + margin, box.top - margin)

    def _hall(self, well: Region) -> Region:
        return next(region for region in self.plan.halls() if region.floor == well.floor)

    def _add(
        self,
        kind: str,
        regions: tuple[Region, ...],
        x: float,
        y: float,
        included: bool = True,
        door: int = -1,
        flight: int = -1,
        rise: float = 0.0,
    ) -> None:
        x, y = round(x, 6), round(y, 6)
        floors = tuple(sorted({region.floor for region in regions}))
        height = round(floors[0] * STOREY + EYE + rise, 6)
        viewpoint = Viewpoint(
            name=f"{self.rng.getrandbits(128):032x}",
            kind=kind,
            regions=tuple(region.index for region in regions),
            floors=floors,
            x=x,
            y=y,
            position=(*self.plan.to_world(x, y), height),
            included=included,
            door=door,
            flight=flight,
        )
        self.found.append(viewpoint)


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
    """`visible` and `edges` are symmetric tables over all viewpoints, those that are not included too."""

    scan: str
    plan: HousePlan
    viewpoints: list[Viewpoint]
    objects: list[HouseObject]
    visible: NDArray[np.bool_]
    edges: NDArray[np.bool_]

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """Metres between viewpoints in a straight line."""
        return pairwise_distances(self.viewpoints)

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
        eyes = np.array([viewpoint.position for viewpoint in self.viewpoints])
        difference = eyes[:, None] - np.array([thing.position for thing in self.objects])[None]
        square = difference[..., 0] ** 2 + difference[..., 1] ** 2 + difference[..., 2] ** 2
        rounded: NDArray[np.float64] = np.round(np.sqrt(square), 6)
        return rounded

    def objects_near(self, viewpoint: int) -> list[HouseObject]:
        """The objects in sight within 3 m, nearest first."""
        near = np.flatnonzero(self.sees_object[viewpoint] & (self.object_distance[viewpoint] <= NEAR))
        order = sorted(near, key=lambda j: (self.object_distance[viewpoint, j], j))
        return [self.objects[j] for j in order]

    def region_of(self, thing: HouseObject) -> Region:
        return self.plan.regions[thing.region]


def build(seed: int, number: int) -> Building:
    """House `number` of a seed; it does not depend on how many others there are."""
    for attempt in range(ATTEMPTS):
        rng = Random(f"{seed}/{number}/{attempt}/building")
        plan = draw_plan(rng, number, FURNISHING)
        viewpoints = place_viewpoints(rng, plan)
        visible = _visible_viewpoints(plan, viewpoints)
        edges = find_edges(viewpoints, visible)
        if connected_components(edges, directed=False)[0] == 1:
            return Building(
                scan=scan_name(seed, number),
                plan=plan,
                viewpoints=viewpoints,
                objects=place_objects(rng, plan, viewpoints),
                visible=visible,
                edges=edges,
            )
    raise AssertionError(f"no connected house in {ATTEMPTS} attempts")  # the layout guarantees one in a few


def scan_name(seed: int, number: int) -> str:
    rng = Random(f"{seed}/{number}/name")
    return "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(11))


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


def _visible_viewpoints(plan: HousePlan, viewpoints: list[Viewpoint]) -> NDArray[np.bool_]:
    """[viewpoint, viewpoint] whether they see each other; none sees itself."""
    points = [viewpoint.point() for viewpoint in viewpoints]
    visible = line_of_sight(plan, points, points)
    visible |= visible.T
    np.fill_diagonal(visible, False)
    return visible


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
    cross: NDArray[np.float64] = (b[..., 0] - a[..., 0]) * (point[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
        point[..., 0] - a[..., 0]
    )
    return np.round(cross, 9)
