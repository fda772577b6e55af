"""The pass that a block shares, and whether the Triton kernels serve in it."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

SEEDS = 1024  # dropout seeds that are drawn together: more than most passes use
MOST_NUMBERS = 2**31  # in one tensor, for a kernel's 32-bit offsets

Dropout = tuple[Tensor, int, float]  # a table of seeds, the index of one in it, and the probability of being dropped


@dataclass
class Pass:
    """What the steps inside of one `enabled` block share."""

    dtype: torch.dtype | None  # of tokens; None for that of the weights
    needs_grad: bool  # whether gradients will be asked for
    packed: dict[Any, Any] = field(default_factory=dict)  # weights as they are used, by the modules that own them
    seeds: Tensor | None = None
    seeds_used: int = 0

    def dropout(self, tokens: Tensor, probability: float) -> Dropout | None:
        """A dropout seed that nobody else gets, if anything is to be dropped."""
        if not probability:
            return None
        index = self.seeds_used % SEEDS
        if index == 0:
            self.seeds = torch.randint(2**62, (SEEDS,), device=tokens.device)
        assert self.seeds is not None
        self.seeds_used += 1
        return self.seeds, index, probability


_current: ContextVar[Pass | None] = ContextVar("fast_pass", default=None)
_torch_kernels: ContextVar[bool] = ContextVar("torch_kernels", default=False)


def current() -> Pass | None:
    """The pass that is on, if any."""
    return _current.get()


@contextmanager
def enabled(dtype: torch.dtype | None = None) -> Iterator[None]:
    """Within the block steps share their work, and tokens are of this dtype (None: that of the weights).

    Weights must not change meanwhile. They get gradients if gradients are on where the block begins, one backward pass
    at a time, and no gradients of gradients.
    """
    token = _current.set(Pass(dtype, torch.is_grad_enabled()))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def torch_kernels() -> Iterator[None]:
    """Within the block torch's own kernels serve: to compare with them, or to let torch count what they do."""
    token = _torch_kernels.set(True)
    try:
        yield
    finally:
        _torch_kernels.reset(token)


def dtype_of(precision: str) -> torch.dtype | None:
    """What `enabled` is asked for by the name of a precision: bfloat16, or that of the weights."""
    return torch.bfloat16 if precision == "bfloat16" else None


def cast(tokens: Tensor) -> Tensor:
    """Tokens in the dtype of the pass."""
    shared = _current.get()
    return tokens if shared is None else tokens.to(shared.dtype)


def triton_pass(tokens: Tensor) -> Pass | None:
    """The pass that is on, where the Triton kernels can serve these tokens."""
    shared = _current.get()
    if shared is None or _torch_kernels.get() or tokens.dtype not in (torch.float32, torch.bfloat16):
        return None
    small = tokens.numel() < MOST_NUMBERS
    return shared if small and (tokens.is_cuda or _interpreted()) and _compiles(tokens.device) else None


@cache
def _compiles(device: torch.device) -> bool:
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
    from vlnbert.navigator.fast.norm import triton_norm

    norm = nn.LayerNorm(16, device=device)
    with torch.no_grad():
        triton_norm(Pass(None, needs_grad=False), norm, torch.zeros(1, 16, device=device), None, 0.0)


@cache
def _interpreted() -> bool:
    """Triton can run its kernels in Python, on the CPU: slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def block_size(count: int) -> int:
    """The power of two that holds a count: what Triton wants its blocks to be."""
    return max(16, 1 << (count - 1).bit_length())


def seed_arguments(dropout: Dropout | None, like: Tensor) -> tuple[Tensor, int]:
    """A kernel's table of seeds and an index in it; anything where nothing is dropped."""
    return (like, 0) if dropout is None else dropout[:2]


def threshold_arguments(dropout: Dropout | None) -> tuple[int, float]:
    """A kernel's `threshold`, how many of 2^31 hashes are dropped, and `keep_scale`, by which the others grow."""
    return (0, 1.0) if dropout is None else (round(dropout[2] * 2**31), 1 / (1 - dropout[2]))
