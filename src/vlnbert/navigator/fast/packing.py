"""Rows of unlike length without their padding.

Padded, tokens are a block [row, token, width], and whatever is done to every token is done to the padding too. Of the
views that a step shows, more than half are padding. Inside of `fast.enabled` on the CPU real tokens therefore lie side
by side, [real token, width], and are padded for attention alone. On a GPU to count real tokens would be to wait for it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from vlnbert.navigator.fast.context import current


def widest(mask: Tensor) -> int:
    """How many of the columns of a mask [row, token] have to be computed: all, where to look would be to wait.

    Some token is real.
    """
    if current() is None or mask.device.type != "cpu":
        return mask.shape[1]
    return int(mask.any(dim=0).nonzero().max()) + 1


class Packing:
    """Where some rows' real tokens lie; every row has its first one."""

    def __init__(self, mask: Tensor, padded: bool = False) -> None:
        """`mask` [row, token] is true where a token is real; `padded` asks for a block in any case."""
        self.mask = mask
        self.places: Tensor | None = None  # [real token] where each lies in the block; None for a block as it is
        if not padded and current() is not None and mask.device.type == "cpu" and not mask.all():
            self.places = mask.flatten().nonzero().squeeze(1)
            count = mask.sum(dim=1)
            self.firsts = count.cumsum(dim=0) - count

    def pack(self, block: Tensor) -> Tensor:
        """From a block to tokens as they lie."""
        return block if self.places is None else _Pack.apply(block, self.places)  # type: ignore[no-untyped-call]

    def unpack(self, tokens: Tensor) -> Tensor:
        """From tokens as they lie to a block, in which padding is zero."""
        if self.places is None:
            return tokens
        return _Unpack.apply(tokens, self.places, self.mask.shape)  # type: ignore[no-untyped-call]

    def first(self, tokens: Tensor) -> Tensor:
        """[row, width] the first token of each row."""
        return tokens[:, 0] if self.places is None else tokens.index_select(0, self.firsts)


class _Pack(Function):
    """A gather whose backward is a copy, since no place is taken twice; torch's own would add."""

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
