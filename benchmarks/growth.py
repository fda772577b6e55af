"""Time the update of a preset at growing sizes: of the batch, the instructions, the episodes and the world.

Along each axis one size grows and the others are held: the preset's rows and steps, 32 tokens, all scans. The growth is
the exponent that fits the times best: 1 is linear, 2 quadratic, 0 means that the size does not matter.

Weights are random, features are noise, and instructions are random words, all equally long. Agents that explore never
stop before the limit; those that follow the teacher leave when they have arrived, so twice the steps are less than
twice the work.
"""

import math
import statistics
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer

from benchmarks.measuring import Timing, race
from benchmarks.options import MOST, Found, add_data, add_machine, add_preset, use_machine
from benchmarks.training import in_one_split, update_blocks, update_function
from benchmarks.workloads import episodes_within, equal_instructions, first_scans
from vlnbert.benchmarking import NeverStops, folder_or_house, open_setup, random_environment
from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.navigator_recipe import NAVIGATOR
from vlnbert.learning.presets import presets
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.runtime import require_within
from vlnbert.tables import Table
from vlnbert.tasks.splits import Split
from vlnbert.tasks.tokens import piece_count
from vlnbert.world.world import World

WORDS = 32  # tokens of an instruction, where they are not what varies: R2R's mean
WARM_UP = 2  # updates of each size before any is timed, on a GPU: one to try the kernels, one to record them


AXES = ("rows", "tokens", "steps", "scans")
HOUSES = 24  # scans of a generated house, where no more are asked for
MOST_SCANS = 1000  # that a house is generated with


def add_options(parser: ArgumentParser) -> None:
    add_preset(parser)
    add_data(parser)
    parser.add_argument("--axes", nargs="*", choices=AXES, default=AXES, help="what grows (all)")
    parser.add_argument("--rows", type=int, nargs="*", default=(), help="sizes of a batch, even numbers")
    parser.add_argument("--tokens", type=int, nargs="*", default=(16, 32, 64), help="lengths of the instructions")
    parser.add_argument("--steps", type=int, nargs="*", default=(5, 10, 15, 30), help="limits of an episode")
    parser.add_argument("--scans", type=int, nargs="*", default=(), help="sizes of the world")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), help="of the forward pass (the preset's own)")
    add_machine(parser, rounds=3)


def measure(
    preset: str,
    data: Path | None,
    axes: Sequence[str],
    rows: Sequence[int],
    tokens: Sequence[int],
    steps: Sequence[int],
    scans: Sequence[int],
    precision: Literal["float32", "bfloat16"] | None,
    rounds: int,
    threads: int | None,
    device: str,
) -> Found:
    """Time updates along each of the axes; by default rows double and scans are halved."""
    experiment = presets.navigator(preset)
    training = in_one_split(experiment.training)
    training = replace(training, precision=precision or training.precision)
    first = max(2, training.batch // 8 * 2)
    sizes = {"rows": rows or [first * 2**times for times in range(4)], "tokens": tokens, "steps": steps}
    _require_sizes(axes, {**sizes, "scans": scans or (1, 2)}, experiment.navigator.positions)
    use_machine(device, threads, rounds)
    with folder_or_house(data, max((HOUSES, *(scans if "scans" in axes else ())))) as folder:
        opened = open_setup(folder, "r2r/train", experiment.navigator, device)
    sizes["scans"] = scans or [max(1, len(opened.world.scans) // part) for part in (4, 2, 1)]
    setup = TrainingSetup(opened.world, opened.split, opened.tokenizer, training)
    grown = time_growth(setup, opened.shape, {axis: sorted(set(sizes[axis])) for axis in axes}, rounds)
    facts = {"preset": preset, "precision": training.precision, "device": device}
    cells = [
        (
            f"{growth.axis}, {size:,}",
            f"{1000 * timing.median:,.1f}",
            f"{timing.spread:.0%}",
            "-" if ratio is None else f"{ratio:.2f}",
        )
        for growth in grown
        for (size, timing), ratio in zip(growth.times.items(), growth.ratios, strict=True)
    ]
    return Found(
        {**facts, "axes": {growth.axis: _as_json(growth) for growth in grown}},
        Table(
            ("size", "ms an update", "spread", "times the one before"),
            cells,
            f"{preset}, {training.precision}, on {device}",
        ),
        [f"{growth.axis}, growth {growth.exponent:.2f}" for growth in grown],
    )


def _require_sizes(axes: Sequence[str], sizes: Mapping[str, Sequence[int]], positions: int) -> None:
    """Refuse sizes that no update can have, and axes along which nothing grows."""
    if not axes:
        raise UsageError(f"--axes names nothing that could grow; choose among {', '.join(sizes)}")
    least, most = {"rows": 2, "tokens": 3, "steps": 1, "scans": 1}, {"tokens": positions, "scans": MOST_SCANS}
    for axis in axes:
        for size in sizes[axis]:
            require_within(**{axis: (size, least[axis], most.get(axis, MOST))})
        if len(set(sizes[axis])) < 2:
            raise UsageError(f"--{axis} needs two sizes or more for anything to grow")


@dataclass(frozen=True)
class Growth:
    """The time of an update at several sizes."""

    axis: str
    times: Mapping[int, Timing]  # by size, the smallest first

    @property
    def exponent(self) -> float:
        """The slope of the logarithm of time over that of size: 0 where size does not matter, 1 where it is linear."""
        sizes = [math.log(size) for size in self.times]
        return statistics.linear_regression(sizes, [math.log(timing.median) for timing in self.times.values()]).slope

    @property
    def ratios(self) -> list[float | None]:
        """The time of each size in times of the size before it."""
        medians = [timing.median for timing in self.times.values()]
        return [None, *(after / before for before, after in pairwise(medians))]


def _as_json(growth: Growth) -> dict[str, Any]:
    sizes = [
        {"size": size, "seconds": timing.median, "spread": timing.spread, "ratio": ratio}
        for (size, timing), ratio in zip(growth.times.items(), growth.ratios, strict=True)
    ]
    return {"exponent": growth.exponent, "sizes": sizes}


@dataclass(frozen=True)
class TrainingSetup:
    """What an update is made in."""

    world: World
    split: Split
    tokenizer: Tokenizer
    config: TrainConfig

    def with_instruction_length(self, length: int) -> "TrainingSetup":
        return replace(self, split=equal_instructions(self.split, length, piece_count(self.tokenizer)))

    def with_scans(self, scans: int) -> "TrainingSetup":
        if scans > len(self.world.scans):
            raise UsageError(f"there are no {scans} scans here; choose up to {len(self.world.scans)}")
        world = first_scans(self.world, scans)
        split = episodes_within(self.split, world)
        if not len(split.episodes):
            raise UsageError(f"no episode of {self.split.name} is in the first {scans} scans; choose more of them")
        return replace(self, world=world, split=split)


def time_growth(
    setup: TrainingSetup, shape: NavigatorConfig, axes: Mapping[str, Sequence[int]], rounds: int
) -> list[Growth]:
    """Time updates along each of some axes, the sizes of an axis in turn."""
    torch.manual_seed(0)
    navigator = NeverStops(shape).to(setup.world.device)
    navigator.tokenizer = setup.tokenizer
    usual = setup.with_instruction_length(WORDS)
    changes: dict[str, Callable[[int], TrainingSetup]] = {
        "rows": lambda size: replace(usual, config=replace(usual.config, batch=size)),
        "tokens": usual.with_instruction_length,
        "steps": lambda size: replace(usual, config=replace(usual.config, max_steps=size)),
        "scans": usual.with_scans,
    }
    return [_time_axis(axis, navigator, {size: changes[axis](size) for size in axes[axis]}, rounds) for axis in axes]


def _time_axis(axis: str, navigator: Navigator, setups: Mapping[int, TrainingSetup], rounds: int) -> Growth:
    worlds, width = {len(setup.world.scans): setup for setup in setups.values()}, navigator.config.feature_width
    environments = {
        scans: random_environment(setup.world, width, setup.config.precision) for scans, setup in worlds.items()
    }
    updates = {
        str(size): _updates(navigator, environments[len(setup.world.scans)], setup) for size, setup in setups.items()
    }
    device = next(iter(setups.values())).world.device
    for update in updates.values():
        for _ in range(WARM_UP if device.type == "cuda" else 0):
            update()
    times = race(updates, rounds, device)
    return Growth(axis, {size: times[str(size)] for size in setups})


def _updates(navigator: Navigator, environment: Environment, setup: TrainingSetup) -> Callable[[], None]:
    """Each call makes one more update; the weights are shared, the optimiser is not."""
    trainer = Trainer(NAVIGATOR, Path(), navigator, environment, [setup.split], {}, setup.config)
    return update_blocks(update_function(trainer), first=0, updates=1)
