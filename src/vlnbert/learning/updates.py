"""One update of the weights: as it is, or recorded once as a CUDA graph and replayed.

A rollout launches thousands of small kernels, which takes the host far longer than the device. A graph launches them
all at once. Graphs need static shapes: there is one for each width of instructions, recorded when it is met for the
second time (the first time warms up), so that a run starts at once.
"""

import hashlib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from vlnbert.environment.environment import Environment, flip_words, other_sides
from vlnbert.errors import UsageError, setting
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.objective import Objective
from vlnbert.learning.rewards import GuardedReward
from vlnbert.navigator import fast
from vlnbert.ranks import Ranks
from vlnbert.rollout.mixed import MixedAgent, Rollout, TeacherRows, collect_rollout, uniform
from vlnbert.rollout.policy import as_policy
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.task import TASKS

TORCH = Path(torch.__file__).parent
FLIP = -1  # the counter of that draw; from 0 up they are what is sampled
MOST_LOOKED_AT = 1000  # batches, to find one of each split

Update = Callable[[Batch, Tensor], Tensor]  # a batch and the keys of its noise -> [part] losses


class Learner(nn.Module):
    """The rollout of a batch and its objective: the one module that gradients are taken of.

    It is a module so that `DistributedDataParallel` can hold it: the whole rollout is its forward pass.
    """

    def __init__(
        self,
        policy: nn.Module,
        environment: Environment,
        config: TrainConfig,
        ranks: Ranks,
        teacher_rows: TeacherRows,
        row_mode: Tensor,
    ) -> None:
        """`policy` is one, or a navigator."""
        super().__init__()
        self.policy, self.config = as_policy(policy), config
        seen = environment.showing(self.policy.wants, f"{type(self.policy).__name__}.wants")
        self.environment = seen.in_dtype(fast.dtype_of(config.precision))
        # No buffer: what is random differs between ranks, and so may this.
        self.teacher_rows, self.row_mode = teacher_rows, row_mode
        reward = GuardedReward(config.reward, environment.world, config.rewards)
        self.objective = Objective(config, self.policy, reward, ranks, environment.world.device)
        self.parts, self.unclipped = self.objective.parts, self.objective.unclipped
        self.begin_update = self.objective.begin_update
        self.sides = other_sides(self.policy.tokenizer).to(environment.world.device) if config.flip else None

    def forward(self, batch: Batch, key: Tensor) -> Tensor:
        """[part] the objective of a batch and its terms, as its `parts` are named; the first carries the gradient.

        `key` [row] seeds the choices of sampled rows, and which rows are flipped left to right.
        """
        with fast.enabled(fast.dtype_of(self.config.precision)):
            rollout = self._rollout(batch, key) if self.objective.needs_rollout else None
            losses: Tensor = self.objective(rollout, batch)
        if torch.is_grad_enabled() and not losses.requires_grad:
            problem = f"all losses ({', '.join(self.parts[1:])}) are detached from what is trained"
            raise UsageError(f"{problem}; add one that is computed of what the policy gives")
        return losses

    def _rollout(self, batch: Batch, key: Tensor) -> Rollout:
        task, environment = TASKS[batch.task], self.environment.for_task(batch.task)
        tokens, flipped = batch.tokens, None
        if self.sides is not None:
            flipped = draw_flips(key, self.config.flip)
            tokens = flip_words(tokens, flipped, self.sides)
        agent = MixedAgent(
            self.policy,
            environment,
            tokens,
            row_mode=self.row_mode,
            key=key,
            max_steps=self.config.max_steps or task.max_steps,
            teacher_rows=self.teacher_rows,
            task=task,
            teacher_state=task.begin_teacher(batch),
            flipped=flipped,
            reads=self.objective.reads,
        )
        start, critic = (batch.start, batch.heading, batch.goal), self.objective.critic
        rollout = collect_rollout(environment, agent, *start, critic, batch)
        return rollout if batch.goals is None else replace(rollout, goal=batch.goals)


class EagerUpdate:
    """Forward, backward, clip, step. Nothing in it waits for the device."""

    def __init__(self, learner: nn.Module, optimiser: Optimizer, clipped: Sequence[Tensor], grad_clip: float) -> None:
        self.learner, self.optimiser = learner, optimiser
        self.clipped, self.grad_clip = clipped, grad_clip

    def __call__(self, batch: Batch, key: Tensor) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        losses = self.accumulate(batch, key)
        self.step()
        return losses

    def accumulate(self, batch: Batch, key: Tensor, share: float = 1.0) -> Tensor:
        """Add a batch's gradients, times its share, to those that are there."""
        losses: Tensor = self.learner(batch, key)
        torch.autograd.backward(losses[0] * share)
        return losses.detach()

    def step(self) -> None:
        clip_grad_norm_(self.clipped, self.grad_clip)
        self.optimiser.step()


@dataclass(frozen=True)
class _Recording:
    """A graph, and the tensors through which it is fed and read."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    key: Tensor
    losses: Tensor


class GraphUpdate:
    """The same update, replayed where it was recorded. What is random in it follows the seed of the moment."""

    def __init__(self, eager: EagerUpdate) -> None:
        self.eager = eager
        self.recordings: dict[tuple[str, tuple[tuple[Any, ...], ...]], _Recording | None] = {}
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        # Graphs are replayed one at a time and leave nothing behind but losses, which are copied: they share memory.
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch, key: Tensor) -> Tensor:
        sizes = tuple((name, *tensor.shape) for name, tensor in batch.tensors().items())
        shape = batch.task, sizes
        if shape not in self.recordings:
            self.recordings[shape] = None
            self.stream.wait_stream(torch.cuda.current_stream())
            # Recording requires a first pass on a stream of its own.
            with torch.cuda.stream(self.stream):
                losses = self.eager(batch, key)
            torch.cuda.current_stream().wait_stream(self.stream)
            return losses
        recording = self.recordings[shape]
        if recording is None:
            recording = self.recordings[shape] = self._record(batch, key)
        fed = recording.batch.tensors()
        for name, tensor in batch.tensors().items():
            fed[name].copy_(tensor)
        recording.key.copy_(key)
        recording.graph.replay()
        return recording.losses.clone()

    def _record(self, batch: Batch, key: Tensor) -> _Recording:
        """Nothing is computed while recording; the gradients that it lays out belong to the graph."""
        own = batch.each(torch.clone)
        own_key, graph = key.clone(), torch.cuda.CUDAGraph()
        self.eager.optimiser.zero_grad(set_to_none=True)
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                losses = self.eager.accumulate(own, own_key)
                self.eager.step()
        except RuntimeError as error:
            raise unrecordable(error) from error
        return _Recording(graph, own, own_key, losses)


def draw_flips(key: Tensor, share: float) -> Tensor:
    """[row] whether each row is flipped left to right, drawn by its key."""
    return uniform(key, torch.full_like(key, FLIP)) < share


def unrecordable(error: RuntimeError) -> Exception:
    """Name the line that keeps an update from being recorded; other errors stay as they are."""
    causes = [error, *(cause for cause in (error.__context__, error.__cause__) if isinstance(cause, RuntimeError))]
    if isinstance(error, torch.OutOfMemoryError) or not any("captur" in str(cause) for cause in causes):
        return error
    frames = [frame for cause in causes for frame in traceback.extract_tb(cause.__traceback__)]
    own = [frame for frame in frames if TORCH not in Path(frame.filename).parents]
    where = f"{Path(own[-1].filename).name} line {own[-1].lineno} ({own[-1].line})" if own else "something"
    problem = f"{where} waits for the device, or has a shape that depends on values, while an update is recorded"
    return UsageError(f"{problem}; keep it on the device, or train with {setting('training.graphs', False)}")


def extra_state_of(learner: nn.Module, model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of losses and rewards, by name: all that a learner holds beside the model."""
    own = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    held = learner.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in held.items() if id(tensor) not in own}


def leaves_some_unused(learner: nn.Module, batches: BatchStream, parameters: Sequence[nn.Parameter]) -> bool:
    """Whether the batches of some split leave parameters without a gradient, found by looking at one of each split."""
    seen, number, unused = set[str](), 0, False
    while len(seen) < len(batches.splits) and number < MOST_LOOKED_AT:
        name = batches.split_of(number).name
        if name not in seen:
            seen.add(name)
            torch.autograd.backward(learner(*batches[number])[0])
            unused = unused or any(parameter.grad is None for parameter in parameters)
            for parameter in parameters:
                parameter.grad = None
        number += 1
    return unused


def dropout_seed(seed: int, iteration: int, rank: int) -> int:
    """A seed for the dropout of one update: there is no generator whose state must be saved."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {iteration} {rank}".encode(), digest_size=7).digest())
