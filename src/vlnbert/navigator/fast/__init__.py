"""The same numbers, quicker: a mode in which the steps of an episode share their work.

Outside of `with fast.enabled(dtype):` the functions below are plain torch, and the navigator is the textbook's network.
Inside of it

- linear maps of the same input are one product, and weights are cast to `dtype` once a pass (`fast.linear`);
- the gradient of a weight is one product over all steps, not one a step and their sum (`fast.linear`);
- on the CPU no padding is computed (`fast.Packing`, `fast.widest`);
- on a GPU with Triton attention is one kernel (`fast.attention`), and so are dropout, residual and LayerNorm
  (`fast.layer_norm`, `fast.residual_norm`).

The numbers are the same but for rounding, and for which numbers dropout drops.

The contract, for modules that are called inside of the block:

1. What a module gets. Tokens are of the pass's dtype, bfloat16 say, while weights stay as they are, float32 as a rule.
   Where `dtype` is None nothing is cast: tokens are of the dtype that the weights of our modules have. Masks are bool.
2. What it must give. Floating results of the dtype of its tokens, with as many rows as it got and as wide as it says.
3. A module that computes with the functions of `fast` has nothing else to do: its weights are cast and packed once,
   and get one deferred gradient, of their own dtype. `fast.linear` takes `nn.Linear`, `fast.layer_norm` and
   `fast.residual_norm` take `nn.LayerNorm` and `nn.Dropout`; forward hooks of these are not called. Such a module says
   so with the class attribute `uses_fast = True`, as ours do. It is inherited: a subclass of ours whose forward is
   plain torch says `uses_fast = False`.
4. Any other module is foreign, and is called by `fast.foreign(module, ...)`: under autocast to the pass's dtype, its
   results brought back to it, its gradients ordinary autograd's. Where `dtype` is None it is called as it is, and must
   itself take and give the dtype of our weights. What it gives is checked by `fast.require`: a wrong shape or kind is
   one line that names the class. A foreign module of one's own backbone is called by `fast.foreign` where it stands.
5. Inside of a recorded CUDA graph, as training is by default on a GPU: no waiting for the device (`.item()`, `.cpu()`,
   `if tensor:`), no shapes that depend on values (`nonzero`, boolean indexing), no Python randomness and no state kept
   in Python from step to step: what Python does is done once, while recording. torch's own random functions are fine.
6. Weights must not change within the block; one backward pass at a time; no gradients of gradients.
7. Where a foreign module may stand in a navigator, and how it is called. A place that is not here is not called by
   `fast.foreign`: what stands there computes with `fast`, or keeps the dtype of its tokens by itself (a dropout).

   - `backbone`: `encode(tokens, mask)` and `(state, visual, language, attention_maps)`, see `model.Backbone`;
   - `backbone.pooler`: (token [row, hidden]) -> [row, hidden];
   - `view_embedding`: (features, directions, `Packing`) -> [row, slot, hidden]; the packing may be ignored;
   - `object_embedding`: (features, positions, directions) -> [row, object + 1, hidden], "no object" last;
   - `past_decision`: (state, direction) -> [row, hidden];
   - `refinement`: (pooled state, attended words, attended views) -> [row, hidden];
   - `critic`: (state [..., hidden]) -> [..., 1] or [...];
   - in place of every `nn.Linear` and `nn.LayerNorm` of our modules, such as an adapter or another norm: (tokens
     [..., width]) -> [..., its width]; on the CPU these are often [real token, width], without padding.
"""

from vlnbert.navigator.fast.attention import KeyValues, attention, join_sources, split_heads
from vlnbert.navigator.fast.context import cast, current, dtype_of, enabled, torch_kernels
from vlnbert.navigator.fast.foreign import call, checked, foreign, require
from vlnbert.navigator.fast.linear import linear
from vlnbert.navigator.fast.norm import layer_norm, residual_norm
from vlnbert.navigator.fast.packing import Packing, widest

__all__ = [
    "KeyValues",
    "Packing",
    "attention",
    "call",
    "cast",
    "checked",
    "current",
    "dtype_of",
    "enabled",
    "foreign",
    "join_sources",
    "layer_norm",
    "linear",
    "require",
    "residual_norm",
    "split_heads",
    "torch_kernels",
    "widest",
]
