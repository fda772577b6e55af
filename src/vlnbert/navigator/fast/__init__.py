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

from vlnbert.navigator.fast.fused import (
    KeyValues,
    attention,
    join_sources,
    layer_norm,
    residual_norm,
    split_heads,
    torch_kernels,
)
from vlnbert.navigator.fast.linear import Packing, linear, widest
from vlnbert.navigator.fast.passes import (
    call,
    cast,
    current,
    dtype_of,
    enabled,
    foreign,
    foreign_tensor,
    require,
)

__all__ = [
    "KeyValues",
    "Packing",
    "attention",
    "call",
    "cast",
    "current",
    "dtype_of",
    "enabled",
    "foreign",
    "foreign_tensor",
    "join_sources",
    "layer_norm",
    "linear",
    "require",
    "residual_norm",
    "split_heads",
    "torch_kernels",
    "widest",
]
