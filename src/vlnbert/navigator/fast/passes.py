"""The pass that an `enabled` block shares, and calls of third-party modules in it."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from vlnbert.errors import UsageError
from vlnbert.external import is_plain, kind_of

SEEDS = 1024  # dropout seeds that are drawn together: more than most passes use

Dropout = tuple[Tensor, int, float]  # a table of seeds, an index into it, and the dropout probability


@dataclass
class Pass:
    """State shared by the steps inside one `enabled` block."""

    dtype: torch.dtype | None  # of tokens; None for that of the weights
    needs_grad: bool  # whether gradients will be needed
    packed: dict[Any, Any] = field(default_factory=dict)  # weights as they are used, by the modules that own them
    seeds: Tensor | None = None
    seeds_used: int = 0

    def dropout(self, tokens: Tensor, probability: float) -> Dropout | None:
        """A dropout seed that is used once; None if nothing is dropped."""
        if not probability:
            return None
        index = self.seeds_used % SEEDS
        if index == 0:
            self.seeds = torch.randint(2**62, (SEEDS,), device=tokens.device)
        assert self.seeds is not None
        self.seeds_used += 1
        return self.seeds, index, probability


_current: ContextVar[Pass | None] = ContextVar("fast_pass", default=None)


def current() -> Pass | None:
    """The active pass, if any."""
    return _current.get()


@contextmanager
def enabled(dtype: torch.dtype | None = None) -> Iterator[None]:
    """Share work between the steps inside the block, with tokens of this dtype (None: that of the weights).

    Weights must not change meanwhile. They get gradients if gradients are on where the block begins, one backward pass
    at a time, and no gradients of gradients.
    """
    token = _current.set(Pass(dtype, torch.is_grad_enabled()))
    try:
        yield
    finally:
        _current.reset(token)


def dtype_of(precision: str) -> torch.dtype | None:
    """The dtype to give to `enabled` for the name of a precision; None for that of the weights."""
    return torch.bfloat16 if precision == "bfloat16" else None


def cast(tokens: Tensor) -> Tensor:
    """Tokens in the dtype of the pass."""
    shared = _current.get()
    return tokens if shared is None else tokens.to(shared.dtype)


def foreign(module: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a third-party module or function, so that weights of any dtype work with tokens of the pass's.

    It runs under autocast, with autocast's cache off since a recorded graph must cast anew. Floating results, also in
    tuples, lists, dicts and dataclasses, come back in the dtype of the pass. Where the pass has no dtype, and outside
    of one, this is an ordinary call: nothing is cast. Gradients are ordinary autograd's.
    """
    shared = current()
    if shared is None or shared.dtype is None:
        return module(*args, **kwargs)
    _spend_rms_norm_warning()
    # The device of the first tensor among the arguments, else of the module's first weight.
    owner = getattr(module, "__self__", module)
    weights = owner.parameters() if isinstance(owner, nn.Module) else ()
    first = next((tensor for source in (_tensors((args, kwargs)), weights) for tensor in source), None)
    device_type = "cpu" if first is None else first.device.type
    with torch.autocast(device_type, shared.dtype, cache_enabled=False):
        out = module(*args, **kwargs)
    return _cast(out, shared.dtype)


def foreign_tensor(module: nn.Module, shape: Sequence[int | None], *args: Any) -> Tensor:
    """Call a third-party module that must return a floating tensor of this shape."""
    out = foreign(module, *args)
    require(module, "its result", out, shape)
    return out


def call(module: nn.Module, tokens: Tensor, *more: Any) -> Tensor:
    """Call one of our modules, or a third-party one in its place, that returns the shape of its first argument."""
    if getattr(module, "uses_fast", False):
        return module(tokens, *more)
    return foreign_tensor(module, tokens.shape, tokens, *more)


def require(
    owner: object, what: str, value: object, shape: Sequence[int | None], dtype: torch.dtype | None = None
) -> None:
    """Raise a one-line error unless a third-party module returned a tensor of this shape and dtype.

    A None in the shape stands for any size, as dtype for any floating one. Looks at shapes and dtypes alone: nothing
    waits for the device.
    """
    kind = "floating" if dtype is None else str(dtype).removeprefix("torch.")
    if isinstance(value, Tensor) and is_plain(value):
        right_kind = value.is_floating_point() if dtype is None else value.dtype == dtype
        sizes = zip(value.shape, shape, strict=False)
        if right_kind and value.dim() == len(shape) and all(size in (found, None) for found, size in sizes):
            return
        given = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    else:
        given = kind_of(value)
    expected = ", ".join("any" if size is None else str(size) for size in shape)
    raise UsageError(f"{type(owner).__name__} gave {given} for {what}; expected is a {kind} tensor [{expected}]")


@cache
def _spend_rms_norm_warning() -> None:
    """Trigger torch's once-per-process warning that RMSNorm of mixed dtypes is not its fastest, silently.

    In a pass bfloat16 tokens with float32 weights are intended. Silencing each call would make Python forget which
    warnings it has shown.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mismatch dtype between input and weight")
        rms_norm(torch.zeros(1, 1, dtype=torch.bfloat16, device="cpu"), (1,), torch.ones(1, device="cpu"))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif is_dataclass(value):
        yield from _tensors([getattr(value, field.name) for field in fields(value)])


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast(one, dtype) for one in value))
    if isinstance(value, tuple | list):
        return type(value)(_cast(one, dtype) for one in value)
    if isinstance(value, dict):
        return {key: _cast(one, dtype) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _cast(getattr(value, field.name), dtype) for field in fields(value)})
    return value
