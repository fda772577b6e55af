"""LayerNorm in one kernel, alone or with dropout and residual, made differentiable."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from vlnbert.navigator.economy import Economy
from vlnbert.navigator.ledger import Ledger
from vlnbert.navigator.serving import Drops, block, chance_of, drops_of, seed_of

TILE = 4  # rows that a program holds at once
PROGRAMS = 1024  # most programs of the way back, each of which leaves a sum

Sums = Ledger[tuple[Tensor, Tensor]]  # of the gradients of scale and shift


def normalised(economy: Economy, norm: nn.LayerNorm, tokens: Tensor) -> Tensor:
    scale, shift, sums = _kept(economy, norm)
    made: Tensor = _Residual.apply(tokens, None, scale, shift, sums, norm.eps, None)  # type: ignore[no-untyped-call]
    return made


def residual(economy: Economy, norm: nn.LayerNorm, tokens: Tensor, change: Tensor, dropout: float) -> Tensor:
    scale, shift, sums = _kept(economy, norm)
    drops = drops_of(economy, tokens, dropout)
    made: Tensor = _Residual.apply(tokens, change, scale, shift, sums, norm.eps, drops)  # type: ignore[no-untyped-call]
    return made


def _kept(economy: Economy, norm: nn.LayerNorm) -> tuple[Tensor, Tensor, Sums]:
    if norm not in economy.kept:
        sums = Sums()
        with torch.set_grad_enabled(economy.learning):
            economy.kept[norm] = (*_KeptNorm.apply(sums, norm.weight, norm.bias), sums)  # type: ignore[no-untyped-call]
    kept: tuple[Tensor, Tensor, Sums] = economy.kept[norm]
    return kept


class _KeptNorm(Function):
    """Scale and shift, whose gradients are the sums that all uses have left."""

    @staticmethod
    def forward(ctx: Any, sums: Sums, scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        ctx.sums = sums
        ctx.set_materialize_grads(False)
        return scale.detach(), shift.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_nothing: None) -> tuple[Tensor | None, ...]:
        sums = ctx.sums.take()
        if not sums:
            return None, None, None
        scales, shifts = (torch.cat(parts).sum(dim=0) for parts in zip(*sums, strict=True))
        return None, scales, shifts


class _Residual(Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        change: Tensor | None,
        scale: Tensor,
        shift: Tensor,
        sums: Sums,
        eps: float,
        drops: Drops | None,
    ) -> Tensor:
        from vlnbert.navigator.kernels import residual_forward

        tokens = tokens.contiguous()
        alone, width = change is None, tokens.shape[-1]
        count = tokens.numel() // width
        made, summed = torch.empty_like(tokens), tokens if alone else torch.empty_like(tokens)
        mean, steep = torch.empty(2, count, dtype=torch.float32, device=tokens.device)
        residual_forward[(-(-count // TILE),)](
            tokens, tokens if change is None else change.contiguous(), scale, shift, summed, made, mean, steep,
            *seed_of(drops, tokens), count, eps, *chance_of(drops), **_block_of(width),
            ALONE=alone, DROPS=drops is not None,
        )  # fmt: skip
        ctx.save_for_backward(summed, mean, steep, scale)
        ctx.sums, ctx.drops, ctx.alone = sums, drops, alone
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor) -> tuple[Tensor | None, ...]:
        from vlnbert.navigator.kernels import residual_backward

        summed, mean, steep, scale = ctx.saved_tensors
        wanted, width, count = wanted.contiguous(), summed.shape[-1], len(mean)
        tokens_grad = torch.empty_like(summed)
        change_grad = torch.empty_like(summed) if ctx.drops is not None else tokens_grad
        tiles = 1 << (-(-count // (TILE * PROGRAMS)) - 1).bit_length()  # compiled for: few different numbers
        programs = -(-count // (TILE * tiles))
        scales, shifts = torch.empty(2, programs, width, dtype=torch.float32, device=summed.device)
        residual_backward[(programs,)](
            wanted, summed, mean, steep, scale, tokens_grad, change_grad, scales, shifts, *seed_of(ctx.drops, summed),
            count, *chance_of(ctx.drops), **_block_of(width), DROPS=ctx.drops is not None, TILES=tiles,
        )  # fmt: skip
        ctx.sums.add((scales, shifts))
        return tokens_grad, None if ctx.alone else change_grad, None, None, None, None, None


def _block_of(width: int) -> dict[str, int]:
    return {"WIDTH": width, "W": block(width), "ROWS": TILE, "num_warps": 4}
