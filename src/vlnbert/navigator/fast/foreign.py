"""Modules that know nothing of `fast`, called so that they work in a pass, or told in one line why they cannot."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from vlnbert.errors import UsageError
from vlnbert.external import is_plain, kind_of
from vlnbert.navigator.fast.context import current


def foreign(module: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call somebody's module, or a method of it, so that weights of any dtype meet tokens of the pass's.

    It runs under autocast, whose cache is off since a recorded graph must cast anew. Floating results, in tuples,
    lists, dicts or dataclasses too, come back in the dtype of the pass. Where the pass has no dtype, and outside of
    one, this is an ordinary call: nothing is cast. Gradients are ordinary autograd's.
    """
    shared = current()
    if shared is None or shared.dtype is None:
        return module(*args, **kwargs)
    _spend_rms_norm_warning()
    with torch.autocast(_device_type(module, args, kwargs), shared.dtype, cache_enabled=False):
        out = module(*args, **kwargs)
    return _cast(out, shared.dtype)


def checked(module: nn.Module, shape: Sequence[int | None], *args: Any) -> Tensor:
    """What a foreign module gives, a floating tensor of this shape."""
    out = foreign(module, *args)
    require(module, "its result", out, shape)
    return out


def call(module: nn.Module, tokens: Tensor, *more: Any) -> Tensor:
    """Call one of our modules, or a foreign one in its place, that gives tokens of the shape of the first it gets."""
    if getattr(module, "uses_fast", False):
        return module(tokens, *more)
    return checked(module, tokens.shape, tokens, *more)


def require(
    owner: object, what: str, value: object, shape: Sequence[int | None], dtype: torch.dtype | None = None
) -> None:
    """One line where a foreign module gave something else than a tensor of this shape and dtype (None: any floating).

    Looks at shapes and dtypes alone: nothing waits for the device. A None in the shape stands for any size.
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
    """torch warns once in a process that RMSNorm of bfloat16 tokens with float32 weights is not its fastest.

    In a pass that is as it should be. Silencing each call would make Python forget which warnings it has shown.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mismatch dtype between input and weight")
        rms_norm(torch.zeros(1, 1, dtype=torch.bfloat16, device="cpu"), (1,), torch.ones(1, device="cpu"))


def _device_type(module: Callable[..., Any], *given: Any) -> str:
    """That of the first tensor among the arguments, else of the module's first weight."""
    owner = getattr(module, "__self__", module)
    weights = owner.parameters() if isinstance(owner, nn.Module) else ()
    first = next((tensor for source in (_tensors(given), weights) for tensor in source), None)
    return "cpu" if first is None else first.device.type


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
