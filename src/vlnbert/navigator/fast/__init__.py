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

1. What a module gets. Tokens are of the pass's dtype (bfloat16, say; that of the weights where `dtype` is None), while
   weights stay as they are, float32 as a rule. Masks are bool.
2. What it must give. Floating results of the pass's dtype, with as many rows as it got and as wide as it says.
3. A module that computes with the functions of `fast` has nothing else to do: its weights are cast and packed once,
   and get one deferred gradient, of their own dtype. `fast.linear` takes `nn.Linear`, `fast.layer_norm` and
   `fast.residual_norm` take `nn.LayerNorm` and `nn.Dropout`; forward hooks of these are not called. A backbone made of
   such modules says so with the class attribute `uses_fast = True`.
4. Any other module is foreign, and is called by `fast.foreign(module, ...)`: under autocast to the pass's dtype, its
   results brought back to it, its gradients ordinary autograd's. `fast.linear` and `fast.layer_norm` do that by
   themselves for whatever is not exactly torch's own, a subclass or an adapter; the navigator does it for a backbone
   that does not say `uses_fast`. A foreign module of one's own backbone is called by `fast.foreign` where it stands.
   What it gives is checked by `fast.require`: a wrong shape or kind is one line that names the class.
5. Inside of a recorded CUDA graph, as training is by default on a GPU: no waiting for the device (`.item()`, `.cpu()`,
   `if tensor:`), no shapes that depend on values (`nonzero`, boolean indexing), no Python randomness and no state kept
   in Python from step to step: what Python does is done once, while recording. torch's own random functions are fine.
6. Weights must not change within the block; one backward pass at a time; no gradients of gradients.
"""

from vlnbert.navigator.fast.attention import KeyValues, attention, join_sources, split_heads
from vlnbert.navigator.fast.context import cast, current, dtype_of, enabled, torch_kernels
from vlnbert.navigator.fast.foreign import foreign, require
from vlnbert.navigator.fast.linear import linear
from vlnbert.navigator.fast.norm import layer_norm, residual_norm
from vlnbert.navigator.fast.packing import Packing, widest

__all__ = [
    "KeyValues",
    "Packing",
    "attention",
    "cast",
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
