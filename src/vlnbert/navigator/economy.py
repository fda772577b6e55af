"""What a navigator need not do twice: a mode in which the steps of an episode share their work.

Outside of it a navigator is the textbook's network. Within it

- linear maps of the same input are one product, and weights are cast to the precision of the pass once (`linear.py`);
- the gradient of a weight is one product over all steps, not one a step and their sum (`linear.py`);
- on the CPU no padding is computed (`layout.py`);
- on a GPU with Triton, attention is one kernel (`fused_attention.py`), and so are dropout, residual and LayerNorm
  (`fused_norms.py`).

The numbers are the same but for rounding, and for which numbers dropout drops.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

SITES = 1024  # seeds that are drawn together: more than most passes use


@dataclass
class Economy:
    """What the steps of one pass share."""

    precision: torch.dtype | None  # of tokens; None for that of the weights
    learning: bool  # whether gradients will be asked for
    kept: dict[Any, Any] = field(default_factory=dict)  # what was made of weights, by whose they are
    seeds: Tensor | None = None
    sites: int = 0  # seeds that are taken

    def seed(self, device: torch.device) -> tuple[Tensor, int]:
        """A table of seeds on the device and the place of one that nobody else gets."""
        place = self.sites % SITES
        if place == 0:
            self.seeds = torch.randint(2**62, (SITES,), device=device)
        assert self.seeds is not None
        self.sites += 1
        return self.seeds, place


def half(precision: str) -> torch.dtype | None:
    """What an economy is asked for by the name of a precision: bfloat16, or that of the weights."""
    return torch.bfloat16 if precision == "bfloat16" else None


_current: ContextVar[Economy | None] = ContextVar("economy", default=None)


def current() -> Economy | None:
    """The economy that is on, if any."""
    return _current.get()


@contextmanager
def economy(precision: torch.dtype | None = None) -> Iterator[None]:
    """Within the block, steps share their work, and tokens are of this precision.

    Weights must not change meanwhile; they get gradients if gradients are on where the block begins, one backward pass
    at a time, and no gradients of gradients.
    """
    token = _current.set(Economy(precision, torch.is_grad_enabled()))
    try:
        yield
    finally:
        _current.reset(token)
