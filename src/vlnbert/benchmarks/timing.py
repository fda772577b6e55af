"""Fair timing on a noisy machine: rivals take turns, and medians are compared."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Timing:
    """Seconds a call took, over several rounds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median


def race(
    rivals: Mapping[str, Callable[[], object]], rounds: int, device: torch.device | str = "cpu"
) -> dict[str, Timing]:
    """Time each rival once a round, in turn, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for counted in [False] + [True] * rounds:
        for name, run in rivals.items():
            wait(device)
            begin = time.perf_counter()
            run()
            wait(device)
            if counted:
                seconds[name].append(time.perf_counter() - begin)
    return {name: Timing(tuple(times)) for name, times in seconds.items()}


def wait(device: torch.device | str) -> None:
    """Until the device has done what it was asked for."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
