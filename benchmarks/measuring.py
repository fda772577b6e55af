"""Time and memory, fairly measured on a noisy machine.

`python -m benchmarks` imports this first, so that the clock starts early: torch is imported where it is needed.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ALLOCATION = "[memory]"  # the profiler's name for what is taken, and given back with a minus
IMPORTED = time.monotonic()
STARTED = 19  # the place of the start's clock tick in /proc/self/stat, behind the name of the program


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
    rivals: Mapping[str, Callable[[], object]], rounds: int, device: "torch.device | str" = "cpu"
) -> dict[str, Timing]:
    """Time each rival once a round, in turn, after one round that does not count; medians can then be compared."""
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


def wait(device: "torch.device | str") -> None:
    """Until the device has done what it was asked for."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def seconds_since_start() -> float:
    """Since the system started the process; where it does not tell, since this module was imported."""
    if sys.platform == "linux":
        told = Path("/proc/self/stat").read_text().rpartition(")")[2].split()  # a name may hold blanks
        began = int(told[STARTED]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - began
    return time.monotonic() - IMPORTED


def peak_memory(run: Callable[[], object], device: "torch.device | str" = "cpu") -> int:
    """Bytes of tensors and kernels' buffers that torch's allocator holds for a call at its peak, beyond those before.

    What libraries beneath it allocate on their own is not seen. The first call of a kind may take more: let one pass.
    """
    import torch
    from torch.autograd.profiler import profile

    if torch.device(device).type == "cuda":
        return _cuda_peak(run, device)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler tells standard error that it starts and stops
    with profile(profile_memory=True) as profiled:
        run()
    results = profiled.kineto_results
    found = [] if results is None else [event for event in results.events() if event.name() == ALLOCATION]
    taken = (event.nbytes() for event in sorted(found, key=lambda event: event.start_ns()))
    return max(accumulate(taken), default=0)


def _cuda_peak(run: Callable[[], object], device: "torch.device | str") -> int:
    import torch

    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before
