"""When the kernels of `kernels.py` can serve, and what all of them are given."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from vlnbert.navigator.economy import Economy, current

REACH = 2**31  # numbers in one tensor that a kernel can tell apart

Drops = tuple[Tensor, int, float]  # a table of seeds, the place of one in it, and the chance of being dropped

_left_alone: ContextVar[bool] = ContextVar("left_alone", default=False)


@contextmanager
def left_alone() -> Iterator[None]:
    """Within the block torch's own kernels serve: to compare with them, or to let torch count what they do."""
    token = _left_alone.set(True)
    try:
        yield
    finally:
        _left_alone.reset(token)


def on(tokens: Tensor) -> Economy | None:
    """The economy that is on, where its kernels can serve these tokens."""
    if current() is None or _left_alone.get() or tokens.dtype not in (torch.float32, torch.bfloat16):
        return None
    small = tokens.numel() < REACH
    return current() if small and (tokens.is_cuda or _interpreted()) and _serve(tokens.device) else None


@cache
def _serve(device: torch.device) -> bool:
    """Whether Triton is there and can compile for a device, which takes a C compiler and a GPU that is not too old."""
    if find_spec("triton") is None:
        return False
    try:
        _try_out(device)
    except Exception as error:  # whatever is wrong, torch's own kernels do the same
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        remedy = "torch's own serve, more slowly; a C compiler is what is most often missing"
        warnings.warn(f"Triton cannot compile the navigator's kernels here ({reason}); {remedy}", stacklevel=2)
        return False
    return True


def _try_out(device: torch.device) -> None:
    """Compile and run the smallest of the kernels."""
    from vlnbert.navigator.fused_norms import normalised

    norm = nn.LayerNorm(16, device=device)
    with torch.no_grad():
        normalised(Economy(None, learning=False), norm, torch.zeros(1, 16, device=device))


@cache
def _interpreted() -> bool:
    """Triton can run its kernels in Python, on the CPU: slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def block(count: int) -> int:
    """The power of two that holds a count: what Triton wants its blocks to be."""
    return max(16, 1 << (count - 1).bit_length())


def drops_of(economy: Economy, tokens: Tensor, chance: float) -> Drops | None:
    """A seed of its own for what is dropped here, if anything is."""
    return (*economy.seed(tokens.device), chance) if chance else None


def seed_of(drops: Drops | None, like: Tensor) -> tuple[Tensor, int]:
    """The table of seeds and a place in it; anything where nothing is dropped."""
    return (like, 0) if drops is None else drops[:2]


def chance_of(drops: Drops | None) -> tuple[int, float]:
    """Of 2^31 hashes, how many are dropped; and what the others rise by."""
    return (0, 1.0) if drops is None else (round(drops[2] * 2**31), 1 / (1 - drops[2]))
