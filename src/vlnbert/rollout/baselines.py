"""Agents that do not learn: what a learner must beat, and what nobody can."""

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, Observation, shortest_path_teacher
from vlnbert.rollout.agents import Agent, EpisodeBatch, register_agent
from vlnbert.tasks.task import TeacherMemory, path_teacher
from vlnbert.world.build import HALF_WIDTH
from vlnbert.world.world import STEPS, STOP, World, view_heading, wrapped


class Baseline(Agent):
    """Neither reads nor sees."""

    reads_tokens = False
    sees_features = False


@register_agent("random")
class Random(Baseline):
    """R2R's random walker: it picks a heading, then takes five steps forward, turning right where none is possible."""

    STEPS = 5

    def __init__(self, environment: Environment, seed: int = 0) -> None:
        self.forward, self.turned = _forward(environment.world)
        self.seed = seed % 2**63

    def begin(self, batch: EpisodeBatch) -> tuple[Tensor, int]:
        """Headings are drawn in the order of the split, so that batches make no difference."""
        generator, last = torch.Generator().manual_seed(self.seed), max(batch.index.tolist(), default=-1)
        heading = torch.randint(STEPS, (last + 1,), generator=generator)
        return heading[batch.index].to(batch.state.view.device), 0

    def act(self, observation: Observation, memory: tuple[Tensor, int]) -> tuple[Tensor, tuple[Tensor, int]]:
        viewpoint, (heading, taken) = observation.state.viewpoint, memory
        if taken == self.STEPS:
            return torch.full_like(viewpoint, STOP), memory
        place = viewpoint * STEPS + heading
        return self.forward[place], (self.turned[place], taken + 1)


@register_agent("stop")
class Stop(Baseline):
    """Stops where it starts."""

    def act(self, observation: Observation, memory: None) -> tuple[Tensor, None]:
        return torch.full_like(observation.state.viewpoint, STOP), memory


@register_agent("shortest")
class Shortest(Baseline):
    """Knows the goal and takes the shortest path there, of several to the nearest: what the graph allows."""

    oracle = True

    def __init__(self, environment: Environment) -> None:
        self.world = environment.world

    def begin(self, batch: EpisodeBatch) -> Tensor:
        return batch.require("goal") if batch.goals is None else batch.goals

    def act(self, observation: Observation, memory: Tensor) -> tuple[Tensor, Tensor]:
        return shortest_path_teacher(self.world, observation.state, memory), memory


@register_agent("follow")
class Follow(Baseline):
    """Knows the described path and follows it to its end: what R4R's teacher does."""

    oracle = True

    def __init__(self, environment: Environment) -> None:
        self.world = environment.world

    def begin(self, batch: EpisodeBatch) -> TeacherMemory:
        path = batch.require("path")
        return path, torch.full_like(path[:, 0], path.shape[1]), torch.zeros_like(path[:, 0])

    def act(self, observation: Observation, memory: TeacherMemory) -> tuple[Tensor, TeacherMemory]:
        return path_teacher(self.world, observation.state.viewpoint, memory)


@register_agent("random-reverie")
class RandomReverie(Baseline):
    """REVERIE's random walker, as its authors released it: it stays, or sets out somewhere and takes eight steps ahead.

    Of n neighbours, in the order of how far aside they lie, each but the last is as likely as to stay: one in n. A step
    ahead goes to the neighbour that lies least aside, even if that is behind.
    """

    STEPS = 9

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed % 2**63

    def begin(self, batch: EpisodeBatch) -> tuple[Tensor, int]:
        """Lots are drawn in the order of the split, so that batches make no difference."""
        generator, last = torch.Generator().manual_seed(self.seed), max(batch.index.tolist(), default=-1)
        lot = torch.rand(last + 1, generator=generator)
        return lot[batch.index].to(batch.state.view.device), 0

    def act(self, observation: Observation, memory: tuple[Tensor, int]) -> tuple[Tensor, tuple[Tensor, int]]:
        lot, taken = memory
        neighbours = observation.choosable.sum(dim=1) - 1
        if taken == self.STEPS:
            return torch.full_like(neighbours, STOP), memory
        sine, cosine = observation.direction[..., 0], observation.direction[..., 1]
        aside = torch.atan2(sine, cosine).abs().masked_fill(~observation.choosable, torch.inf)
        # The stop slot comes first: to stay is choice 0.
        aside[:, STOP] = -torch.inf
        choice = (lot * neighbours).long() if taken == 0 else neighbours.clamp(max=1)
        slot = aside.argsort(dim=1, stable=True).gather(1, choice[:, None])
        return slot.squeeze(1), (lot, taken + 1)


def _forward(world: World) -> tuple[Tensor, Tensor]:
    """[viewpoint x heading] the slot nearest to straight ahead once turned right until there is one, and that heading.

    A viewpoint without neighbours gets the stop slot.
    """
    headings = view_heading(torch.arange(STEPS, device=world.device))
    # [viewpoint, heading, slot]
    aside = wrapped(world.heading[:, None] - headings[:, None])
    angle = torch.hypot(aside, world.elevation[:, None])
    slots = torch.arange(world.slots, device=world.device)
    real = (slots != STOP) & (slots < world.choices[:, None])
    angle = angle.masked_fill(~real[:, None] | (aside.abs() > float(HALF_WIDTH)), torch.inf)
    # [viewpoint, heading]
    nearest, slot = angle.min(dim=-1)
    turned = torch.arange(STEPS, device=world.device).expand_as(slot)
    # Where nothing is ahead, take the slot of the heading to the right.
    for _ in range(STEPS - 1):
        blocked = torch.isinf(nearest)
        nearest = torch.where(blocked, nearest.roll(-1, dims=1), nearest)
        slot = torch.where(blocked, slot.roll(-1, dims=1), slot)
        turned = torch.where(blocked, turned.roll(-1, dims=1), turned)
    return slot.masked_fill(torch.isinf(nearest), STOP).flatten(), turned.flatten()
