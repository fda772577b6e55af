"""How the time of an update grows with what is asked of it: rows, words, steps, scans.

Along an axis one size is varied and the others are held. All instructions are equally long and nobody who explores
stops before the limit (`NeverStops`), so that every update of a size does the same work; the teacher's rows leave when
they have arrived, as always. The weights are random and the features are noise.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import Tokenizer

from vlnbert.benchmarks.measuring import Timing, race
from vlnbert.benchmarks.training import update_blocks, update_function
from vlnbert.benchmarks.workloads import (
    NeverStops,
    episodes_within,
    equal_instructions,
    first_scans,
    random_environment,
)
from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.navigator_recipe import NavigatorRecipe
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.tasks.splits import Split
from vlnbert.tasks.tokens import piece_count
from vlnbert.world import World

WORDS = 32  # tokens of an instruction, where they are not what varies: R2R's mean
WARM_UP = 2  # updates of each size before any is timed, on a GPU: one to try the kernels, one to record them


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
    trainer = NavigatorRecipe().trainer(Path(), navigator, environment, [setup.split], {}, setup.config, "")
    return update_blocks(update_function(trainer), first=0, updates=1)
