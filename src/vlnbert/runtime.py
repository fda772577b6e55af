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


def fastest_precision(device: "torch.device") -> str:
    """float32 or bfloat16, whichever multiplies faster here: some CPUs take three times as long in half precision."""
    import torch

    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    seconds = {name: _product_seconds(getattr(torch, name)) for name in ("float32", "bfloat16")}
    return min(seconds, key=seconds.__getitem__)


def _product_seconds(precision: "torch.dtype") -> float:
    """The best time of a product of a Transformer's size."""
    import torch

    left, right = torch.ones(256, 768, dtype=precision), torch.ones(768, 768, dtype=precision)
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        left @ right
        times.append(time.perf_counter() - begin)
    return min(times)
