"""The fast path: a mode in which the steps of an episode share their work.

Outside of `with fast.enabled(dtype):` the functions below are plain torch, and the navigator is the textbook's network.
Inside of it

- linear maps of the same input are one product, and weights are cast to `dtype` once a pass (`fast.linear`);
- the gradient of a weight is one product over all steps, not one a step and their sum (`fast.linear`);
- on the CPU no padding is computed (`fast.Packing`, `fast.widest`);
- on a GPU with Triton attention is one kernel (`fast.attention`), and so are dropout, residual and LayerNorm together
  (`fast.layer_norm`, `fast.residual_norm`).

The results are the same but for rounding, and for which numbers dropout drops.

The contract, for modules that are called inside the block:

1. Inputs. Tokens have the pass's dtype, such as bfloat16, while weights keep theirs, usually float32. If `dtype` is
   None nothing is cast: tokens have the dtype of our modules' weights. Masks are bool.
2. Outputs. Floating results have the dtype of the tokens, as many rows as the input, and the width listed below.
3. A module that computes with the functions of `fast` needs nothing else: its weights are cast and packed once, and
   get one deferred gradient, of their own dtype. `fast.linear` takes `nn.Linear`, `fast.layer_norm` and
   `fast.residual_norm` take `nn.LayerNorm` and `nn.Dropout`; forward hooks of these are not called. Such a module has
   the class attribute `uses_fast = True`, as ours do. It is inherited: a subclass of ours whose forward is plain torch
   sets `uses_fast = False`.
4. Any other module counts as third-party and is called by `fast.foreign(module, ...)`: under autocast to the pass's
   dtype, its results cast back to it, its gradients ordinary autograd's. If `dtype` is None it is called directly, and
   must itself accept and return the dtype of our weights. `fast.require` checks its results: a wrong shape or type is
   a one-line error that names the class. Your own backbone calls third-party modules inside it by `fast.foreign`.
5. Inside a recorded CUDA graph, the default for training on a GPU: no waiting for the device (`.item()`, `.cpu()`,
   `if tensor:`), no shapes that depend on values (`nonzero`, boolean indexing), no Python randomness and no Python
   state that changes from step to step: Python runs once, while recording. torch's own random functions are fine.
6. Weights must not change within the block; one backward pass at a time; no gradients of gradients.
7. These places in a navigator accept third-party modules. What stands elsewhere is not called by `fast.foreign`: it
   computes with `fast`, or keeps the dtype of its tokens by itself (a dropout).

   - `backbone`: `encode(tokens, mask)` and `(state, visual, language, attention_maps)`, see `navigator.Backbone`;
   - `backbone.pooler`: (token [row, hidden]) -> [row, hidden];
   - `view_embedding`: (features, directions, `Packing`) -> [row, slot, hidden]; the packing may be ignored;
   - `object_embedding`: (features, positions, directions) -> [row, object + 1, hidden], "no object" last;
   - `past_decision`: (state, direction) -> [row, hidden];
   - `refinement`: (pooled state, attended words, attended views) -> [row, hidden];
   - `critic`: (state [..., hidden]) -> [..., 1] or [...];
   - in place of every `nn.Linear` and `nn.LayerNorm` of our modules, such as an adapter or another norm: (tokens
     [..., width]) -> [..., its width]; on the CPU these are often [real token, width], without padding.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vlnbert.errors import UsageError
from vlnbert.external import is_plain, kind_of

# In one tensor, for a kernel's 32-bit offsets.
MOST_NUMBERS = 2**31
# In one program: tokens of a source, and scores of all queries over one.
MOST_TOKENS, MOST_SCORES = 256, 128 * 128
# Dropout seeds that are drawn together: more than most passes use.
SEEDS = 1024

# A table of seeds, an index into it, and the dropout probability.
Dropout = tuple[Tensor, int, float]
Entry = TypeVar("Entry")


@dataclass
class Pass:
    """State shared by the steps inside one `enabled` block."""

    # Of tokens; None for that of the weights.
    dtype: torch.dtype | None
    needs_grad: bool
    # Weights as they are used, by the modules that own them.
    packed: dict[Any, Any] = field(default_factory=dict)
    seeds: Tensor | None = None
    seeds_used: int = 0

    def dropout(self, tokens: Tensor, probability: float) -> Dropout | None:
        """A dropout seed that is used once; None if nothing is dropped."""
        if not probability:
            return None
        index = self.seeds_used % SEEDS
        if index == 0:
            self.seeds = torch.randint(2**62, (SEEDS,), device=tokens.device)
        assert self.seeds is not None
        self.seeds_used += 1
        return self.seeds, index, probability


_current: ContextVar[Pass | None] = ContextVar("fast_pass", default=None)
_torch_kernels: ContextVar[bool] = ContextVar("torch_kernels", default=False)


def current() -> Pass | None:
    """The active pass, if any."""
    return _current.get()


@contextmanager
def enabled(dtype: torch.dtype | None = None) -> Iterator[None]:
    """Share work between the steps inside the block, with tokens of this dtype (None: that of the weights).

    Weights must not change meanwhile. They get gradients if gradients are on where the block begins, one backward pass
    at a time, and no gradients of gradients.
    """
    token = _current.set(Pass(dtype, torch.is_grad_enabled()))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def torch_kernels() -> Iterator[None]:
    """Use torch's own kernels inside the block: to compare with them, or to let torch count operations."""
    token = _torch_kernels.set(True)
    try:
        yield
    finally:
        _torch_kernels.reset(token)


def dtype_of(precision: str) -> torch.dtype | None:
    """The dtype to give to `enabled` for the name of a precision; None for that of the weights."""
    return torch.bfloat16 if precision == "bfloat16" else None


def cast(tokens: Tensor) -> Tensor:
    """Tokens in the dtype of the pass."""
    shared = current()
    return tokens if shared is None else tokens.to(shared.dtype)


def foreign(module: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a third-party module or function, so that weights of any dtype work with tokens of the pass's.

    It runs under autocast, with autocast's cache off since a recorded graph must cast anew. Floating results, also in
    tuples, lists, dicts and dataclasses, come back in the dtype of the pass. Where the pass has no dtype, and outside
    of one, this is an ordinary call: nothing is cast. Gradients are ordinary autograd's.
    """
    shared = current()
    if shared is None or shared.dtype is None:
        return module(*args, **kwargs)
    _spend_rms_norm_warning()
    # The device of the first tensor among the arguments, else of the module's first weight.
    owner = getattr(module, "__self__", module)
    weights = owner.parameters() if isinstance(owner, nn.Module) else ()
    first = next((tensor for source in (_tensors((args, kwargs)), weights) for tensor in source), None)
    device_type = "cpu" if first is None else first.device.type
    with torch.autocast(device_type, shared.dtype, cache_enabled=False):
        out = module(*args, **kwargs)
    return _cast(out, shared.dtype)


def foreign_tensor(module: nn.Module, shape: Sequence[int | None], *args: Any) -> Tensor:
    """Call a third-party module that must return a floating tensor of this shape."""
    out = foreign(module, *args)
    require(module, "its result", out, shape)
    return out


def call(module: nn.Module, tokens: Tensor, *more: Any) -> Tensor:
    """Call one of our modules, or a third-party one in its place, that returns the shape of its first argument."""
    if getattr(module, "uses_fast", False):
        return module(tokens, *more)
    return foreign_tensor(module, tokens.shape, tokens, *more)


def require(
    owner: object, what: str, value: object, shape: Sequence[int | None], dtype: torch.dtype | None = None
) -> None:
    """Raise a one-line error unless a third-party module returned a tensor of this shape and dtype.

    A None in the shape stands for any size, as dtype for any floating one. Looks at shapes and dtypes alone: nothing
    waits for the device.
    """
    kind = "floating" if dtype is None else str(dtype).removeprefix("torch.")
    if isinstance(value, Tensor) and is_plain(value):
        right_kind = value.is_floating_point() if dtype is None else value.dtype == dtype
        sizes = zip(value.shape, shape, strict=False)
        if right_kind and value.dim() == len(shape) and all(size in (found, None) for found, size in sizes):
            return
        given = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    else:
        given = kind_of(value)
    expected = ", ".join("any" if size is None else str(size) for size in shape)
    raise UsageError(f"{type(owner).__name__} gave {given} for {what}; expected is a {kind} tensor [{expected}]")


@cache
def _spend_rms_norm_warning() -> None:
    """Trigger torch's once-per-process warning that RMSNorm of mixed dtypes is not its fastest, silently.

    In a pass bfloat16 tokens with float32 weights are intended. Silencing each call would make Python forget which
    warnings it has shown.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mismatch dtype between input and weight")
        functional.rms_norm(torch.zeros(1, 1, dtype=torch.bfloat16, device="cpu"), (1,), torch.ones(1, device="cpu"))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif is_dataclass(value):
        yield from _tensors([getattr(value, field.name) for field in fields(value)])


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cast(one, dtype) for one in value))
    if isinstance(value, tuple | list):
        return type(value)(_cast(one, dtype) for one in value)
    if isinstance(value, dict):
        return {key: _cast(one, dtype) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _cast(getattr(value, field.name), dtype) for field in fields(value)})
    return value


class DeferredGrads(Generic[Entry]):
    """Contributions of a weight's uses to its gradient, by backward pass: not every pass needs weights.

    Autograd would compute a gradient as large as the weights for each of some fifteen uses in an episode, and add them
    up. Here each use only keeps its input and the gradient of its output; after the last one, a single product is the
    weights' gradient, summed in their own dtype.
    """

    def __init__(self) -> None:
        self.entries: dict[int, list[Entry]] = {}

    def add(self, entry: Entry) -> None:
        self.entries.setdefault(_backward_pass(), []).append(entry)

    def take(self) -> list[Entry]:
        """Take the entries of the running backward pass and discard those of others."""
        mine = self.entries.pop(_backward_pass(), [])
        self.entries.clear()
        return mine


# [token, width] inputs, and the gradients of their outputs.
LinearGrads = DeferredGrads[tuple[Tensor, Tensor]]


def linear(tokens: Tensor, *maps: nn.Module, width: int | None = None) -> Tensor:
    """Outputs [..., widths] of one or several linear maps of the same tokens, side by side.

    `width`, if all have the same, is required of third-party maps; without it, their own `out_features`.
    """
    shared = current()

    def output(one: nn.Module) -> Tensor:
        if type(one) is nn.Linear:
            return one(tokens) if shared is None else linear(tokens, one)
        expected = getattr(one, "out_features", None) if width is None else width
        return foreign_tensor(one, (*tokens.shape[:-1], expected), tokens)

    # A third-party map, such as an adapter, has a forward of its own.
    if shared is None or any(type(one) is not nn.Linear for one in maps):
        return join([output(one) for one in maps], -1)
    if maps not in shared.packed:
        shared.packed[maps] = _pack(shared, maps)
    weight, bias, grads = shared.packed[maps]
    out: Tensor = _Linear.apply(tokens.to(weight.dtype), weight, bias, grads)  # type: ignore[no-untyped-call]
    return out


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
        packed = []
        for first in range(0, len(tensors), len(weights)):
            whole = join(tensors[first : first + len(weights)], 0).to(dtype)
            # Autograd requires a new tensor.
            packed.append(whole.detach() if whole is tensors[first] else whole)
        return tuple(packed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *_none: None) -> tuple[Tensor | None, ...]:
        """Compute the gradients from what the uses stored: no gradient arrives here."""
        entries = ctx.grads.take()
        if not entries:
            return (None, None, *(None,) * (len(ctx.widths) * (1 + ctx.biased)))
        tokens, grad_out = (join(parts, 0) for parts in zip(*entries, strict=True))
        if tokens.is_cuda and tokens.dtype != ctx.dtype:
            product = torch.mm(grad_out.T, tokens, out_dtype=ctx.dtype)
        else:
            product = grad_out.T.to(ctx.dtype) @ tokens.to(ctx.dtype)
        weights = torch.split(product, ctx.widths)
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


def join(parts: tuple[Tensor, ...] | list[Tensor], dim: int) -> Tensor:
    """Concatenated tensors; a single one as it is, without a copy."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)


def _backward_pass() -> int:
    number: int = torch._C._current_graph_task_id()
    return number


def widest(mask: Tensor) -> int:
    """Number of leading columns of a mask [row, token] that hold all real tokens, of which there is one at least.

    On a GPU all columns: looking would mean waiting for it.
    """
    if current() is None or mask.device.type != "cpu":
        return mask.shape[1]
    return int(mask.any(dim=0).nonzero().max()) + 1


class Packing:
    """The positions of the real tokens in a block of rows; the first token of every row is real.

    More than half of the views that a step shows are padding. Inside of `enabled` on the CPU real tokens therefore lie
    side by side, [real token, width], and are padded for attention alone. On a GPU counting them would mean waiting.
    """

    def __init__(self, mask: Tensor, padded: bool = False) -> None:
        """`mask` [row, token] is true where a token is real; `padded` keeps the block in any case."""
        self.mask = mask
        # [real token] position of each in the block; None if unpacked.
        self.places: Tensor | None = None
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


@dataclass(frozen=True)
class KeyValues:
    """Tokens that can be attended to: keys and values, and a mask of the real tokens."""

    # [row, token, 2 or 3 x hidden] keys and values side by side, after queries if it has them too.
    kv: Tensor
    mask: Tensor  # [row, token] bool


def attention(q: Tensor, *sources: KeyValues, heads: int, hidden: int, dropout: float) -> Tensor:
    """[row, query, hidden] softmax(Q K^T / sqrt(head width)) V over one source or two together.

    Queries are the first `hidden` numbers of `q`, which may be the same tensor as a source's.
    """
    if (shared := triton_pass(q)) is not None and _fits(q, sources):
        from vlnbert.navigator.fast.fused import fused_attention

        return fused_attention(q, sources, heads, hidden, shared.dropout(q, dropout))
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


def layer_norm(norm: nn.LayerNorm, tokens: Tensor) -> Tensor:
    """LayerNorm of tokens in their own dtype, computed in that of the weights."""
    if not _is_plain(norm):
        return foreign_tensor(norm, tokens.shape, tokens)
    if (shared := triton_pass(tokens)) is not None:
        from vlnbert.navigator.fast.fused import triton_norm

        return triton_norm(shared, norm, tokens, None, 0.0)
    precise = tokens.to(norm.weight.dtype)
    return functional.layer_norm(precise, norm.normalized_shape, norm.weight, norm.bias, norm.eps).to(tokens.dtype)


def residual_norm(norm: nn.LayerNorm, tokens: Tensor, branch: Tensor, dropout: nn.Module) -> Tensor:
    """LayerNorm(tokens + dropout(branch)), the last operation of BERT's sub-layers."""
    if (shared := triton_pass(tokens)) is not None and type(dropout) is nn.Dropout and _is_plain(norm):
        from vlnbert.navigator.fast.fused import triton_norm

        return triton_norm(shared, norm, tokens, branch, dropout.p if dropout.training else 0.0)
    return layer_norm(norm, tokens + dropout(branch))


def _is_plain(norm: nn.Module) -> bool:
    """Whether this is torch's LayerNorm with weight and bias; any other norm runs its own forward."""
    return type(norm) is nn.LayerNorm and norm.bias is not None


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
    from vlnbert.navigator.fast.fused import triton_norm

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
