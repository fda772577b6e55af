"""Autograd functions over the Triton kernels: attention, and dropout, residual and LayerNorm together."""

from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from vlnbert.navigator.fast import DeferredGrads, Dropout, KeyValues, Pass, block_size
from vlnbert.navigator.fast.kernels import (
    attention_backward,
    attention_forward,
    residual_norm_backward,
    residual_norm_forward,
)

# Rows that a program of the residual norm holds at once.
BLOCK_ROWS = 4
# Most programs of its backward kernel, each of which leaves a sum.
PROGRAMS = 1024

# [program, width] parts of the gradients of weight and bias.
NormGrads = DeferredGrads[tuple[Tensor, Tensor]]


def fused_attention(
    q: Tensor, sources: tuple[KeyValues, ...], heads: int, hidden: int, dropout: Dropout | None
) -> Tensor:
    """`fast.attention` in one kernel."""
    kvs, masks = [source.kv for source in sources], [source.mask for source in sources]
    # Autograd wants each tensor once.
    others = [kv for kv in kvs if kv is not q]
    places = [None if kv is q else number - (kvs[0] is q) for number, kv in enumerate(kvs)]
    out: Tensor = _Attention.apply(q, masks, places, heads, hidden, dropout, *others)  # type: ignore[no-untyped-call]
    return out


class _Attention(Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        masks: list[Tensor],
        places: list[int | None],  # of each source: its number among `others`, or None where it is `q` itself
        heads: int,
        hidden: int,
        dropout: Dropout | None,
        *others: Tensor,
    ) -> Tensor:
        kvs = [q if place is None else others[place] for place in places]
        masks = [mask.contiguous() for mask in masks]
        rows, count, _ = q.shape
        out = q.new_empty(rows, count, hidden)
        logsumexp = torch.empty(rows, heads, count, dtype=torch.float32, device=q.device)
        ctx.blocks = _attention_blocks(heads, hidden, q, masks)
        ctx.dropout, ctx.places, ctx.hidden, ctx.heads = dropout, places, hidden, heads
        ctx.save_for_backward(q, logsumexp, *masks, *others)
        first, second = _pointers(kvs, masks, hidden)
        attention_forward[(rows * heads,)](
            q, *first, *second, out, logsumexp, *seed_arguments(dropout, q), *_counts(count, masks),
            1 / sqrt(hidden // heads), *threshold_arguments(dropout), *_strides(q), *_strides(kvs[0]),
            *_strides(kvs[-1]), *_strides(out), **ctx.blocks, DROPOUT=dropout is not None,
        )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Any, ...]:
        q, logsumexp, *rest = ctx.saved_tensors
        masks, others = rest[: len(ctx.places)], rest[len(ctx.places) :]
        kvs = [q if place is None else others[place] for place in ctx.places]
        grads = [torch.empty_like(kv) if kv.shape[-1] == 2 * ctx.hidden else torch.zeros_like(kv) for kv in others]
        filled = None in ctx.places or q.shape[-1] == ctx.hidden
        q_grad = torch.empty_like(q) if filled else torch.zeros_like(q)
        kv_grads = [q_grad if place is None else grads[place] for place in ctx.places]
        grad_out = grad_out.contiguous()
        first, second = _pointers(kvs, masks, ctx.hidden)
        grads1, grads2 = (_keys_and_values(one, ctx.hidden) for one in (kv_grads[0], kv_grads[-1]))
        attention_backward[(len(q) * ctx.heads,)](
            q, *first, *second, grad_out, logsumexp, *seed_arguments(ctx.dropout, q), q_grad, *grads1, *grads2,
            *_counts(q.shape[1], masks), 1 / sqrt(ctx.hidden // ctx.heads), *threshold_arguments(ctx.dropout),
            *_strides(q), *_strides(kvs[0]), *_strides(kvs[-1]), *_strides(grad_out),
            *_strides(q_grad), *_strides(kv_grads[0]), *_strides(kv_grads[-1]), **ctx.blocks,
            DROPOUT=ctx.dropout is not None,
        )  # fmt: skip
        return (q_grad, None, None, None, None, None, *grads)


def _attention_blocks(heads: int, hidden: int, q: Tensor, masks: list[Tensor]) -> dict[str, Any]:
    """The sizes that a kernel is compiled for, rounded up to powers of two, as Triton requires."""
    head_dim = hidden // heads
    tokens = [block_size(mask.shape[1]) for mask in masks]
    return {
        "HEADS": heads,
        "HEAD_DIM": head_dim,
        "BLOCK_D": block_size(head_dim),
        "BLOCK_Q": block_size(q.shape[1]),
        "BLOCK_T1": tokens[0],
        "BLOCK_T2": tokens[1] if len(tokens) == 2 else 0,
        "PRECISION": "tf32" if q.dtype == torch.bfloat16 else "ieee",
        "num_warps": 4,
    }


def _pointers(kvs: list[Tensor], masks: list[Tensor], hidden: int) -> tuple[list[Tensor], list[Tensor]]:
    first, second = ([*_keys_and_values(kv, hidden), mask] for kv, mask in ((kvs[0], masks[0]), (kvs[-1], masks[-1])))
    return first, second


def _keys_and_values(kv: Tensor, hidden: int) -> tuple[Tensor, Tensor]:
    """Views of the keys and of the values, the last numbers of each token."""
    return kv[..., -2 * hidden : -hidden], kv[..., -hidden:]


def _counts(queries: int, masks: list[Tensor]) -> tuple[int, int, int]:
    return queries, masks[0].shape[1], masks[-1].shape[1]


def _strides(tokens: Tensor) -> tuple[int, int]:
    return tokens.stride(0), tokens.stride(1)


def triton_norm(shared: Pass, norm: nn.LayerNorm, tokens: Tensor, branch: Tensor | None, dropout: float) -> Tensor:
    """LayerNorm of tokens, or of their sum with a branch, in one kernel."""
    if norm not in shared.packed:
        grads = NormGrads()
        with torch.set_grad_enabled(shared.needs_grad):
            shared.packed[norm] = (*_NormWeights.apply(grads, norm.weight, norm.bias), grads)  # type: ignore[no-untyped-call]
    weight, bias, grads = shared.packed[norm]
    seed = shared.dropout(tokens, dropout)
    out: Tensor = _ResidualNorm.apply(tokens, branch, weight, bias, grads, norm.eps, seed)  # type: ignore[no-untyped-call]
    return out


class _NormWeights(Function):
    """Weight and bias, whose gradients are summed over all their uses."""

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
        tokens = tokens.contiguous()
        residual, width = branch is not None, tokens.shape[-1]
        count = tokens.numel() // width
        out, summed = torch.empty_like(tokens), torch.empty_like(tokens) if residual else tokens
        mean, rstd = torch.empty(2, count, dtype=torch.float32, device=tokens.device)
        residual_norm_forward[(-(-count // BLOCK_ROWS),)](
            tokens, tokens if branch is None else branch.contiguous(), weight, bias, summed, out, mean, rstd,
            *seed_arguments(dropout, tokens), count, eps, *threshold_arguments(dropout), **_norm_blocks(width),
            RESIDUAL=residual, DROPOUT=dropout is not None,
        )  # fmt: skip
        ctx.save_for_backward(summed, mean, rstd, weight)
        ctx.grads, ctx.dropout, ctx.residual = grads, dropout, residual
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        summed, mean, rstd, weight = ctx.saved_tensors
        grad_out, width, count = grad_out.contiguous(), summed.shape[-1], len(mean)
        tokens_grad = torch.empty_like(summed)
        branch_grad = torch.empty_like(summed) if ctx.dropout is not None else tokens_grad
        tiles = 1 << (-(-count // (BLOCK_ROWS * PROGRAMS)) - 1).bit_length()  # a power of two: few compiled variants
        programs = -(-count // (BLOCK_ROWS * tiles))
        weight_grad, bias_grad = torch.empty(2, programs, width, dtype=torch.float32, device=summed.device)
        residual_norm_backward[(programs,)](
            grad_out, summed, mean, rstd, weight, tokens_grad, branch_grad, weight_grad, bias_grad,
            *seed_arguments(ctx.dropout, summed), count, *threshold_arguments(ctx.dropout), **_norm_blocks(width),
            DROPOUT=ctx.dropout is not None, TILES=tiles,
        )  # fmt: skip
        ctx.grads.add((weight_grad, bias_grad))
        return tokens_grad, branch_grad if ctx.residual else None, None, None, None, None, None


def _norm_blocks(width: int) -> dict[str, int]:
    return {"WIDTH": width, "BLOCK_W": block_size(width), "BLOCK_ROWS": BLOCK_ROWS, "num_warps": 4}


def seed_arguments(dropout: Dropout | None, like: Tensor) -> tuple[Tensor, int]:
    """A kernel's table of seeds and an index into it; placeholders without dropout."""
    return (like, 0) if dropout is None else dropout[:2]


def threshold_arguments(dropout: Dropout | None) -> tuple[int, float]:
    """A kernel's `threshold`, the number of 2^31 hashes to drop, and `keep_scale`, the factor of the others."""
    return (0, 1.0) if dropout is None else (round(dropout[2] * 2**31), 1 / (1 - dropout[2]))
