"""How fast a preset trains: updates a second, what they cost in memory, and how near that is to the arithmetic floor.

The weights are random and the features are noise: speed does not depend on them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from vlnbert.benchmarks.measuring import Timing, race, seconds_since_start, wait
from vlnbert.benchmarks.plain.training import PlainTraining
from vlnbert.benchmarks.workloads import random_environment, random_features
from vlnbert.environment.environment import Environment, State
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.navigator_recipe import NavigatorRecipe
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator, NavigatorConfig, fast
from vlnbert.tasks.splits import Split
from vlnbert.world import World
from vlnbert.world.banks import Bank

COUNTED = 3  # updates whose operations are counted, which is slow
WARM_UP = 40  # updates before any is timed, on a GPU: most shapes of a batch have then been met twice


@dataclass(frozen=True)
class TrainingSpeed:
    """Updates of one batch size."""

    batch: int
    updates: int  # that were timed together
    block: Timing  # of so many updates
    plain: Timing | None  # of as many the plain way, where they were raced
    flops: float  # of an update, as counted
    steps: float  # of an update: what its agents decided before they had stopped
    peak_bytes: int | None  # allocated on the device, where it tells
    seconds_to_first: float  # from the start of the process to the end of the first update

    @property
    def updates_per_second(self) -> float:
        return self.updates / self.block.median

    @property
    def episodes_per_second(self) -> float:
        return self.batch * self.updates_per_second

    @property
    def steps_per_second(self) -> float:
        return self.steps * self.updates_per_second

    @property
    def times_plain(self) -> float | None:
        """How many updates are made while the plain way makes one."""
        return None if self.plain is None else self.plain.median / self.block.median


def time_training(
    world: World,
    split: Split,
    tokenizer: Tokenizer,
    shape: NavigatorConfig,
    config: TrainConfig,
    rounds: int,
    updates: int = 10,
    plain: bool = False,
) -> TrainingSpeed:
    """Train a random navigator for some updates and time blocks of them, in turn with the plain way where asked for."""
    device, width = world.device, shape.feature_width
    environment = random_environment(world, width, config.precision)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    navigator = _random_navigator(shape, device)
    navigator.tokenizer = tokenizer  # for flips
    trainer = NavigatorRecipe().trainer(Path(), navigator, environment, [split], {}, config, "")
    advance = update_function(trainer)
    advance(0)
    wait(device)
    seconds_to_first, warm_up = seconds_since_start(), WARM_UP if device.type == "cuda" else 0
    for number in range(1, 1 + warm_up):
        advance(number)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    rivals = {"ours": update_blocks(advance, 1 + warm_up, updates)}
    if plain:
        other, bank = _random_navigator(shape, device), random_features(world, width)
        rival = PlainTraining(navigator=other, world=world, bank=bank, split=split, config=config)
        rivals["plain"] = update_blocks(rival.advance, 1 + warm_up, updates)  # of the same batches
    times = race(rivals, rounds, device)
    flops, steps = _count_work(
        navigator=navigator,
        environment=environment,
        split=split,
        config=config,
        updates=min(updates, COUNTED),
    )
    return TrainingSpeed(
        batch=config.batch,
        updates=updates,
        block=times["ours"],
        plain=times.get("plain"),
        flops=flops,
        steps=steps,
        peak_bytes=peak,
        seconds_to_first=seconds_to_first,
    )


def matrix_rate(device: torch.device, precision: torch.dtype, size: int = 4096, rounds: int = 5) -> float:
    """Floating-point operations a second of a large matrix product here and now: the ceiling."""
    size = size if device.type == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=precision) for _ in range(2))
    times = 20 if device.type == "cuda" else 1

    def multiply() -> None:
        for _ in range(times):
            torch.mm(left, right)

    return 2.0 * size**3 * times / race({"product": multiply}, rounds, device)["product"].median


class StepCounter(Environment):
    """An environment that counts the steps of those who have not stopped."""

    def __init__(self, world: World, bank: Bank | None) -> None:
        super().__init__(world, bank)
        self.steps = 0

    def step(self, state: State, slot: Tensor) -> State:
        self.steps += int((~state.ended).sum())
        return super().step(state, slot)


def _random_navigator(shape: NavigatorConfig, device: torch.device) -> Navigator:
    torch.manual_seed(0)
    return Navigator(shape).to(device)


def update_function(trainer: Trainer) -> Callable[[int], None]:
    """Makes an update by its number; nobody will ask for its losses."""

    def advance(number: int) -> None:
        trainer.advance(number)
        trainer.unreported.clear()

    return advance


def update_blocks(advance: Callable[[int], object], first: int, updates: int) -> Callable[[], None]:
    """Each call makes some more updates."""
    numbers = count(first)

    def block() -> None:
        for number in islice(numbers, updates):
            advance(number)

    return block


def _count_work(
    navigator: Navigator, environment: Environment, split: Split, config: TrainConfig, updates: int
) -> tuple[float, float]:
    """Floating-point operations of an eager update, padding included, and steps: means over some updates."""
    counting = StepCounter(environment.world, environment.view_bank)
    trainer = NavigatorRecipe().trainer(Path(), navigator, counting, [split], {}, replace(config, graphs=False), "")
    with fast.torch_kernels(), FlopCounterMode(display=False) as counter:
        for number in range(updates):
            trainer.advance(number)
    return counter.get_total_flops() / updates, counting.steps / updates
