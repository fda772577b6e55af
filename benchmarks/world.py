"""Race the environment against a Python loop over agents: steps a second, and their ratio.

Four levels, each doing what those before it do and one thing more: the step alone, the shortest-path teacher, the
directions of all choices, and their features, which come from the folder's features/ or, where that is empty, from the
detections in its captions/. Steps are too small to gain from more than one thread.
"""

import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.measuring import Timing, race
from benchmarks.options import MOST, Found, add_data, add_machine, use_machine
from benchmarks.plain.loop import AgentState, WorldLists, step_agents
from benchmarks.workloads import opened_world
from vlnbert.environment.environment import Environment, State, shortest_path_teacher
from vlnbert.runtime import require_within
from vlnbert.sources.connectivity import read_connectivity
from vlnbert.sources.layout import DataFolder
from vlnbert.tables import Table
from vlnbert.world.banks import FeatureBank
from vlnbert.world.build import build_world, open_world
from vlnbert.world.world import VIEWS, World

CALLS = 4  # steps that are timed together, as in an episode
LEVELS = ("step", "teacher", "angles", "features")  # each does what those before it do, and one thing more


def add_options(parser: ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--batch", type=int, default=4096, help="agents that walk together (4096)")
    add_machine(parser, rounds=11, threads=1)


def measure(data: Path | None, batch: int, rounds: int, threads: int, device: str) -> Found:
    """Time the opening of a world, then both ways at each level."""
    require_within(batch=(batch, 1, MOST))
    use_machine(device, threads, rounds)
    with opened_world(data) as (folder, world, bank):
        build, opening = time_opening(folder)
        levels = compare(world.to(device), bank.to(device), batch, rounds)
    facts = {"batch": batch, "width": bank.width, "build_s": build, "open_s": opening}
    rows = [
        (
            level.level,
            f"{level.steps_per_second:,.0f}",
            f"{level.loop_steps_per_second:,.0f}",
            f"{level.ratio:.1f}",
            f"{level.tensors.spread:.0%}",
        )
        for level in levels
    ]
    title = f"{batch:,} agents, {len(world):,} viewpoints, features {bank.width} wide, on {device}"
    return Found(
        {**facts, "levels": {level.level: _as_json(level) for level in levels}},
        Table(("level", "steps/s", "loop, steps/s", "times the loop", "spread"), rows, title),
        [f"{len(world.scans)} scans built in {build:.2f} s, opened from the cache in {opening:.2f} s"],
    )


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


def _as_json(level: Comparison) -> dict[str, float]:
    return {
        "steps_per_second": level.steps_per_second,
        "loop_steps_per_second": level.loop_steps_per_second,
        "ratio": level.ratio,
        "spread": level.tensors.spread,
    }


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
