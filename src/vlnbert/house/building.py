"""One whole house: its plan, viewpoints, edges, objects, and what is seen from where."""

import string
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from vlnbert.house.objects import Thing, place_objects
from vlnbert.house.plan import Plan, Region, draw_plan
from vlnbert.house.sight import sees
from vlnbert.house.viewpoints import Viewpoint, link, pairwise_distances, place_viewpoints

NEAR = 3.0  # metres within which an object counts as visible in REVERIE
ATTEMPTS = 50


@dataclass(frozen=True)
class Building:
    scan: str
    plan: Plan
    viewpoints: list[Viewpoint]
    things: list[Thing]
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
    def sees_thing(self) -> NDArray[np.bool_]:
        eyes = [viewpoint.spot() for viewpoint in self.viewpoints]
        return sees(self.plan, eyes, [thing.spot() for thing in self.things])

    @cached_property
    def thing_distance(self) -> NDArray[np.float64]:
        eyes = np.array([viewpoint.position for viewpoint in self.viewpoints])
        difference = eyes[:, None] - np.array([thing.position for thing in self.things])[None]
        square = difference[..., 0] ** 2 + difference[..., 1] ** 2 + difference[..., 2] ** 2
        rounded: NDArray[np.float64] = np.round(np.sqrt(square), 6)
        return rounded

    def things_near(self, viewpoint: int) -> list[Thing]:
        """The objects in sight within 3 m, nearest first."""
        near = np.flatnonzero(self.sees_thing[viewpoint] & (self.thing_distance[viewpoint] <= NEAR))
        order = sorted(near, key=lambda j: (self.thing_distance[viewpoint, j], j))
        return [self.things[j] for j in order]

    def region_of(self, thing: Thing) -> Region:
        return self.plan.regions[thing.region]


def build(seed: int, number: int) -> Building:
    """House `number` of a seed; it does not depend on how many others there are."""
    for attempt in range(ATTEMPTS):
        rng = Random(f"{seed}/{number}/{attempt}/building")
        plan = draw_plan(rng, number)
        viewpoints = place_viewpoints(rng, plan)
        visible, edges = link(plan, viewpoints)
        if connected_components(edges, directed=False)[0] == 1:
            things = place_objects(rng, plan, viewpoints)
            return Building(scan_name(seed, number), plan, viewpoints, things, visible, edges)
    raise AssertionError(f"no connected house in {ATTEMPTS} attempts")  # the layout guarantees one in a few


def scan_name(seed: int, number: int) -> str:
    rng = Random(f"{seed}/{number}/name")
    return "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(11))
