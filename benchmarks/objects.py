"""Measure what REVERIE's objects cost: time and memory of a step without them, with them trimmed, and padded.

A step observes and decides. A training step does so with dropout, then passes gradients back to the weights it used.
Neither reads the instruction. Agents stand at random viewpoints of the data: four batches, the same for all. Weights
and features are random: the cost does not depend on them.

Trimmed, a batch has room for the objects of its fullest viewpoint, as on the CPU by default; padded, for those of the
fullest viewpoint of all, as always on a GPU, where the trimmed row is left out.

MB is the most that a step takes beyond what was there before it (weights, gradients and features of the world were),
averaged over the batches: what torch's own allocator hands out, on the CPU as told by torch's profiler, on a GPU by
torch.cuda.max_memory_allocated. In a training step these are mostly activations kept for the way back; all the steps of
an episode keep theirs.
"""

import statistics
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measuring import Timing, peak_memory, race
from benchmarks.options import MOST, Found, add_data, add_machine, add_sizes, use_machine
from vlnbert.benchmarking import folder_or_house, random_features
from vlnbert.environment.environment import Environment, State
from vlnbert.errors import UsageError
from vlnbert.navigator import Instruction, Language, Navigator, NavigatorConfig, Step, named_size
from vlnbert.runtime import require_within
from vlnbert.tables import Table
from vlnbert.world.build import open_world
from vlnbert.world.objects import ObjectBank, ObjectTable, open_object_table
from vlnbert.world.world import VIEWS, World

BATCHES = 4  # of agents, timed together: how wide a trimmed one is depends on who stands where
WITHOUT, TRIMMED, PADDED = "without", "trimmed", "padded"
ROWS = {
    WITHOUT: "without objects",
    TRIMMED: "with objects, trimmed to the batch",
    PADDED: "with objects, padded to the widest viewpoint",
}
COSTS = ("ms", "spread", "times", "MB")


def add_options(parser: ArgumentParser) -> None:
    add_data(parser)
    add_sizes(parser, tokens=50)
    add_machine(parser, rounds=7)


def measure(
    data: Path | None,
    size: str,
    backbone: str | None,
    agents: int,
    tokens: int,
    rounds: int,
    threads: int | None,
    device: str,
) -> Found:
    """Time each way for one backbone or both; seconds and bytes are those of one step."""
    require_within(agents=(agents, 1, MOST), tokens=(tokens, 3, 512))
    use_machine(device, threads, rounds)
    if torch.device(device).type not in ("cpu", "cuda"):
        raise UsageError(f"memory is not measured on '{device}'; choose cpu or cuda")
    shapes = {name: named_size(size, name) for name in ([backbone] if backbone else ["one-stream", "two-stream"])}
    with folder_or_house(data) as folder:
        world = open_world(folder)
        objects = open_object_table(world, folder.boxes)
    found = {}
    for name, shape in shapes.items():
        config = replace(shape, object_width=shape.feature_width, matching="visual")
        found[name] = compare_objects(world.to(device), objects, config, agents=agents, tokens=tokens, rounds=rounds)
    mean = len(objects) / len(world)
    facts = {"size": size, "agents": agents, "tokens": tokens, "threads": torch.get_num_threads(), "device": device}
    shown = {"viewpoints": len(world), "mean": mean, "most": objects.widest}
    names = ("", "visual tokens", *(f"step, {cost}" for cost in COSTS), *(f"training, {cost}" for cost in COSTS))
    rows = [
        (
            f"{name}, {ROWS[one.sees]}",
            f"{one.tokens:.1f}",
            *_cells(one.step, several[0].step),
            *_cells(one.training, several[0].training),
        )
        for name, several in found.items()
        for one in several
    ]
    return Found(
        {
            **facts,
            "objects": shown,
            "backbones": {name: {one.sees: _as_json(one, rows[0]) for one in rows} for name, rows in found.items()},
        },
        Table(names, rows, f"{size}, {agents} agents, {tokens} tokens, on {device}"),
        [f"objects at a viewpoint: {mean:.1f} on average, {objects.widest} at most ({len(world):,} viewpoints)"],
    )


@dataclass(frozen=True)
class StepCost:
    """What some work costs, a step of it for each of the batches."""

    timing: Timing  # of all the batches together
    memory: tuple[int, ...]  # [batch] bytes at the peak of its step, beyond what was there before

    @property
    def seconds(self) -> float:
        """The median of a step."""
        return self.timing.median / len(self.memory)

    @property
    def peak(self) -> float:
        """Mean over the batches, in bytes."""
        return statistics.mean(self.memory)


@dataclass(frozen=True)
class ObjectsCost:
    """One way to see objects: what an agent's step costs, and what it costs to learn from one."""

    sees: str
    tokens: float  # visual ones, padding among them; mean over the batches
    step: StepCost
    training: StepCost


def _as_json(row: ObjectsCost, plain: ObjectsCost) -> dict[str, Any]:
    def costs(cost: StepCost, without: StepCost) -> dict[str, float]:
        return {
            "seconds": cost.seconds,
            "spread": cost.timing.spread,
            "ratio": cost.seconds / without.seconds,
            "peak_bytes": cost.peak,
            "peak_bytes_most": max(cost.memory),
        }

    steps = {"step": costs(row.step, plain.step), "training": costs(row.training, plain.training)}
    return {"visual_tokens": row.tokens, **steps}


def _cells(cost: StepCost, without: StepCost) -> tuple[str, ...]:
    times = cost.seconds / without.seconds
    return f"{1000 * cost.seconds:,.1f}", f"{cost.timing.spread:.0%}", f"{times:.2f}", f"{cost.peak / 1e6:,.1f}"


def compare_objects(
    world: World, objects: ObjectTable, config: NavigatorConfig, agents: int = 8, tokens: int = 50, rounds: int = 7
) -> list[ObjectsCost]:
    """Race steps without objects against steps that see them, for some agents at once; then training steps."""
    torch.manual_seed(0)
    navigator = Navigator(config).to(world.device)
    words = torch.randint(5, config.vocabulary, (agents, tokens), device=world.device)
    with torch.no_grad():
        read = navigator.eval().encode(words, torch.ones_like(words, dtype=torch.bool))
    instruction = as_leaves(read)
    batches = random_states(world, agents)
    ways = object_environments(world, objects, config)
    navigator.eval()
    steps = _measure(ways, batches, rounds, lambda way, state: inference_step(navigator, instruction, way, state))
    navigator.train()
    trainings = _measure(ways, batches, rounds, lambda way, state: training_step(navigator, instruction, way, state))
    return [ObjectsCost(name, _tokens(ways[name], batches), steps[name], trainings[name]) for name in ways]


def object_environments(world: World, objects: ObjectTable, config: NavigatorConfig) -> dict[str, Environment]:
    """The same world without objects, with as many as the batch needs, and with as many as any viewpoint needs.

    A bank trims on the CPU alone: elsewhere there is no second way. Objects of one name have one feature.
    """
    vectors = torch.randn(len(objects.names), config.object_width, device=world.device)
    bank = ObjectBank.from_codebook(objects, vectors, objects.name)
    views = random_features(world, config.feature_width)
    seen = {WITHOUT: None, TRIMMED: bank, PADDED: replace(bank, fixed=True)}
    if world.device.type != "cpu":
        del seen[TRIMMED]
    return {name: Environment(world, views, each) for name, each in seen.items()}


def random_states(world: World, agents: int) -> list[State]:
    """Batches of agents, each at any viewpoint and facing any view, the same ones in every run."""
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(len(world), (BATCHES, agents), generator=generator).to(world.device)
    views = torch.randint(VIEWS, (BATCHES, agents), generator=generator).to(world.device)
    walking = torch.zeros(agents, dtype=torch.bool, device=world.device)
    return [State(place, view, walking) for place, view in zip(places, views, strict=True)]


def as_leaves(instruction: Instruction) -> Instruction:
    """The same instruction where gradients end: as far as a step has to pass them on."""

    def leaf(tensor: Tensor) -> Tensor:
        return tensor.detach().requires_grad_()

    language = instruction.language
    cache = None if language.kv_cache is None else tuple(leaf(kv) for kv in language.kv_cache)
    return Instruction(leaf(instruction.state), Language(leaf(language.features), language.mask, cache))


@torch.inference_mode()
def inference_step(navigator: Navigator, instruction: Instruction, environment: Environment, state: State) -> Tensor:
    """[agent] the best choice now."""
    return _step(navigator, instruction, environment, state).logits.argmax(dim=1)


def training_step(navigator: Navigator, instruction: Instruction, environment: Environment, state: State) -> None:
    """Step, and pass gradients back from every choice and from the state that the next step would use.

    They add up in those that are there, as when several batches make an update.
    """
    step = _step(navigator, instruction, environment, state)
    choices = step.logits.masked_fill(~step.logits.isfinite(), 0)
    (choices.sum() + step.state.sum()).backward()  # type: ignore[no-untyped-call]


def _step(navigator: Navigator, instruction: Instruction, environment: Environment, state: State) -> Step:
    return navigator.step(instruction.state, instruction, environment.observe(state))


def _measure(
    ways: dict[str, Environment], batches: list[State], rounds: int, work: Callable[[Environment, State], object]
) -> dict[str, StepCost]:
    """Time all ways in turn, then look at the memory of each batch; by then every gradient has its place."""

    def all_batches(way: Environment) -> Callable[[], None]:
        def run() -> None:
            for state in batches:
                work(way, state)

        return run

    device = batches[0].viewpoint.device
    times = race({name: all_batches(way) for name, way in ways.items()}, rounds, device)
    return {
        name: StepCost(times[name], tuple(_peak(work, way, state, device) for state in batches))
        for name, way in ways.items()
    }


def _peak(work: Callable[[Environment, State], object], way: Environment, state: State, device: torch.device) -> int:
    return peak_memory(lambda: work(way, state), device)


def _tokens(way: Environment, batches: list[State]) -> float:
    """Visual tokens of a step: slots, and where there are objects, these and "no object" instead of the stop slot."""
    seen = [way.observe(state) for state in batches]
    widths = [
        each.choosable.shape[1] + (0 if each.visible_objects is None else each.visible_objects.present.shape[1])
        for each in seen
    ]
    return statistics.mean(widths)
