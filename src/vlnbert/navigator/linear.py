"""Linear maps that are used at every step of an episode.

A recurrent network multiplies by the same weights some fifteen times in an episode. Autograd would make a gradient as
large as the weights for each of them, and add them up. In an economy each use only remembers its input and the gradient
of its output; when the last has done so, one product over all of them is the weights' gradient, summed in float32.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from vlnbert.navigator.economy import Economy, current
from vlnbert.navigator.ledger import Ledger

Use = tuple[Tensor, Tensor]  # [token, width] what went in, and the gradient of what came out
Uses = Ledger[Use]


def project(tokens: Tensor, *maps: nn.Linear) -> Tensor:
    """[..., widths] what one or several linear maps make of tokens, side by side."""
    shared = current()
    if shared is None or any(type(one) is not nn.Linear for one in maps):  # an adapter has a way of its own
        parts = [one(tokens) for one in maps]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
    if maps not in shared.kept:
        shared.kept[maps] = _keep(shared, maps)
    weight, bias, uses = shared.kept[maps]
    made: Tensor = _Use.apply(tokens.to(weight.dtype), weight, bias, uses)  # type: ignore[no-untyped-call]
    return made


def _keep(shared: Economy, maps: tuple[nn.Linear, ...]) -> tuple[Tensor, Tensor | None, Uses]:
    """Weights and biases as they will be used, and where their uses will be listed."""
    uses = Uses()
    weights, biases = ([getattr(one, name) for one in maps] for name in ("weight", "bias"))
    biased = biases[0] is not None
    with torch.set_grad_enabled(shared.learning):
        made = _Kept.apply(uses, shared.precision, *weights, *(biases if biased else ()))  # type: ignore[no-untyped-call]
    return made[0], made[1] if biased else None, uses


class _Kept(Function):
    """Weights side by side in the precision of the pass. Their gradient is made of their uses, when all have been."""

    @staticmethod
    def forward(ctx: Any, uses: Uses, precision: torch.dtype | None, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.uses, ctx.precise = uses, tensors[0].dtype
        weights = [tensor for tensor in tensors if tensor.dim() == 2]
        ctx.widths = [len(weight) for weight in weights]
        ctx.biased = len(tensors) > len(weights)
        ctx.set_materialize_grads(False)
        return tuple(
            _packed(tensors[first : first + len(weights)], precision) for first in range(0, len(tensors), len(weights))
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_nothing: None) -> tuple[Tensor | None, ...]:
        """Nobody sends a gradient here: the uses hold what it is made of."""
        uses = ctx.uses.take()
        if not uses:
            return (None, None, *(None,) * (len(ctx.widths) * (1 + ctx.biased)))
        given, wanted = (_joined(parts) for parts in zip(*uses, strict=True))
        weights = torch.split(_product(wanted.T, given, ctx.precise), ctx.widths)
        biases = torch.split(wanted.sum(dim=0, dtype=ctx.precise), ctx.widths) if ctx.biased else ()
        return (None, None, *weights, *biases)


class _Use(Function):
    """A linear map whose weights' gradient is left for later."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, bias: Tensor | None, uses: Uses) -> Tensor:
        ctx.save_for_backward(tokens, weight)
        ctx.uses = uses
        return linear(tokens, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor) -> tuple[Tensor | None, None, None, None]:
        tokens, weight = ctx.saved_tensors
        if ctx.needs_input_grad[1]:
            ctx.uses.add((tokens.reshape(-1, tokens.shape[-1]), wanted.reshape(-1, wanted.shape[-1])))
        return wanted @ weight if ctx.needs_input_grad[0] else None, None, None, None


def _packed(tensors: tuple[Tensor, ...], precision: torch.dtype | None) -> Tensor:
    whole = _joined(tensors).to(precision)
    return whole.detach() if whole is tensors[0] else whole  # autograd asks for a tensor of its own


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _product(left: Tensor, right: Tensor, precise: torch.dtype) -> Tensor:
    """A matrix product in the precision of the weights, whatever that of the factors."""
    if left.is_cuda and left.dtype != precise:
        return torch.mm(left, right, out_dtype=precise)
    return left.to(precise) @ right.to(precise)
