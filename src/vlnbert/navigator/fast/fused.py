"""Attention, LayerNorm and residual branches: torch's own operators, or a single Triton kernel for each."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vlnbert.navigator.fast.linear import DeferredGrads, join
from vlnbert.navigator.fast.passes import Dropout, Pass, current, foreign_tensor

MOST_NUMBERS = 2**31  # in one tensor, for a kernel's 32-bit offsets
MOST_TOKENS, MOST_SCORES = 256, 128 * 128  # in one program: tokens of a source, and scores of all queries over one
BLOCK_ROWS = 4  # rows that a program of the residual norm holds at once
PROGRAMS = 1024  # most programs of its backward kernel, each of which leaves a sum

NormGrads = DeferredGrads[tuple[Tensor, Tensor]]  # [program, width] parts of the gradients of weight and bias

_torch_kernels: ContextVar[bool] = ContextVar("torch_kernels", default=False)


@contextmanager
def torch_kernels() -> Iterator[None]:
    """Use torch's own kernels inside the block: to compare with them, or to let torch count operations."""
    token = _torch_kernels.set(True)
    try:
        yield
    finally:
        _torch_kernels.reset(token)


@dataclass(frozen=True)
class KeyValues:
    """Tokens that can be attended to: keys and values, and a mask of the real tokens."""

    kv: Tensor  # [row, token, 2 or 3 x hidden] keys and values side by side, after queries if it has them too
    mask: Tensor  # [row, token] bool


def attention(q: Tensor, *sources: KeyValues, heads: int, hidden: int, dropout: float) -> Tensor:
    """[row, query, hidden] softmax(Q K^T / sqrt(head width)) V over one source or two together.

    Queries are the first `hidden` numbers of `q`, which may be the same tensor as a source's.
    """
    if (shared := triton_pass(q)) is not None and _fits(q, sources):
        kvs, masks = [source.kv for source in sources], [source.mask for source in sources]
        # Autograd wants each tensor once.
        others = [kv for kv in kvs if kv is not q]
        places = [None if kv is q else number - (kvs[0] is q) for number, kv in enumerate(kvs)]
        seed = shared.dropout(q, dropout)
        out: Tensor = _Attention.apply(q, masks, places, heads, hidden, seed, *others)  # type: ignore[no-untyped-call]
        return out
    keys, values, mask = join_sources(sources, heads, hidden)
    queries = split_heads(q[..., :hidden], heads)
    out = functional.scaled_dot_product_attention(queries, keys, values, mask[:, None, None], dropout)
    return out.transpose(1, 2).flatten(2)


def split_heads(tokens: Tensor, heads: int) -> Tensor:
    """[row, token, hidden] -> [row, head, token, head width]."""
    return tokens.view(*tokens.shape[:-1], heads, -1).transpose(1, 2)


def join_sources(sources: tuple[KeyValues, ...], heads: int, hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """Concatenated keys and values [row, head, token, head width] of sources, and their mask [row, token]."""
    pairs = [source.kv[..., -2 * hidden :].chunk(2, dim=-1) for source in sources]
    keys, values = (join([split_heads(part, heads) for part in parts], 2) for parts in zip(*pairs, strict=True))
    return keys, values, join([source.mask for source in sources], 1)


def _fits(q: Tensor, sources: tuple[KeyValues, ...]) -> bool:
    """Whether one program can hold a whole row, and address it."""
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


def layer_norm(norm: nn.LayerNorm, tokens: Tensor) -> Tensor:
    """LayerNorm of tokens in their own dtype, computed in that of the weights."""
    if not _is_plain(norm):
        return foreign_tensor(norm, tokens.shape, tokens)
    if (shared := triton_pass(tokens)) is not None:
        return triton_norm(shared, norm, tokens, None, 0.0)
    precise = tokens.to(norm.weight.dtype)
    return functional.layer_norm(precise, norm.normalized_shape, norm.weight, norm.bias, norm.eps).to(tokens.dtype)


def residual_norm(norm: nn.LayerNorm, tokens: Tensor, branch: Tensor, dropout: nn.Module) -> Tensor:
    """LayerNorm(tokens + dropout(branch)), the last operation of BERT's sub-layers."""
    if (shared := triton_pass(tokens)) is not None and type(dropout) is nn.Dropout and _is_plain(norm):
        return triton_norm(shared, norm, tokens, branch, dropout.p if dropout.training else 0.0)
    return layer_norm(norm, tokens + dropout(branch))


def _is_plain(norm: nn.Module) -> bool:
    """Whether this is torch's LayerNorm with weight and bias; any other norm runs its own forward."""
    return type(norm) is nn.LayerNorm and norm.bias is not None


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
        from vlnbert.navigator.fast.kernels import residual_norm_forward

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
        from vlnbert.navigator.fast.kernels import residual_norm_backward

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


def triton_pass(tokens: Tensor) -> Pass | None:
    """The active pass, if the Triton kernels can handle these tokens."""
    shared = current()
    if shared is None or _torch_kernels.get() or tokens.dtype not in (torch.float32, torch.bfloat16):
        return None
    small = tokens.numel() < MOST_NUMBERS
    return shared if small and (tokens.is_cuda or _interpreted()) and _compiles(tokens.device) else None


@cache
def _compiles(device: torch.device) -> bool:
    """Whether Triton is installed and can compile for a device, which needs a C compiler and a recent GPU."""
    if find_spec("triton") is None:
        return False
    try:
        _try_out(device)
    # Whatever is wrong, torch's own kernels do the same.
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        remedy = "torch's own serve, more slowly; a C compiler is what is most often missing"
        warnings.warn(f"Triton cannot compile the navigator's kernels here ({reason}); {remedy}", stacklevel=2)
        return False
    return True


def _try_out(device: torch.device) -> None:
    """Compile and run the smallest of the kernels."""
    norm = nn.LayerNorm(16, device=device)
    with torch.no_grad():
        triton_norm(Pass(None, needs_grad=False), norm, torch.zeros(1, 16, device=device), None, 0.0)


@cache
def _interpreted() -> bool:
    """Whether Triton runs its kernels in Python, on the CPU: slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def block_size(count: int) -> int:
    """The size of a Triton block for a count: the next power of two."""
    return max(16, 1 << (count - 1).bit_length())


def seed_arguments(dropout: Dropout | None, like: Tensor) -> tuple[Tensor, int]:
    """A kernel's table of seeds and an index into it; placeholders without dropout."""
    return (like, 0) if dropout is None else dropout[:2]


def threshold_arguments(dropout: Dropout | None) -> tuple[int, float]:
    """A kernel's `threshold`, the number of 2^31 hashes to drop, and `keep_scale`, the factor of the others."""
    return (0, 1.0) if dropout is None else (round(dropout[2] * 2**31), 1 / (1 - dropout[2]))
