"""Use of the machine by a process: devices, threads, precision, memory."""

import ctypes
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vlnbert.errors import UsageError, setting
from vlnbert.progress import say

if TYPE_CHECKING:
    import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
FASTER = 1.5  # times, for half precision to be worth its rounding

Precision = Literal["float32", "bfloat16", "fastest"]


@dataclass(frozen=True)
class LaunchOptions:
    """Where a training runs, and what it shows and writes while it does. A field's docstring is its help."""

    device: str | None = None
    """Where to train, such as cpu or cuda; by default that of the data, which is cpu for a folder."""
    threads: int | None = None
    """CPU threads; torch's choice otherwise."""
    rank_timeout: float | None = None
    """Seconds that processes which train together wait for each other before they give up, 600 by default: more where
    one of them takes longer than the others to open the data, to validate or to save."""
    bar: bool = True
    """Show progress, and say which parts of the data do not fit."""
    log: bool = True
    """Write log.jsonl."""
    tensorboard: bool = True
    """Write tensorboard/."""


def keep_freed_memory() -> None:
    """Let glibc hand large freed blocks out again instead of returning them to the system after every use.

    Tensors of some megabytes are made and dropped at every step; fetching fresh pages for each costs several times
    more than filling them. Elsewhere than on glibc this does nothing.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def require_device(name: str) -> None:
    """Refuse a device that this machine does not have, before anything is put there."""
    import torch

    try:
        # Reading a value fails on a device without memory, such as meta.
        torch.zeros(1, device=name).tolist()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        devices = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise UsageError(f"no device '{name}' here; choose one of {', '.join(devices)}") from None


def require_within(**options: tuple[int, int, int]) -> None:
    """Refuse numbers out of range: each option comes with its value, the least and the most that make sense."""
    for name, (value, least, most) in options.items():
        if type(value) is not int or not least <= value <= most:
            raise UsageError(f"{setting(name, value)} is out of range; choose {least:,} to {most:,}")


def use_threads(threads: int | None) -> None:
    """Let torch use so many CPU threads; its own choice otherwise."""
    import torch

    if threads is not None:
        require_within(threads=(threads, 1, 256))
        torch.set_num_threads(threads)


def usual_batch(device: "torch.device") -> int:
    """The default number of episodes that are walked together."""
    return 64 if device.type == "cpu" else 1024


def chosen_precision(precision: Precision, device: "torch.device", width: int) -> str:
    """float32 or bfloat16; "fastest" is measured for tokens of a width on a CPU, and the result is printed.

    bfloat16 must be much faster to be chosen; on some CPUs it takes three times as long.
    """
    import torch

    if precision != "fastest":
        return precision
    if device.type == "cuda":
        faster = torch.cuda.is_bf16_supported()
    else:
        whole, half = (_product_seconds(dtype, width) for dtype in (torch.float32, torch.bfloat16))
        faster = half * FASTER < whole
    chosen = "bfloat16" if faster else "float32"
    say(f"the fastest precision here is {chosen}")
    return chosen


def _product_seconds(precision: "torch.dtype", width: int) -> float:
    """The best time of a Transformer's product, of some hundred tokens."""
    import torch

    left, right = torch.ones(256, width, dtype=precision), torch.ones(width, width, dtype=precision)
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        left @ right
        times.append(time.perf_counter() - begin)
    return min(times)
