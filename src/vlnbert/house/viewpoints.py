"""Viewpoints: a few in each room, one in each doorway, along the hallways and on the stairs; and the edges between."""

import math
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from vlnbert.house.plan import HALF_HALL, HALLWAY, STAIRS, STOREY, HousePlan, Opening, PlanPoint, Region

EYE = 1.5  # metres above the floor
REACH = 5.0  # the longest edge, in metres
DETOUR = 1.06  # an edge that is hardly shorter than going by another viewpoint is left out
MOST_NEIGHBOURS = 12
ROOM, DOORWAY, HALL, FOOT, HEAD, LANDING = "room", "doorway", "hall", "foot", "head", "landing"


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
    """[viewpoint, viewpoint] where one can walk in one move: a symmetric table."""
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
        """One that the graph leaves out, as real graphs have some."""
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
