"""The kernels of `kernels.py` as differentiable functions, and when they can serve."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from math import sqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from vlnbert.navigator.economy import Economy, current

if TYPE_CHECKING:
    from vlnbert.navigator.attention import Source

MOST_TOKENS = 128  # of queries, and of either source: what one program holds
TILE = 4  # rows that a program of the residual holds at once
PROGRAMS = 1024  # most programs of the way back of a residual, each of which leaves a sum

Norm = tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]  # scale, shift, and the sums of their gradients


_left_alone: ContextVar[bool] = ContextVar("left_alone", default=False)


@contextmanager
def left_alone() -> Iterator[None]:
    """Within the block torch's own kernels serve: to compare with them, or to let torch count what they do."""
    token = _left_alone.set(True)
    try:
        yield
    finally:
        _left_alone.reset(token)


def on(tokens: Tensor) -> Economy | None:
    """The economy that is on, where its kernels can serve these tokens."""
    if current() is None or _left_alone.get() or tokens.dtype not in (torch.float32, torch.bfloat16):
        return None
    return current() if (tokens.is_cuda or _interpreted()) and _serve(tokens.device) else None


def fits(queries: Tensor, sources: "tuple[Source, ...]") -> bool:
    """Whether one program can hold all of a row."""
    return max(queries.shape[1], *(source.mask.shape[1] for source in sources)) <= MOST_TOKENS


@cache
def _serve(device: torch.device) -> bool:
    """Whether Triton is there and can compile for a device, which takes a C compiler and a GPU that is not too old."""
    if find_spec("triton") is None:
        return False
    try:
        _try_out(device)
    except Exception as error:  # whatever is wrong, torch's own kernels do the same
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        remedy = "torch's own serve, more slowly; a C compiler is what is most often missing"
        warnings.warn(f"Triton cannot compile the navigator's kernels here ({reason}); {remedy}", stacklevel=2)
        return False
    return True


def _try_out(device: torch.device) -> None:
    """Compile and run the smallest of the kernels."""
    norm = nn.LayerNorm(16, device=device)
    with torch.no_grad():
        normalised(Economy(None, learning=False), norm, torch.zeros(1, 16, device=device))


@cache
def _interpreted() -> bool:
    """Triton can run its kernels in Python, on the CPU: slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def attend(
    economy: Economy, queries: Tensor, sources: "tuple[Source, ...]", heads: int, hidden: int, dropout: float
) -> Tensor:
    """[row, query, hidden] attention of the first numbers of `queries` over one source or two."""
    drops = (*economy.seed(queries.device), dropout) if dropout else None
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
        drops: tuple[Tensor, int, float] | None,
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
            queries, *first, *second, found, spread, *_seed(drops, queries), *_counts(count, masks),
            1 / sqrt(hidden // heads), *_chance(drops), *_strides(queries), *_strides(sources[0]),
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
            queries, *first, *second, wanted, spread, *_seed(ctx.drops, queries), queries_grad, *grads1, *grads2,
            *_counts(queries.shape[1], masks), 1 / sqrt(ctx.hidden // ctx.heads), *_chance(ctx.drops),
            *_strides(queries), *_strides(sources[0]), *_strides(sources[-1]), *_strides(wanted),
            *_strides(queries_grad), *_strides(source_grads[0]), *_strides(source_grads[-1]), **ctx.shape,
            DROPS=ctx.drops is not None,
        )  # fmt: skip
        return (queries_grad, None, None, None, None, None, *grads)


def _shape(heads: int, hidden: int, queries: Tensor, masks: list[Tensor]) -> dict[str, Any]:
    """What a kernel is compiled for: sizes rounded up to powers of two, as Triton wants its blocks."""
    depth = hidden // heads
    kept = [_block(mask.shape[1]) for mask in masks]
    return {
        "HEADS": heads,
        "DEPTH": depth,
        "D": _block(depth),
        "Q": _block(queries.shape[1]),
        "T1": kept[0],
        "T2": kept[1] if len(kept) == 2 else 0,
        "PRECISION": "tf32" if queries.dtype == torch.bfloat16 else "ieee",
        "num_warps": 4,
    }


def _block(count: int) -> int:
    return max(16, 1 << (count - 1).bit_length())


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


def _seed(drops: tuple[Tensor, int, float] | None, like: Tensor) -> tuple[Tensor, int]:
    return (like, 0) if drops is None else drops[:2]


def _chance(drops: tuple[Tensor, int, float] | None) -> tuple[int, float]:
    """Of 2^31 hashes, how many are dropped; and what the others rise by."""
    return (0, 1.0) if drops is None else (round(drops[2] * 2**31), 1 / (1 - drops[2]))


def normalised(economy: Economy, norm: nn.LayerNorm, tokens: Tensor) -> Tensor:
    scale, shift, sums = _kept(economy, norm)
    made: Tensor = _Residual.apply(tokens, None, scale, shift, sums, norm.eps, None)  # type: ignore[no-untyped-call]
    return made


def residual(economy: Economy, norm: nn.LayerNorm, tokens: Tensor, change: Tensor, dropout: float) -> Tensor:
    scale, shift, sums = _kept(economy, norm)
    drops = (*economy.seed(tokens.device), dropout) if dropout else None
    made: Tensor = _Residual.apply(tokens, change, scale, shift, sums, norm.eps, drops)  # type: ignore[no-untyped-call]
    return made


def _kept(economy: Economy, norm: nn.LayerNorm) -> Norm:
    if norm not in economy.kept:
        sums: list[tuple[Tensor, Tensor]] = []
        with torch.set_grad_enabled(economy.learning):
            economy.kept[norm] = (*_KeptNorm.apply(sums, norm.weight, norm.bias), sums)  # type: ignore[no-untyped-call]
    kept: Norm = economy.kept[norm]
    return kept


class _KeptNorm(Function):
    """Scale and shift, whose gradients are the sums that all uses have left."""

    @staticmethod
    def forward(ctx: Any, sums: list[tuple[Tensor, Tensor]], scale: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        ctx.sums = sums
        ctx.set_materialize_grads(False)
        return scale.detach(), shift.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_nothing: None) -> tuple[Tensor | None, ...]:
        if not ctx.sums:
            return None, None, None
        scales, shifts = (torch.cat(parts).sum(dim=0) for parts in zip(*ctx.sums, strict=True))
        ctx.sums.clear()
        return None, scales, shifts


class _Residual(Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        change: Tensor | None,
        scale: Tensor,
        shift: Tensor,
        sums: list[tuple[Tensor, Tensor]],
        eps: float,
        drops: tuple[Tensor, int, float] | None,
    ) -> Tensor:
        from vlnbert.navigator.kernels import residual_forward

        tokens = tokens.contiguous()
        alone, width = change is None, tokens.shape[-1]
        count = tokens.numel() // width
        made, summed = torch.empty_like(tokens), tokens if alone else torch.empty_like(tokens)
        mean, steep = torch.empty(2, count, dtype=torch.float32, device=tokens.device)
        residual_forward[(-(-count // TILE),)](
            tokens, tokens if change is None else change.contiguous(), scale, shift, summed, made, mean, steep,
            *_seed(drops, tokens), count, eps, *_chance(drops), **_block_of(width),
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
            wanted, summed, mean, steep, scale, tokens_grad, change_grad, scales, shifts, *_seed(ctx.drops, summed),
            count, *_chance(ctx.drops), **_block_of(width), DROPS=ctx.drops is not None, TILES=tiles,
        )  # fmt: skip
        ctx.sums.append((scales, shifts))
        return tokens_grad, None if ctx.alone else change_grad, None, None, None, None, None


def _block_of(width: int) -> dict[str, int]:
    return {"WIDTH": width, "W": _block(width), "ROWS": TILE, "num_warps": 4}
