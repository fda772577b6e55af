"""How a process uses its machine."""

import ctypes
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """Let glibc hand large freed blocks out again instead of returning them to the system after every use.

    Tensors of some megabytes are made and dropped at every step; fetching fresh pages for each costs several times
    more than filling them. Elsewhere than on glibc this does nothing.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


FASTER = 1.5  # times, for half precision to be worth its rounding


def fastest_precision(device: "torch.device", width: int) -> str:
    """bfloat16 where it multiplies tokens of a width much faster, else float32: some CPUs take three times as long."""
    import torch

    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    whole, half = (_product_seconds(precision, width) for precision in (torch.float32, torch.bfloat16))
    return "bfloat16" if half * FASTER < whole else "float32"


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
