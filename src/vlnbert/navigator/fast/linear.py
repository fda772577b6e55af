"""Linear maps without repeated work: no padding, and one deferred gradient for all uses of a weight.

A recurrent network multiplies by the same weights some fifteen times in an episode. Autograd would compute a gradient
as large as the weights for each of them, and add them up. Here weights are cast and packed once a pass; each use only
keeps its input and the gradient of its output; after the last use, one product over all of them is the weights'
gradient, summed in their own dtype.

Padded, tokens are a block [row, token, width], and whatever is done to every token is done to the padding too. Of the
views that a step shows, more than half are padding. Inside of `fast.enabled` on the CPU real tokens therefore lie side
by side, [real token, width], and are padded for attention alone. On a GPU counting real tokens would mean waiting.
"""

from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vlnbert.errors import UsageError
from vlnbert.navigator.fast.passes import Pass, current, foreign_tensor

Entry = TypeVar("Entry")


class DeferredGrads(Generic[Entry]):
    """Contributions of a weight's uses to its gradient, by backward pass: not every pass needs weights."""

    def __init__(self) -> None:
        self.entries: dict[int, list[Entry]] = {}

    def add(self, entry: Entry) -> None:
        self.entries.setdefault(_backward_pass(), []).append(entry)

    def take(self) -> list[Entry]:
        """Take the entries of the running backward pass and discard those of others."""
        mine = self.entries.pop(_backward_pass(), [])
        self.entries.clear()
        return mine


LinearGrads = DeferredGrads[tuple[Tensor, Tensor]]  # [token, width] an input, and the gradient of its output


def linear(tokens: Tensor, *maps: nn.Module, width: int | None = None) -> Tensor:
    """Outputs [..., widths] of one or several linear maps of the same tokens, side by side.

    `width`, if all have the same, is required of third-party maps; without it, their own `out_features`.
    """
    shared = current()
    if shared is None:
        return join([one(tokens) if type(one) is nn.Linear else _foreign(tokens, one, width) for one in maps], -1)
    # A third-party map, such as an adapter, has a forward of its own.
    if any(type(one) is not nn.Linear for one in maps):
        parts = [linear(tokens, one) if type(one) is nn.Linear else _foreign(tokens, one, width) for one in maps]
        return join(parts, -1)
    if maps not in shared.packed:
        shared.packed[maps] = _pack(shared, maps)
    weight, bias, grads = shared.packed[maps]
    out: Tensor = _Linear.apply(tokens.to(weight.dtype), weight, bias, grads)  # type: ignore[no-untyped-call]
    return out


def _foreign(tokens: Tensor, module: nn.Module, width: int | None) -> Tensor:
    """The checked output of a third-party map."""
    expected = getattr(module, "out_features", None) if width is None else width
    return foreign_tensor(module, (*tokens.shape[:-1], expected), tokens)


def _pack(shared: Pass, maps: tuple[nn.Module, ...]) -> tuple[Tensor, Tensor | None, LinearGrads]:
    """Packed weights and biases, and the store of their deferred gradients."""
    grads = LinearGrads()
    weights, biases = ([getattr(one, name) for one in maps] for name in ("weight", "bias"))
    biased = biases[0] is not None
    if any((bias is not None) != biased for bias in biases):
        raise UsageError("fast.linear was given maps with and without a bias; give them in calls of their own")
    with torch.set_grad_enabled(shared.needs_grad):
        out = _Packed.apply(grads, shared.dtype, *weights, *(biases if biased else ()))  # type: ignore[no-untyped-call]
    return out[0], out[1] if biased else None, grads


class _Packed(Function):
    """Weights side by side in the dtype of the pass, whose gradient is computed after all their uses."""

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
        """Compute the gradients from what the uses stored: no gradient arrives here."""
        entries = ctx.grads.take()
        if not entries:
            return (None, None, *(None,) * (len(ctx.widths) * (1 + ctx.biased)))
        tokens, grad_out = (join(parts, 0) for parts in zip(*entries, strict=True))
        weights = torch.split(_product(grad_out.T, tokens, ctx.dtype), ctx.widths)
        biases = torch.split(grad_out.sum(dim=0, dtype=ctx.dtype), ctx.widths) if ctx.biased else ()
        return (None, None, *weights, *biases)


class _Linear(Function):
    """A linear map whose weight's gradient is deferred."""

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
    whole = join(tensors, 0).to(dtype)
    # Autograd requires a new tensor.
    return whole.detach() if whole is tensors[0] else whole


def join(parts: tuple[Tensor, ...] | list[Tensor], dim: int) -> Tensor:
    """Concatenated tensors; a single one as it is, without a copy."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)


def _product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix product in the dtype of the weights, whatever the dtype of the factors."""
    if left.is_cuda and left.dtype != dtype:
        return torch.mm(left, right, out_dtype=dtype)
    return left.to(dtype) @ right.to(dtype)


def _backward_pass() -> int:
    number: int = torch._C._current_graph_task_id()
    return number


def widest(mask: Tensor) -> int:
    """Number of leading columns of a mask [row, token] that hold all real tokens; all columns on a GPU.

    At least one token must be real. On a GPU, looking would mean waiting for it.
    """
    if current() is None or mask.device.type != "cpu":
        return mask.shape[1]
    return int(mask.any(dim=0).nonzero().max()) + 1


class Packing:
    """The positions of the real tokens in a block of rows; the first token of every row is real."""

    def __init__(self, mask: Tensor, padded: bool = False) -> None:
        """`mask` [row, token] is true where a token is real; `padded` keeps the block in any case."""
        self.mask = mask
        self.places: Tensor | None = None  # [real token] position of each in the block; None if unpacked
        if not padded and current() is not None and mask.device.type == "cpu" and not mask.all():
            self.places = mask.flatten().nonzero().squeeze(1)
            count = mask.sum(dim=1)
            self.firsts = count.cumsum(dim=0) - count

    def pack(self, block: Tensor) -> Tensor:
        """Drop the padding of a block, if this packs at all."""
        return block if self.places is None else _Pack.apply(block, self.places)  # type: ignore[no-untyped-call]

    def unpack(self, tokens: Tensor) -> Tensor:
        """Restore a block, in which padding is zero."""
        if self.places is None:
            return tokens
        return _Unpack.apply(tokens, self.places, self.mask.shape)  # type: ignore[no-untyped-call]

    def first(self, tokens: Tensor) -> Tensor:
        """The first token of each row, [row, width]."""
        return tokens[:, 0] if self.places is None else tokens.index_select(0, self.firsts)


class _Pack(Function):
    """A gather whose backward is a copy, since no position is taken twice; torch's own would add."""

    @staticmethod
    def forward(ctx: Any, block: Tensor, places: Tensor) -> Tensor:
        ctx.places, ctx.shape = places, block.shape[:2]
        return block.flatten(0, 1).index_select(0, places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, None]:
        return _unpacked(grad_out, ctx.places, ctx.shape), None


class _Unpack(Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, places: Tensor, shape: torch.Size) -> Tensor:
        ctx.places = places
        return _unpacked(tokens, places, shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, None, None]:
        return grad_out.flatten(0, 1).index_select(0, ctx.places), None, None


def _unpacked(tokens: Tensor, places: Tensor, shape: torch.Size) -> Tensor:
    block = tokens.new_zeros(shape.numel(), tokens.shape[-1])
    return block.index_copy_(0, places, tokens).view(*shape, -1)
