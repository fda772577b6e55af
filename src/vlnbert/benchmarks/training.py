"""How fast a preset trains: updates a second, what they cost in memory, and how near that is to the arithmetic floor.

The weights are random and the features are noise: speed does not depend on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from vlnbert.benchmarks.navigator import noise
from vlnbert.benchmarks.timing import Timing, race
from vlnbert.environment.environment import Environment
from vlnbert.learning.config import TrainConfig
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.tasks.splits import Split
from vlnbert.world import World

WARM_UP = 40  # updates before any is timed, on a GPU: most shapes of a batch have then been met twice
BLOCK = 10  # updates that are timed together


@dataclass(frozen=True)
class TrainingSpeed:
    """Updates of one batch size."""

    batch: int
    block: Timing  # of BLOCK updates
    flops: float  # of one update, as counted
    peak_bytes: int | None  # allocated on the device, where it tells

    @property
    def updates_per_second(self) -> float:
        return BLOCK / self.block.median

    @property
    def episodes_per_second(self) -> float:
        return self.batch * self.updates_per_second


def time_training(
    world: World,
    splits: Sequence[Split],
    shape: NavigatorConfig,
    config: TrainConfig,
    rounds: int,
) -> TrainingSpeed:
    """Train a random navigator for some updates and time blocks of them."""
    device = world.device
    environment = Environment(world, noise(world, shape.feature_width).to(device, _kept(config, device)))
    torch.manual_seed(0)
    navigator = Navigator(shape).to(device)
    counted = _flops(navigator, environment, splits, replace(config, graphs=False))
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    trainer = Trainer(Path(), navigator, environment, splits, {}, config, "")
    done = iter(range(1_000_000_000))

    def block(updates: int = BLOCK) -> None:
        for _ in range(updates):
            trainer.advance(next(done))
        trainer.unreported.clear()

    block(WARM_UP if device.type == "cuda" else 1)
    timing = race({"block": block}, rounds, device)["block"]
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    return TrainingSpeed(config.batch, timing, counted, peak)


def matrix_rate(device: torch.device, precision: torch.dtype, size: int = 4096, rounds: int = 5) -> float:
    """Floating-point operations a second of a large matrix product here and now: the ceiling."""
    size = size if device.type == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=precision) for _ in range(2))
    times = 20 if device.type == "cuda" else 1

    def multiply() -> None:
        for _ in range(times):
            torch.mm(left, right)

    return 2.0 * size**3 * times / race({"product": multiply}, rounds, device)["product"].median


def _flops(navigator: Navigator, environment: Environment, splits: Sequence[Split], config: TrainConfig) -> float:
    """Of one eager update, padding included."""
    trainer = Trainer(Path(), navigator, environment, splits, {}, config, "")
    with FlopCounterMode(display=False) as counter:
        trainer.advance(0)
    return float(counter.get_total_flops())


def _kept(config: TrainConfig, device: torch.device) -> torch.dtype:
    """Features are kept in the precision that they are used in."""
    return torch.bfloat16 if config.precision == "bfloat16" and device.type == "cuda" else torch.float32
