"""Attention in one kernel, made differentiable."""

from math import sqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from vlnbert.navigator.economy import Economy
from vlnbert.navigator.serving import REACH, Drops, block, chance_of, drops_of, seed_of

if TYPE_CHECKING:
    from vlnbert.navigator.attention import Source

MOST_TOKENS = 128  # of queries, and of either source: what one program holds


def fits(queries: Tensor, sources: "tuple[Source, ...]") -> bool:
    """Whether one program can hold all of a row, and reach it."""
    within = all(made.stride(0) * len(made) < REACH for made in (queries, *(source.made for source in sources)))
    return within and max(queries.shape[1], *(source.mask.shape[1] for source in sources)) <= MOST_TOKENS


def attend(
    economy: Economy, queries: Tensor, sources: "tuple[Source, ...]", heads: int, hidden: int, dropout: float
) -> Tensor:
    """[row, query, hidden] attention of the first numbers of `queries` over one source or two."""
    drops = drops_of(economy, queries, dropout)
    made, masks = [source.made for source in sources], [source.mask for source in sources]
    own = [one for one in made if one is not queries]  # autograd wants each tensor once
    places = [None if one is queries else number - (made[0] is queries) for number, one in enumerate(made)]
    found: Tensor = _Attend.apply(queries, masks, places, heads, hidden, drops, *own)  # type: ignore[no-untyped-call]
    return found


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        masks: list[Tensor],
        places: list[int | None],
        heads: int,
        hidden: int,
        drops: Drops | None,
        *own: Tensor,
    ) -> Tensor:
        from vlnbert.navigator.kernels import attend_forward

        sources = [queries if place is None else own[place] for place in places]
        masks = [mask.contiguous() for mask in masks]
        rows, count, _ = queries.shape
        found = queries.new_empty(rows, count, hidden)
        spread = torch.empty(rows, heads, count, dtype=torch.float32, device=queries.device)
        ctx.shape = _shape(heads, hidden, queries, masks)
        ctx.drops, ctx.places, ctx.hidden, ctx.heads = drops, places, hidden, heads
        ctx.save_for_backward(queries, spread, *masks, *own)
        first, second = _pointers(sources, masks, hidden)
        attend_forward[(rows * heads,)](
            queries, *first, *second, found, spread, *seed_of(drops, queries), *_counts(count, masks),
            1 / sqrt(hidden // heads), *chance_of(drops), *_strides(queries), *_strides(sources[0]),
            *_strides(sources[-1]), *_strides(found), **ctx.shape, DROPS=drops is not None,
        )  # fmt: skip
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor) -> tuple[Any, ...]:
        from vlnbert.navigator.kernels import attend_backward

        queries, spread, *rest = ctx.saved_tensors
        masks, own = rest[: len(ctx.places)], rest[len(ctx.places) :]
        sources = [queries if place is None else own[place] for place in ctx.places]
        grads = [torch.empty_like(one) if one.shape[-1] == 2 * ctx.hidden else torch.zeros_like(one) for one in own]
        whole = None in ctx.places or queries.shape[-1] == ctx.hidden
        queries_grad = torch.empty_like(queries) if whole else torch.zeros_like(queries)
        source_grads = [queries_grad if place is None else grads[place] for place in ctx.places]
        wanted = wanted.contiguous()
        first, second = _pointers(sources, masks, ctx.hidden)
        grads1, grads2 = (_halves(one, ctx.hidden) for one in (source_grads[0], source_grads[-1]))
        attend_backward[(len(queries) * ctx.heads,)](
            queries, *first, *second, wanted, spread, *seed_of(ctx.drops, queries), queries_grad, *grads1, *grads2,
            *_counts(queries.shape[1], masks), 1 / sqrt(ctx.hidden // ctx.heads), *chance_of(ctx.drops),
            *_strides(queries), *_strides(sources[0]), *_strides(sources[-1]), *_strides(wanted),
            *_strides(queries_grad), *_strides(source_grads[0]), *_strides(source_grads[-1]), **ctx.shape,
            DROPS=ctx.drops is not None,
        )  # fmt: skip
        return (queries_grad, None, None, None, None, None, *grads)


def _shape(heads: int, hidden: int, queries: Tensor, masks: list[Tensor]) -> dict[str, Any]:
    """What a kernel is compiled for: sizes rounded up to powers of two, as Triton wants its blocks."""
    depth = hidden // heads
    kept = [block(mask.shape[1]) for mask in masks]
    return {
        "HEADS": heads,
        "DEPTH": depth,
        "D": block(depth),
        "Q": block(queries.shape[1]),
        "T1": kept[0],
        "T2": kept[1] if len(kept) == 2 else 0,
        "PRECISION": "tf32" if queries.dtype == torch.bfloat16 else "ieee",
        "num_warps": 4,
    }


def _pointers(sources: list[Tensor], masks: list[Tensor], hidden: int) -> tuple[list[Tensor], list[Tensor]]:
    first, second = (
        [*_halves(source, hidden), mask] for source, mask in ((sources[0], masks[0]), (sources[-1], masks[-1]))
    )
    return first, second


def _halves(made: Tensor, hidden: int) -> tuple[Tensor, Tensor]:
    """Keys and values: the last numbers of each token."""
    return made[..., -2 * hidden : -hidden], made[..., -hidden:]


def _counts(queries: int, masks: list[Tensor]) -> tuple[int, int, int]:
    return queries, masks[0].shape[1], masks[-1].shape[1]


def _strides(tokens: Tensor) -> tuple[int, int]:
    return tokens.stride(0), tokens.stride(1)
