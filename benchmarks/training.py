"""Time the updates of a preset: how many a second, what they take in memory, and how near to the floor that is.

Weights are random and features are noise as wide as the preset's navigator sees; instructions and graphs are those of
R2R's train split, with the words to attend to where the preset learns them and the folder has their labels. Blocks of
updates are timed after a warm-up. A step is what one agent decides before it has stopped. Operations and steps are
counted on a block of eager updates that is not timed; padding is among the operations, and so are agents that have
stopped, where they go along. The ceiling is a large matrix product, timed on the same device in the same precision.

With --plain, blocks take turns with as many updates the plain way: that of the published code, with 80 tokens to every
instruction, keys and values projected at every step, a Python loop over agents for what they see, and the two halves of
a batch rolled out apart, in float32.

Start-up is the time from the start of the process to the end of the first update, with the opening of world and split
and, without a folder, the making of a house.
"""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.measuring import Timing, race, seconds_since_start, wait
from benchmarks.options import MOST, RACED, Found, add_data, add_machine, add_preset, gibibytes, use_machine
from benchmarks.plain.training import PlainTraining
from vlnbert.benchmarking import WARM_UP, folder_or_house, open_setup, random_environment, random_features
from vlnbert.environment.environment import Environment, State
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.navigator_recipe import NAVIGATOR
from vlnbert.learning.presets import presets
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator, NavigatorConfig, fast
from vlnbert.runtime import require_within
from vlnbert.tables import Table
from vlnbert.tasks.splits import Split
from vlnbert.world.banks import Bank
from vlnbert.world.world import World

COUNTED = 3  # updates whose operations are counted, which is slow


def add_options(parser: ArgumentParser) -> None:
    add_preset(parser)
    add_data(parser)
    parser.add_argument("--batch", type=int, nargs="*", default=(), help="rows of an update, one or several sizes")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), help="of the forward pass (the preset's own)")
    parser.add_argument("--graphs", action=BooleanOptionalAction, default=True, help="on a GPU, replay CUDA graphs")
    parser.add_argument("--plain", action="store_true", help="race against the plain way")
    parser.add_argument("--updates", type=int, default=10, help="how many make a block (10)")
    add_machine(parser, rounds=5)


def measure(
    preset: str,
    data: Path | None,
    batch: Sequence[int],
    precision: Literal["float32", "bfloat16"] | None,
    graphs: bool,
    plain: bool,
    updates: int,
    rounds: int,
    threads: int | None,
    device: str,
) -> Found:
    """Time the updates of each size of batch, then the ceiling."""
    experiment = presets.navigator(preset)
    require_within(updates=(updates, 1, MOST))
    use_machine(device, threads, rounds)
    training = in_one_split(replace(experiment.training, graphs=graphs))
    training = replace(training, precision=precision or training.precision)
    sizes = [replace(training, batch=rows) for rows in batch or (training.batch,)]
    with folder_or_house(data) as folder:
        labelled = training.objective.alignment > 0
        setup = open_setup(folder, "r2r/train", experiment.navigator, device, aligned=labelled)
    speeds = [
        time_training(
            world=setup.world,
            split=setup.split,
            tokenizer=setup.tokenizer,
            shape=setup.shape,
            config=size,
            rounds=rounds,
            updates=updates,
            plain=plain,
        )
        for size in sizes
    ]
    ceiling = matrix_rate(setup.world.device, getattr(torch, training.precision))
    facts = {"preset": preset, "precision": training.precision, "device": device, "ceiling_flops": ceiling}
    facts |= {"startup_seconds": speeds[0].seconds_to_first}
    names = ("rows", "updates/s", "episodes/s", "steps/s", "spread", "TFLOP an update", "of the ceiling", "peak GiB")
    return Found(
        {**facts, "batches": [_as_json(speed, ceiling) for speed in speeds]},
        Table(
            (*names, *(RACED if plain else ())),
            [_cells(speed, ceiling) for speed in speeds],
            f"{preset}, {training.precision}, on {device}",
        ),
        [
            f"the ceiling, a large matrix product: {ceiling / 1e12:,.2f} TFLOP/s",
            f"start-up, to the end of the first update: {speeds[0].seconds_to_first:.1f} s",
        ],
    )


def in_one_split(training: TrainConfig) -> TrainConfig:
    """The same updates, all of them of one split."""
    return replace(training, split_weights=(), final_split_weights=())


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


def _as_json(speed: TrainingSpeed, ceiling: float) -> dict[str, Any]:
    return {
        "batch": speed.batch,
        "updates_per_second": speed.updates_per_second,
        "episodes_per_second": speed.episodes_per_second,
        "steps_per_second": speed.steps_per_second,
        "spread": speed.block.spread,
        "flops": speed.flops,
        "share_of_ceiling": speed.flops * speed.updates_per_second / ceiling,
        "peak_bytes": speed.peak_bytes,
        "times_plain": speed.times_plain,
        "plain_spread": None if speed.plain is None else speed.plain.spread,
    }


def _cells(speed: TrainingSpeed, ceiling: float) -> tuple[str, ...]:
    rates = (speed.updates_per_second, speed.episodes_per_second, speed.steps_per_second)
    share = speed.flops * speed.updates_per_second / ceiling
    return (
        f"{speed.batch:,}",
        *(f"{rate:,.2f}" for rate in rates),
        f"{speed.block.spread:.0%}",
        f"{speed.flops / 1e12:.3f}",
        f"{share:.1%}",
        gibibytes(speed.peak_bytes),
        *(() if speed.plain is None else (f"{speed.times_plain:.2f}", f"{speed.plain.spread:.0%}")),
    )


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
    trainer = Trainer(NAVIGATOR, Path(), navigator, environment, [split], {}, config)
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
    trainer = Trainer(NAVIGATOR, Path(), navigator, counting, [split], {}, replace(config, graphs=False))
    with fast.torch_kernels(), FlopCounterMode(display=False) as counter:
        for number in range(updates):
            trainer.advance(number)
    return counter.get_total_flops() / updates, counting.steps / updates
