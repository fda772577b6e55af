"""One whole house: its plan, viewpoints, edges, objects, and what is seen from where."""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from vlnbert.house.objects import FURNISHING, HouseObject, place_objects
from vlnbert.house.plan import HousePlan, PlanPoint, Region, draw_plan
from vlnbert.house.viewpoints import Viewpoint, find_edges, pairwise_distances, place_viewpoints

NEAR = 3.0  # metres within which an object counts as visible in REVERIE
TOUCH = 1e-9  # a line that only grazes the end of a wall is not blocked
ATTEMPTS = 50  # to draw a house in which one can walk everywhere


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
        """Edges between included viewpoints: what an agent can use."""
        included = np.array([viewpoint.included for viewpoint in self.viewpoints])
        walkable: NDArray[np.bool_] = self.edges & included[:, None] & included[None]
        return walkable

    @cached_property
    def sees_object(self) -> NDArray[np.bool_]:
        """[viewpoint, object]"""
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
    """[viewpoint, viewpoint] which see each other; none sees itself."""
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
