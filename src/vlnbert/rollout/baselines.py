"""Agents that do not learn: what a learner must beat, and what nobody can."""

from collections.abc import Callable

import torch
from torch import Tensor

from vlnbert.environment.environment import State, shortest_path_teacher
from vlnbert.errors import UnknownNameError
from vlnbert.rollout.episodes import Agent
from vlnbert.world.candidates import HALF_WIDTH
from vlnbert.world.geometry import STEPS, view_heading, wrapped
from vlnbert.world.world import STOP, World


class Stop:
    """Stops where it starts."""

    def begin(self, state: State, goal: Tensor) -> None: ...

    def act(self, state: State, memory: None) -> tuple[Tensor, None]:
        return torch.full_like(state.viewpoint, STOP), memory


class Shortest:
    """Knows the goal and takes the shortest path there: what the graph allows."""

    def __init__(self, world: World) -> None:
        self.world = world

    def begin(self, state: State, goal: Tensor) -> Tensor:
        return goal

    def act(self, state: State, memory: Tensor) -> tuple[Tensor, Tensor]:
        return shortest_path_teacher(self.world, state, memory), memory


class Random:
    """R2R's random walker: it picks a heading, then takes five steps forward, turning right where none is possible."""

    STEPS = 5

    def __init__(self, world: World, seed: int) -> None:
        self.forward, self.turned = _forward(world)
        self.generator = torch.Generator().manual_seed(seed % 2**63)

    def begin(self, state: State, goal: Tensor) -> tuple[Tensor, int]:
        heading = torch.randint(STEPS, state.view.shape, generator=self.generator)
        return heading.to(state.view.device), 0

    def act(self, state: State, memory: tuple[Tensor, int]) -> tuple[Tensor, tuple[Tensor, int]]:
        heading, taken = memory
        if taken == self.STEPS:
            return torch.full_like(state.viewpoint, STOP), memory
        place = state.viewpoint * STEPS + heading
        return self.forward[place], (self.turned[place], taken + 1)


BASELINES: dict[str, Callable[[World, int], Agent]] = {
    "random": Random,
    "stop": lambda _world, _seed: Stop(),
    "shortest": lambda world, _seed: Shortest(world),
}


def baseline(name: str, world: World, seed: int = 0) -> Agent:
    """A baseline agent by name."""
    if name not in BASELINES:
        raise UnknownNameError("agent", name, BASELINES)
    return BASELINES[name](world, seed)


def _forward(world: World) -> tuple[Tensor, Tensor]:
    """[viewpoint x heading] the slot nearest to straight ahead once turned right until there is one, and that heading.

    A viewpoint without neighbours gets the stop slot.
    """
    headings = view_heading(torch.arange(STEPS, device=world.device))
    aside = wrapped(world.heading[:, None] - headings[:, None])  # [viewpoint, heading, slot]
    angle = torch.hypot(aside, world.elevation[:, None])
    slots = torch.arange(world.slots, device=world.device)
    real = (slots != STOP) & (slots < world.choices[:, None])
    angle = angle.masked_fill(~real[:, None] | (aside.abs() > float(HALF_WIDTH)), torch.inf)
    nearest, slot = angle.min(dim=-1)  # [viewpoint, heading]
    turned = torch.arange(STEPS, device=world.device).expand_as(slot)
    for _ in range(STEPS - 1):  # where nothing is ahead, take over what the heading to the right found
        blocked = torch.isinf(nearest)
        nearest = torch.where(blocked, nearest.roll(-1, dims=1), nearest)
        slot = torch.where(blocked, slot.roll(-1, dims=1), slot)
        turned = torch.where(blocked, turned.roll(-1, dims=1), turned)
    return slot.masked_fill(torch.isinf(nearest), STOP).flatten(), turned.flatten()
