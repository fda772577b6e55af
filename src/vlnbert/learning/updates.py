"""One update of the weights: as it is, or recorded once as a CUDA graph and replayed.

A rollout launches thousands of small kernels, which takes the host far longer than the device. A graph launches them
all at once. Graphs need static shapes: there is one for each width of instructions, recorded when it is met for the
second time (the first time warms up), so that a run starts at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from vlnbert.tasks.batches import Batch

Update = Callable[[Batch, Tensor], Tensor]  # a batch and the keys of its noise -> [part] losses


class EagerUpdate:
    """Forward, backward, clip, step. Nothing in it waits for the device."""

    def __init__(self, learner: nn.Module, optimiser: Optimizer, how: Tensor, clipped: Sequence[Tensor], clip: float):
        self.learner, self.optimiser, self.how, self.clipped, self.clip = learner, optimiser, how, clipped, clip

    def __call__(self, batch: Batch, key: Tensor) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        losses = self.learn(batch, key)
        self.step()
        return losses

    def learn(self, batch: Batch, key: Tensor, share: float = 1.0) -> Tensor:
        """Add a batch's gradients, times its share, to those that are there."""
        losses: Tensor = self.learner(batch, self.how, key)
        torch.autograd.backward(losses[0] * share)
        return losses.detach()

    def step(self) -> None:
        clip_grad_norm_(self.clipped, self.clip)
        self.optimiser.step()


@dataclass(frozen=True)
class _Recording:
    """A graph, and the tensors through which it is fed and read."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    key: Tensor
    losses: Tensor


class ReplayedUpdate:
    """The same update, replayed where it was recorded. What is random in it follows the seed of the moment."""

    def __init__(self, eager: EagerUpdate) -> None:
        self.eager = eager
        self.recordings: dict[tuple[int, ...], _Recording | None] = {}
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        # Graphs are replayed one at a time and leave nothing behind but losses, which are copied: they share memory.
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch, key: Tensor) -> Tensor:
        shape = tuple(size for tensor in batch.tensors().values() for size in tensor.shape)  # tells tasks apart too
        if shape not in self.recordings:
            self.recordings[shape] = None
            return self._warm_up(batch, key)
        recording = self.recordings[shape]
        if recording is None:
            recording = self.recordings[shape] = self._record(batch, key)
        for name, tensor in batch.tensors().items():
            getattr(recording.batch, name).copy_(tensor)
        recording.key.copy_(key)
        recording.graph.replay()
        return recording.losses.clone()

    def _warm_up(self, batch: Batch, key: Tensor) -> Tensor:
        """A plain update on a stream of its own, as recording asks for."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            losses = self.eager(batch, key)
        torch.cuda.current_stream().wait_stream(self.stream)
        return losses

    def _record(self, batch: Batch, key: Tensor) -> _Recording:
        """Nothing is computed while recording; the gradients that it lays out belong to the graph."""
        own = replace(batch, **{name: tensor.clone() for name, tensor in batch.tensors().items()})
        own_key, graph = key.clone(), torch.cuda.CUDAGraph()
        self.eager.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph, pool=self.pool):
            losses = self.eager.learn(own, own_key)
            self.eager.step()
        return _Recording(graph, own, own_key, losses)
