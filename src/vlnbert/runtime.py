"""How a process uses its machine."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """Let glibc hand large freed blocks out again instead of returning them to the system after every use.

    Tensors of some megabytes are made and dropped at every step; fetching fresh pages for each costs several times
    more than filling them. Elsewhere than on glibc this does nothing.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
