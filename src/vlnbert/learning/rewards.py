"""Rewards of each step (the paper's appendix B.5), for all steps and rows of a rollout at once.

A move earns 1 for approaching the goal and -1 otherwise, the change of nDTW, and a penalty for leaving the goal once it
was within a metre. Stopping earns 2 + 2 nDTW less than 3 m from the goal (in REVERIE less than 1 m), else -2. The paper
prints the sign of the progress reward the wrong way round; this is what the published agents were trained with.

It is one reward of several: others are registered by name, and a training names the one that it uses.
"""

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from vlnbert.errors import UsageError
from vlnbert.evaluation.metrics import dtw_cost, dtw_table, ndtw
from vlnbert.external import ExternalCall, is_ours, is_plain, kind_of, lent
from vlnbert.registry import Registry, require_name
from vlnbert.rollout.mixed import Rollout
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.task import NEAR, TASKS, metres_to_nearest
from vlnbert.world.world import STOP, World

PAPER = "paper"  # the name of the paper's reward
AT_GOAL = 1.0  # metres: an agent that was this close should not leave
FINAL = 2.0  # for a right stop; the same is lost for a wrong one


@dataclass(frozen=True)
class RewardConfig:
    """Which parts of the paper's reward are given; its ablation switches them off."""

    progress: bool = True
    """+1 for approaching the goal, -1 otherwise, and the final reward."""
    fidelity: bool = True
    """The change of nDTW, and twice its value on a right stop."""
    departure: bool = True
    """A penalty for leaving a goal that was within a metre."""
    unit: Literal["metres", "hops"] = "metres"
    """What nDTW measures distance in. The published agents counted hops."""
    reverie_stop: Literal["at-goal", "visible"] = "at-goal"
    """What a right stop is in REVERIE: less than a metre from the goal, or wherever the target can be seen, as in its
    scores. In R2R it is less than 3 m from the goal."""


Reward = Callable[[Rollout, Batch], Tensor]  # [time, row] what each choice earns
AnyReward = TypeVar("AnyReward", bound=Callable[..., Any])
REWARDS: Registry[Callable[..., Any]] = Registry("reward")


def register_reward(name: str) -> Callable[[AnyReward], AnyReward]:
    """A decorator that gives a reward a name, which a training then uses: `vln.train(..., reward="toward-windows")`.

    It decorates a function `reward(rollout, batch, world)`; or a class, made once with `(world, config)` so that it can
    prepare tables, whose objects are called with `(rollout, batch)`. Either gives the reward of each choice, a [time,
    row] tensor of floating-point numbers on the rollout's device; those after a stop mean nothing. On a GPU it runs
    inside a recorded graph: it may not wait for the device.

    Args:
        name: What the training's setting `reward` calls it.
    """
    require_name(REWARDS.kind, name)

    def register(reward: AnyReward) -> AnyReward:
        arguments = ("world", "config") if isinstance(reward, type) else ("rollout", "batch", "world")
        try:
            inspect.signature(reward).bind(*arguments)
        except TypeError:
            kind = "class is made" if isinstance(reward, type) else "function is called"
            raise UsageError(
                f"the reward '{name}' takes other arguments; a {kind} with ({', '.join(arguments)})"
            ) from None
        REWARDS.register(name, reward)
        return reward

    return register


class GuardedReward:
    """The reward of a name in a world; what it gives is checked as far as that does not wait for the device.

    One that is not ours gets copies of rollout and batch: whatever it writes into them, nothing is learned from it.
    """

    def __init__(self, name: str, world: World, config: RewardConfig) -> None:
        self.name, self.world, self.reward = name, world, REWARDS[name]
        self.ours = is_ours(self.reward)
        self.calling: Any = nullcontext() if self.ours else ExternalCall(f"the reward '{name}'", world)
        with self.calling:
            self.made = self.reward(world, config) if isinstance(self.reward, type) else None

    @property
    def module(self) -> nn.Module | None:
        """The reward where it is a module, whose parameters and buffers are saved and resumed."""
        return self.made if isinstance(self.made, nn.Module) else None

    def __call__(self, rollout: Rollout, batch: Batch) -> Tensor:
        """[time, row] what each choice earned."""
        with torch.no_grad(), self.calling:
            seen = (rollout, batch) if self.ours else (lent(rollout, self.world), lent(batch))
            reward = self.made(*seen) if self.made is not None else self.reward(*seen, self.world)
        if not self.ours:
            problem = fault_in(reward, rollout.slot.shape)
            if problem is None and reward.device != rollout.slot.device:
                problem = f"is on {reward.device}, the rollout on {rollout.slot.device}"
            # Finiteness is looked at on the CPU alone, where looking is free.
            if problem is None and reward.device.type == "cpu" and not (reward.isfinite() | ~rollout.live).all():
                problem = "is not finite where rows are live"
            if problem is not None:
                raise UsageError(f"the reward '{self.name}' {problem}; mend it, or choose another")
        return reward  # type: ignore[no-any-return]  # a tensor, as was checked


def fault_in(value: Any, shape: Sequence[int] | None, or_number: bool = False) -> str | None:
    """Why a value is not the floating-point tensor [time, row] that a reward or a loss gives; None if it is.

    Args:
        value: The value to check.
        shape: Times and rows; None where nobody walked, so that only a single number fits.
        or_number: Whether a single number fits, too.
    """
    if not isinstance(value, Tensor):
        return f"gives a {type(value).__name__}, not a tensor"
    if not is_plain(value):
        return f"gives {kind_of(value)}, not one that lies open"
    if value.shape != shape and not (or_number and value.dim() == 0):
        expected = f"[time, row], here {list(shape)}" + ", or one number" * or_number if shape else "a single number"
        return f"has the shape {list(value.shape)}, not {expected}"
    if not value.is_floating_point():
        return f"is of {str(value.dtype).removeprefix('torch.')}, not of floating-point numbers"
    return None


class Rewards:
    """The rewards of a world, with the distances that nDTW measures at hand."""

    def __init__(self, world: World, config: RewardConfig) -> None:
        self.world, self.config = world, config
        self.distance = world.distance if config.unit == "metres" else hop_distances(world)

    def __call__(
        self,
        viewpoint: Tensor,
        slot: Tensor,
        path: Tensor,
        path_length: Tensor,
        right_stop: Tensor | None = None,
        goals: Tensor | None = None,
        decided: Tensor | None = None,
    ) -> Tensor:
        """[time, row] the reward of each choice, in float64.

        Args:
            viewpoint: [time + 1, row] where each agent was before each choice, and at the end.
            slot: [time, row] what it chose; rewards of choices after a stop are meaningless and to be masked.
            path: [row, hop] the paths that the instructions describe, padded with their goals.
            path_length: [row] how many of their viewpoints are real.
            right_stop: [time + 1, row] where to stop would be right; by default less than 3 m from the goal.
            goals: [row, any] the goals, where there are several: what counts is the nearest.
            decided: [time + 1, row] where each choice was made among the viewpoints, which are then [hop + 1, row] of
                walks that go back; a choice earns the sum of its hops.
        """
        left = _metres_left(self.world, viewpoint, path[:, -1], goals)
        likeness = running_ndtw(self.world, viewpoint, path, path_length, self.distance)
        right_stop = left < NEAR if right_stop is None else right_stop
        if decided is None:
            moved, stopped = self._moves(left, likeness), self._stops(right_stop[:-1], likeness[:-1])
        else:
            moved = _summed(self._moves(left, likeness), decided)
            stopped = self._stops(right_stop, likeness).gather(0, decided[:-1])
        return torch.where(slot == STOP, stopped, moved)

    def _moves(self, left: Tensor, likeness: Tensor) -> Tensor:
        before, after = left[:-1], left[1:]
        reward = torch.zeros_like(before)
        if self.config.progress:
            reward = reward + torch.where(after < before, 1.0, -1.0)
        if self.config.fidelity:
            reward = reward + likeness[1:] - likeness[:-1]
        if self.config.departure:
            leaves = (before <= AT_GOAL) & (after > before)
            reward = reward - torch.where(leaves, FINAL * (AT_GOAL - before), 0.0)
        return reward

    def _stops(self, arrived: Tensor, likeness: Tensor) -> Tensor:
        reward = torch.zeros_like(likeness)
        if self.config.progress:
            reward = reward + torch.where(arrived, FINAL, -FINAL)
        if self.config.fidelity:
            reward = reward + torch.where(arrived, FINAL * likeness, 0.0)
        return reward


@register_reward(PAPER)
class PaperReward:
    """The paper's reward of a rollout."""

    def __init__(self, world: World, config: RewardConfig) -> None:
        self.world, self.config, self.rewards = world, config, Rewards(world, config)

    def __call__(self, rollout: Rollout, batch: Batch) -> Tensor:
        task, viewpoint = TASKS[batch.task], rollout.viewpoint if rollout.walked is None else rollout.walked
        if self.config.reverie_stop == "visible":
            right_stop = task.arrived(self.world, viewpoint.T, batch).T
        else:
            right_stop = _metres_left(self.world, viewpoint, batch.goal, batch.goals) < task.stop_distance
        return self.rewards(
            viewpoint,
            rollout.slot,
            batch.path,
            batch.path_length,
            right_stop=right_stop,
            goals=batch.goals,
            decided=rollout.decided,
        )


def _metres_left(world: World, viewpoint: Tensor, goal: Tensor, goals: Tensor | None) -> Tensor:
    """[time, row] metres to the goal [row], or to the nearest of several [row, any]."""
    if goals is None:
        return world.metres(viewpoint, goal.expand_as(viewpoint))
    return metres_to_nearest(world, viewpoint, goals)


def _summed(hops: Tensor, decided: Tensor) -> Tensor:
    """[time, row] the sums over each choice's hops, of [hop, row]; a choice has no more hops than its number."""
    time = len(decided) - 1
    # [hop of a choice, time, row]
    place = decided[:-1] + torch.arange(time, device=decided.device)[:, None, None]
    each = hops.gather(0, place.clamp(max=len(hops) - 1).flatten(0, 1)).view_as(place)
    return torch.where(place < decided[1:], each, 0.0).sum(dim=0)


def running_ndtw(world: World, viewpoint: Tensor, path: Tensor, path_length: Tensor, distance: Tensor) -> Tensor:
    """[time, row] nDTW of the walk so far, the start included. Staying where one is adds nothing."""
    # [time, row, hop]
    pairs = world.pair(viewpoint[:, :, None], path)
    cost = distance[pairs].double()
    moved = torch.cat((torch.ones_like(viewpoint[:1], dtype=torch.bool), viewpoint[1:] != viewpoint[:-1]))
    return ndtw(dtw_cost(dtw_table(cost, moved), path_length), path_length)


def hop_distances(world: World) -> Tensor:
    """[pair] edges on the way between any two viewpoints of a scan, infinite where there is none."""
    # Imported here, since few experiments count hops.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count, neighbour = len(world), world.neighbour.cpu().numpy()
    start = np.arange(count)[:, None].repeat(world.slots, axis=1)
    real = neighbour != start
    edges = csr_array((np.ones(real.sum()), (start[real], neighbour[real])), shape=(count, count))
    hops = np.empty(len(world.distance), dtype=np.float32)
    scan_of, row = world.scan_of.cpu().numpy(), world.row.cpu().numpy()
    for scan in range(len(world.scans)):
        inside = np.flatnonzero(scan_of == scan)
        block = dijkstra(edges[inside][:, inside], unweighted=True)
        hops[row[inside[0]] : row[inside[0]] + block.size] = block.ravel()
    return torch.from_numpy(hops).to(world.device)
