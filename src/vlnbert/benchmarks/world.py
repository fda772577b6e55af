"""The environment against a loop over agents: the same walk, with more and more of the observation.

The loop is what one would write without tensors: the same pure functions for a single agent, over Python lists, called
for one agent after the other, and an observation that is filled in candidate by candidate.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlnbert.benchmarks.timing import Timing, race
from vlnbert.environment.environment import Environment, State, shortest_path_teacher
from vlnbert.sources.connectivity import read_connectivity
from vlnbert.sources.layout import DataFolder
from vlnbert.world.banks import FeatureBank
from vlnbert.world.build import build_world, open_world
from vlnbert.world.geometry import STEPS, VIEW_ANGLE, VIEWS
from vlnbert.world.world import STOP, World

CALLS = 4  # steps that are timed together, as in an episode
LEVELS = ("step", "teacher", "angles", "features")  # each does what those before it do, and one thing more


@dataclass(frozen=True)
class Comparison:
    """One level: steps a second both ways."""

    level: str
    agents: int
    tensors: Timing
    loop: Timing

    @property
    def steps_per_second(self) -> float:
        return CALLS * self.agents / self.tensors.median

    @property
    def loop_steps_per_second(self) -> float:
        return CALLS * self.agents / self.loop.median

    @property
    def ratio(self) -> float:
        return self.steps_per_second / self.loop_steps_per_second


@dataclass(frozen=True)
class Walkers:
    """Agents in mid-walk, with a goal in their scan and a choice made."""

    state: State
    slot: Tensor
    goal: Tensor


class Houses:
    """The world as Python lists, which a loop reads faster than tensors."""

    def __init__(self, world: World, bank: FeatureBank) -> None:
        self.slots, self.width = world.slots, bank.width
        self.choices: list[int] = world.choices.tolist()
        self.neighbour: list[list[int]] = world.neighbour.tolist()
        self.view: list[list[int]] = world.view.tolist()
        self.heading: list[list[float]] = world.heading.tolist()
        self.elevation: list[list[float]] = world.elevation.tolist()
        self.row: list[int] = world.row.tolist()
        self.column: list[int] = world.column.tolist()
        self.next_slot: list[int] = world.next_slot.tolist()
        self.feature_row: list[list[int]] = bank.row.tolist()
        self.table: NDArray[np.float32] = bank.table.float().cpu().numpy()


class Place(NamedTuple):
    """The state of one agent."""

    viewpoint: int
    view: int
    ended: bool


def step_one(houses: Houses, place: Place, slot: int) -> Place:
    """What `Environment.step` does, for one agent."""
    if place.ended or slot == STOP:
        return place._replace(ended=True)
    if slot >= houses.choices[place.viewpoint]:
        return place
    return Place(houses.neighbour[place.viewpoint][slot], houses.view[place.viewpoint][slot], ended=False)


def teach_one(houses: Houses, place: Place, goal: int) -> int:
    return houses.next_slot[houses.row[place.viewpoint] + houses.column[goal]]


def look_around(houses: Houses, place: Place, direction: NDArray[np.float32]) -> None:
    """Fill in the directions of one agent's choices."""
    here, facing = place.viewpoint, place.view % STEPS * VIEW_ANGLE
    for slot in range(1, houses.choices[here]):
        heading, elevation = houses.heading[here][slot] - facing, houses.elevation[here][slot]
        direction[slot] = math.sin(heading), math.cos(heading), math.sin(elevation), math.cos(elevation)


def look_closely(houses: Houses, place: Place, features: NDArray[np.float32]) -> None:
    """Fill in the features of one agent's choices."""
    for slot in range(1, houses.choices[place.viewpoint]):
        features[slot] = houses.table[houses.feature_row[place.viewpoint][slot]]


def step_all(houses: Houses, places: list[Place], slots: list[int], goals: list[int], level: str) -> list[Place]:
    """Move every agent once, one after the other, and build what the level asks for."""
    widths = {"step": (0, 0), "teacher": (0, 0), "angles": (4, 0), "features": (4, houses.width)}[level]
    direction, features = (np.zeros((len(places), houses.slots, width), dtype=np.float32) for width in widths)
    after, teachers = [], []
    for agent, place in enumerate(places):
        here = step_one(houses, place, slots[agent])
        after.append(here)
        if level != "step":
            teachers.append(teach_one(houses, here, goals[agent]))
        if level in ("angles", "features"):
            look_around(houses, here, direction[agent])
        if level == "features":
            look_closely(houses, here, features[agent])
    return after


@torch.inference_mode()
def compare(world: World, bank: FeatureBank, agents: int = 4096, rounds: int = 11) -> list[Comparison]:
    """Race the environment against the loop at each level."""
    environment, walkers = Environment(world, bank), _walkers(world, agents)
    houses, results = Houses(world, bank), []
    for level in LEVELS:
        rivals = {
            "tensors": _tensor_step(environment, walkers, level),
            "loop": _loop_step(houses, walkers, level),
        }
        times = race(rivals, rounds, world.device)
        results.append(Comparison(level, agents, times["tensors"], times["loop"]))
    return results


def time_opening(folder: DataFolder) -> tuple[float, float]:
    """Seconds to read and build the world of a data folder, and to open it from the cache."""
    open_world(folder)  # so that there is a cache
    begin = time.perf_counter()
    build_world([read_connectivity(path) for path in folder.graphs().values()])
    built = time.perf_counter()
    open_world(folder)
    return built - begin, time.perf_counter() - built


def _walkers(world: World, agents: int) -> Walkers:
    """Agents anywhere; each takes its first neighbour, so that everybody moves at every step."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randint(len(world), (agents,), generator=generator)
    size, first = _scan_sizes(world)
    goal = first[start] + (torch.rand(agents, generator=generator) * size[start]).long()
    view = torch.randint(VIEWS, (agents,), generator=generator)
    parts = (start, view, torch.zeros(agents, dtype=torch.bool), (world.choices.cpu()[start] > 1).long(), goal)
    viewpoint, view, ended, slot, goal = (part.to(world.device) for part in parts)
    return Walkers(State(viewpoint, view, ended), slot, goal)


def _scan_sizes(world: World) -> tuple[Tensor, Tensor]:
    """[viewpoint] how many viewpoints its scan has, and the first of them."""
    size = world.scan_of.cpu().bincount()
    return size[world.scan_of.cpu()], (size.cumsum(0) - size)[world.scan_of.cpu()]


def _tensor_step(environment: Environment, walkers: Walkers, level: str) -> Callable[[], object]:
    walking = Environment(environment.world) if level == "angles" else environment

    def run() -> None:
        state = walkers.state
        for _ in range(CALLS):
            state = walking.step(state, walkers.slot)
            if level != "step":
                shortest_path_teacher(walking.world, state, walkers.goal)
            if level in ("angles", "features"):
                walking.observe(state)

    return run


def _loop_step(houses: Houses, walkers: Walkers, level: str) -> Callable[[], object]:
    state, goals = walkers.state, walkers.goal.tolist()
    columns = (state.viewpoint.tolist(), state.view.tolist(), state.ended.tolist())
    start = [Place(*row) for row in zip(*columns, strict=True)]

    def run() -> None:
        places = start
        for _ in range(CALLS):
            places = step_all(houses, places, walkers.slot.tolist(), goals, level)

    return run
