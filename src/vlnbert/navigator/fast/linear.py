"""Linear maps whose weights are cast and packed once a pass, and get one deferred gradient.

A recurrent network multiplies by the same weights some fifteen times in an episode. Autograd would make a gradient as
large as the weights for each of them, and add them up. Here each use only keeps its input and the gradient of its
output; when the last has done so, one product over all of them is the weights' gradient, summed in their own dtype.
"""

from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vlnbert.errors import UsageError
from vlnbert.navigator.fast.context import Pass, current
from vlnbert.navigator.fast.foreign import checked

Entry = TypeVar("Entry")


class DeferredGrads(Generic[Entry]):
    """What the uses of a weight leave for its gradient, by the backward pass: not every one asks for the weights."""

    def __init__(self) -> None:
        self.entries: dict[int, list[Entry]] = {}

    def add(self, entry: Entry) -> None:
        self.entries.setdefault(_backward_pass(), []).append(entry)

    def take(self) -> list[Entry]:
        """Those of the backward pass under way; what others have left is forgotten."""
        mine = self.entries.pop(_backward_pass(), [])
        self.entries.clear()
        return mine


LinearGrads = DeferredGrads[tuple[Tensor, Tensor]]  # [token, width] an input, and the gradient of its output


def linear(tokens: Tensor, *maps: nn.Module, width: int | None = None) -> Tensor:
    """[..., widths] what one or several linear maps make of tokens, side by side.

    `width`, where all have the same, is what foreign maps are held to; without it, what they say of themselves.
    """
    shared = current()
    if shared is None:
        return _side_by_side([one(tokens) if type(one) is nn.Linear else _foreign(tokens, one, width) for one in maps])
    if any(type(one) is not nn.Linear for one in maps):  # an adapter has a forward of its own
        parts = [linear(tokens, one) if type(one) is nn.Linear else _foreign(tokens, one, width) for one in maps]
        return _side_by_side(parts)
    if maps not in shared.packed:
        shared.packed[maps] = _pack(shared, maps)
    weight, bias, grads = shared.packed[maps]
    out: Tensor = _Linear.apply(tokens.to(weight.dtype), weight, bias, grads)  # type: ignore[no-untyped-call]
    return out


def _foreign(tokens: Tensor, module: nn.Module, width: int | None) -> Tensor:
    expected = getattr(module, "out_features", None) if width is None else width
    return checked(module, (*tokens.shape[:-1], expected), tokens)


def _pack(shared: Pass, maps: tuple[nn.Module, ...]) -> tuple[Tensor, Tensor | None, LinearGrads]:
    """Weights and biases as they will be used, and where their uses leave their gradients."""
    grads = LinearGrads()
    weights, biases = ([getattr(one, name) for one in maps] for name in ("weight", "bias"))
    biased = biases[0] is not None
    if any((bias is not None) != biased for bias in biases):
        raise UsageError("fast.linear was given maps with and without a bias; give them in calls of their own")
    with torch.set_grad_enabled(shared.needs_grad):
        out = _Packed.apply(grads, shared.dtype, *weights, *(biases if biased else ()))  # type: ignore[no-untyped-call]
    return out[0], out[1] if biased else None, grads


class _Packed(Function):
    """Weights side by side in the dtype of the pass. Their gradient is made of their uses, when all have been."""

    @staticmethod
    def forward(ctx: Any, grads: LinearGrads, dtype: torch.dtype | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.grads, ctx.dtype = grads, tensors[0].dtype
        weights = [tensor for tensor in tensors if tensor.dim() == 2]
        ctx.widths = [len(weight) for weight in weights]
        ctx.biased = len(tensors) > len(weights)
        ctx.set_materialize_grads(False)
        return tuple(
            _packed(tensors[first : first + len(weights)], dtype) for first in range(0, len(tensors), len(weights))
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_none: None) -> tuple[Tensor | None, ...]:
        """Nobody sends a gradient here: the uses hold what it is made of."""
        entries = ctx.grads.take()
        if not entries:
            return (None, None, *(None,) * (len(ctx.widths) * (1 + ctx.biased)))
        tokens, grad_out = (_cat(parts) for parts in zip(*entries, strict=True))
        weights = torch.split(_product(grad_out.T, tokens, ctx.dtype), ctx.widths)
        biases = torch.split(grad_out.sum(dim=0, dtype=ctx.dtype), ctx.widths) if ctx.biased else ()
        return (None, None, *weights, *biases)


class _Linear(Function):
    """A linear map whose weight's gradient is left for later."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, bias: Tensor | None, grads: LinearGrads) -> Tensor:
        ctx.save_for_backward(tokens, weight)
        ctx.grads = grads
        return functional.linear(tokens, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, None, None, None]:
        tokens, weight = ctx.saved_tensors
        if ctx.needs_input_grad[1]:
            ctx.grads.add((tokens.reshape(-1, tokens.shape[-1]), grad_out.reshape(-1, grad_out.shape[-1])))
        return grad_out @ weight if ctx.needs_input_grad[0] else None, None, None, None


def _packed(tensors: tuple[Tensor, ...], dtype: torch.dtype | None) -> Tensor:
    whole = _cat(tensors).to(dtype)
    return whole.detach() if whole is tensors[0] else whole  # autograd asks for a tensor of its own


def _cat(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix product in the dtype of the weights, whatever that of the factors."""
    if left.is_cuda and left.dtype != dtype:
        return torch.mm(left, right, out_dtype=dtype)
    return left.to(dtype) @ right.to(dtype)


def _backward_pass() -> int:
    number: int = torch._C._current_graph_task_id()
    return number
