"""Attention of queries over one or two key-value sources: torch's own, or one Triton kernel."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from vlnbert.navigator.fast.context import (
    MOST_NUMBERS,
    Dropout,
    block_size,
    seed_arguments,
    threshold_arguments,
    triton_pass,
)

# What one program holds: tokens of a source, and scores of all queries over one.
MOST_TOKENS, MOST_SCORES = 256, 128 * 128


@dataclass(frozen=True)
class KeyValues:
    """Tokens that can be attended to: their keys and values, and which of them are real."""

    kv: Tensor  # [row, token, 2 or 3 x hidden] keys and values side by side, behind queries where those are there too
    mask: Tensor  # [row, token] bool


def attention(q: Tensor, *sources: KeyValues, heads: int, hidden: int, dropout: float) -> Tensor:
    """[row, query, hidden] softmax(Q K^T / sqrt(head width)) V over one source or two together.

    Queries are the first `hidden` numbers of `q`, which may be the very tensor that a source holds.
    """
    if (shared := triton_pass(q)) is not None and _fits(q, sources):
        kvs, masks = [source.kv for source in sources], [source.mask for source in sources]
        others = [kv for kv in kvs if kv is not q]  # autograd wants each tensor once
        places = [None if kv is q else number - (kvs[0] is q) for number, kv in enumerate(kvs)]
        seed = shared.dropout(q, dropout)
        out: Tensor = _Attention.apply(q, masks, places, heads, hidden, seed, *others)  # type: ignore[no-untyped-call]
        return out
    keys, values, mask = join_sources(sources, heads, hidden)
    queries = split_heads(q[..., :hidden], heads)
    out = scaled_dot_product_attention(queries, keys, values, mask[:, None, None], dropout)
    return out.transpose(1, 2).flatten(2)


def split_heads(tokens: Tensor, heads: int) -> Tensor:
    """[row, token, hidden] -> [row, head, token, head width]."""
    return tokens.view(*tokens.shape[:-1], heads, -1).transpose(1, 2)


def join_sources(sources: tuple[KeyValues, ...], heads: int, hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values [row, head, token, head width] of sources one behind the other, and their mask [row, token]."""
    pairs = [source.kv[..., -2 * hidden :].chunk(2, dim=-1) for source in sources]
    keys, values = (_cat([split_heads(part, heads) for part in parts], dim=2) for parts in zip(*pairs, strict=True))
    return keys, values, _cat([source.mask for source in sources], dim=1)


def _cat(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)


def _fits(q: Tensor, sources: tuple[KeyValues, ...]) -> bool:
    """Whether one program can hold all of a row, and reach it."""
    within = all(one.stride(0) * len(one) < MOST_NUMBERS for one in (q, *(source.kv for source in sources)))
    most = max(source.mask.shape[1] for source in sources)
    return within and most <= MOST_TOKENS and block_size(q.shape[1]) * block_size(most) <= MOST_SCORES


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
        from vlnbert.navigator.fast.kernels import attention_forward

        kvs = [q if place is None else others[place] for place in places]
        masks = [mask.contiguous() for mask in masks]
        rows, count, _ = q.shape
        out = q.new_empty(rows, count, hidden)
        logsumexp = torch.empty(rows, heads, count, dtype=torch.float32, device=q.device)
        ctx.blocks = _blocks(heads, hidden, q, masks)
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
        from vlnbert.navigator.fast.kernels import attention_backward

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


def _blocks(heads: int, hidden: int, q: Tensor, masks: list[Tensor]) -> dict[str, Any]:
    """What a kernel is compiled for: sizes rounded up to powers of two, as Triton wants its blocks."""
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
    """The last numbers of each token."""
    return kv[..., -2 * hidden : -hidden], kv[..., -hidden:]


def _counts(queries: int, masks: list[Tensor]) -> tuple[int, int, int]:
    return queries, masks[0].shape[1], masks[-1].shape[1]


def _strides(tokens: Tensor) -> tuple[int, int]:
    return tokens.stride(0), tokens.stride(1)
