"""LayerNorm, alone and at the end of a residual branch: torch's own, or one Triton kernel with dropout and residual."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vlnbert.navigator.fast.context import (
    Dropout,
    Pass,
    block_size,
    seed_arguments,
    threshold_arguments,
    triton_pass,
)
from vlnbert.navigator.fast.foreign import checked
from vlnbert.navigator.fast.linear import DeferredGrads

BLOCK_ROWS = 4  # rows that a program holds at once
PROGRAMS = 1024  # most programs of the backward kernel, each of which leaves a sum

NormGrads = DeferredGrads[tuple[Tensor, Tensor]]  # [program, width] parts of the gradients of weight and bias


def layer_norm(norm: nn.LayerNorm, tokens: Tensor) -> Tensor:
    """LayerNorm of tokens in their own dtype, computed in that of the weights."""
    if not _is_plain(norm):
        return checked(norm, tokens.shape, tokens)
    if (shared := triton_pass(tokens)) is not None:
        return triton_norm(shared, norm, tokens, None, 0.0)
    precise = tokens.to(norm.weight.dtype)
    return functional.layer_norm(precise, norm.normalized_shape, norm.weight, norm.bias, norm.eps).to(tokens.dtype)


def residual_norm(norm: nn.LayerNorm, tokens: Tensor, branch: Tensor, dropout: nn.Module) -> Tensor:
    """LayerNorm(tokens + dropout(branch)), the end of BERT's sub-layers."""
    if (shared := triton_pass(tokens)) is not None and type(dropout) is nn.Dropout and _is_plain(norm):
        return triton_norm(shared, norm, tokens, branch, dropout.p if dropout.training else 0.0)
    return layer_norm(norm, tokens + dropout(branch))


def _is_plain(norm: nn.Module) -> bool:
    """Whether this is torch's LayerNorm with weight and bias; any other norm keeps its own forward."""
    return type(norm) is nn.LayerNorm and norm.bias is not None


def triton_norm(shared: Pass, norm: nn.LayerNorm, tokens: Tensor, branch: Tensor | None, dropout: float) -> Tensor:
    """LayerNorm of tokens, or of their sum with a branch, in one kernel."""
    if norm not in shared.packed:
        grads = NormGrads()
        with torch.set_grad_enabled(shared.needs_grad):
            shared.packed[norm] = (*_Packed.apply(grads, norm.weight, norm.bias), grads)  # type: ignore[no-untyped-call]
    weight, bias, grads = shared.packed[norm]
    seed = shared.dropout(tokens, dropout)
    out: Tensor = _ResidualNorm.apply(tokens, branch, weight, bias, grads, norm.eps, seed)  # type: ignore[no-untyped-call]
    return out


class _Packed(Function):
    """Weight and bias, whose gradients are the sums that all uses have left."""

    @staticmethod
    def forward(ctx: Any, grads: NormGrads, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        ctx.grads = grads
        ctx.set_materialize_grads(False)
        return weight.detach(), bias.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_none: None) -> tuple[Tensor | None, ...]:
        entries = ctx.grads.take()
        if not entries:
            return None, None, None
        weight_grad, bias_grad = (torch.cat(parts).sum(dim=0) for parts in zip(*entries, strict=True))
        return None, weight_grad, bias_grad


class _ResidualNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        branch: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        grads: NormGrads,
        eps: float,
        dropout: Dropout | None,
    ) -> Tensor:
        from vlnbert.navigator.fast.kernels import residual_norm_forward

        tokens = tokens.contiguous()
        residual, width = branch is not None, tokens.shape[-1]
        count = tokens.numel() // width
        out, summed = torch.empty_like(tokens), torch.empty_like(tokens) if residual else tokens
        mean, rstd = torch.empty(2, count, dtype=torch.float32, device=tokens.device)
        residual_norm_forward[(-(-count // BLOCK_ROWS),)](
            tokens, tokens if branch is None else branch.contiguous(), weight, bias, summed, out, mean, rstd,
            *seed_arguments(dropout, tokens), count, eps, *threshold_arguments(dropout), **_blocks(width),
            RESIDUAL=residual, DROPOUT=dropout is not None,
        )  # fmt: skip
        ctx.save_for_backward(summed, mean, rstd, weight)
        ctx.grads, ctx.dropout, ctx.residual = grads, dropout, residual
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        from vlnbert.navigator.fast.kernels import residual_norm_backward

        summed, mean, rstd, weight = ctx.saved_tensors
        grad_out, width, count = grad_out.contiguous(), summed.shape[-1], len(mean)
        tokens_grad = torch.empty_like(summed)
        branch_grad = torch.empty_like(summed) if ctx.dropout is not None else tokens_grad
        tiles = 1 << (-(-count // (BLOCK_ROWS * PROGRAMS)) - 1).bit_length()  # compiled for: few different numbers
        programs = -(-count // (BLOCK_ROWS * tiles))
        weight_grad, bias_grad = torch.empty(2, programs, width, dtype=torch.float32, device=summed.device)
        residual_norm_backward[(programs,)](
            grad_out, summed, mean, rstd, weight, tokens_grad, branch_grad, weight_grad, bias_grad,
            *seed_arguments(ctx.dropout, summed), count, *threshold_arguments(ctx.dropout), **_blocks(width),
            DROPOUT=ctx.dropout is not None, TILES=tiles,
        )  # fmt: skip
        ctx.grads.add((weight_grad, bias_grad))
        return tokens_grad, branch_grad if ctx.residual else None, None, None, None, None, None


def _blocks(width: int) -> dict[str, int]:
    return {"WIDTH": width, "BLOCK_W": block_size(width), "BLOCK_ROWS": BLOCK_ROWS, "num_warps": 4}
