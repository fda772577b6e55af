"""The environment against a loop over agents, `plain/loop.py`: the same walk, with more and more of the observation."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.benchmarks.measuring import Timing, race
from vlnbert.benchmarks.plain.loop import AgentState, WorldLists, step_agents
from vlnbert.environment.environment import Environment, State, shortest_path_teacher
from vlnbert.sources.connectivity import read_connectivity
from vlnbert.sources.layout import DataFolder
from vlnbert.world.banks import FeatureBank
from vlnbert.world.build import build_world, open_world
from vlnbert.world.world import VIEWS, World

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
class AgentBatch:
    """Agents in mid-walk, with a goal in their scan and a choice made."""

    state: State
    slot: Tensor
    goal: Tensor


@torch.inference_mode()
def compare(world: World, bank: FeatureBank, agents: int = 4096, rounds: int = 11) -> list[Comparison]:
    """Race the environment against the loop at each level."""
    environment, batch = Environment(world, bank), _random_agents(world, agents)
    lists, results = WorldLists(world, bank), []
    for level in LEVELS:
        rivals = {
            "tensors": _tensor_step(environment, batch, level),
            "loop": _loop_step(lists, batch, level),
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


def _random_agents(world: World, agents: int) -> AgentBatch:
    """Agents anywhere; each takes its first neighbour, so that everybody moves at every step."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randint(len(world), (agents,), generator=generator)
    size, first = _scan_sizes(world)
    goal = first[start] + (torch.rand(agents, generator=generator) * size[start]).long()
    view = torch.randint(VIEWS, (agents,), generator=generator)
    parts = (start, view, torch.zeros(agents, dtype=torch.bool), (world.choices.cpu()[start] > 1).long(), goal)
    viewpoint, view, ended, slot, goal = (part.to(world.device) for part in parts)
    return AgentBatch(State(viewpoint, view, ended), slot, goal)


def _scan_sizes(world: World) -> tuple[Tensor, Tensor]:
    """[viewpoint] how many viewpoints its scan has, and the first of them."""
    size = world.scan_of.cpu().bincount()
    return size[world.scan_of.cpu()], (size.cumsum(0) - size)[world.scan_of.cpu()]


def _tensor_step(environment: Environment, batch: AgentBatch, level: str) -> Callable[[], object]:
    walking = Environment(environment.world) if level == "angles" else environment

    def run() -> None:
        state = batch.state
        for _ in range(CALLS):
            state = walking.step(state, batch.slot)
            if level != "step":
                shortest_path_teacher(walking.world, state, batch.goal)
            if level in ("angles", "features"):
                walking.observe(state)

    return run


def _loop_step(lists: WorldLists, batch: AgentBatch, level: str) -> Callable[[], object]:
    state, goals = batch.state, batch.goal.tolist()
    columns = (state.viewpoint.tolist(), state.view.tolist(), state.ended.tolist())
    start = [AgentState(*row) for row in zip(*columns, strict=True)]

    def run() -> None:
        agents = start
        for _ in range(CALLS):
            agents = step_agents(lists, agents, slots=batch.slot.tolist(), goals=goals, level=level)

    return run
