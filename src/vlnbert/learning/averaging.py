"""Averaged weights: the exponential moving average over all updates, which generalises better than the last weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class AveragedWeights:
    """The average of a module's parameters, kept beside them. With a decay of 0 there is none, and nothing to do.

    How fast it forgets follows from the number of the update, so that weights and average are all there is to save. It
    moves after an update, be that replayed or not: a recorded graph knows nothing of it.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights: dict[str, Tensor] = dict(module.named_parameters()) if decay else {}
        self.average = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def decay_at(self, iteration: int) -> float:
        """The decay of an update: it rises from 0.1, since an average over few updates would hold on to the first."""
        return min(self.decay, (1 + iteration) / (10 + iteration))

    @torch.no_grad()
    def update(self, iteration: int) -> None:
        """Move the average towards the weights that an update left. Nothing waits for the device."""
        if self.average:
            share = 1 - self.decay_at(iteration)
            torch._foreach_lerp_(list(self.average.values()), list(self.weights.values()), share)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the module has the averaged weights, in the same memory, as recorded graphs need it."""
        kept = {name: weight.detach().clone() for name, weight in self.weights.items()}
        _copy(self.average, self.weights)
        try:
            yield
        finally:
            _copy(kept, self.weights)

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Take the module's weights as the average, and these as the weights that go on learning."""
        _copy(self.weights, self.average)
        _copy(weights, self.weights)


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])
