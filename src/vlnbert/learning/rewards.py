"""What an agent earns at each step (the paper's appendix B.5), for all steps and rows of a rollout at once.

A move earns 1 for approaching the goal and -1 otherwise, the change of nDTW, and a penalty for leaving the goal once it
was within a metre. Stopping earns 2 + 2 nDTW less than 3 m from the goal (in REVERIE less than 1 m), else -2. The paper
prints the sign of the progress reward the wrong way round; this is what the published agents were trained with.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vlnbert.evaluation.metrics import dtw_cost, dtw_table, ndtw
from vlnbert.tasks.task import NEAR
from vlnbert.world.world import STOP, World

AT_GOAL = 1.0  # metres: who was this close should not leave
FINAL = 2.0  # for a right stop; the same is lost for a wrong one


@dataclass(frozen=True)
class RewardConfig:
    """Which parts of the reward are given; the paper's ablation switches them off."""

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
        sightings: Tensor | None = None,
    ) -> Tensor:
        """[time, row] the reward of each choice, in float64.

        Args:
            viewpoint: [time + 1, row] where each agent was before each choice, and at the end.
            slot: [time, row] what it chose; rewards of choices after a stop are meaningless and to be masked.
            path: [row, hop] the paths that the instructions describe, padded with their goals.
            path_length: [row] how many of their viewpoints are real.
            sightings: [row, any] in REVERIE, the viewpoints that show the target, padded with none.
        """
        left = self.world.metres(viewpoint, path[:, -1].expand_as(viewpoint))  # [time + 1, row] metres to the goal
        likeness = running_ndtw(self.world, viewpoint, path, path_length, self.distance)
        arrived = left < NEAR if sightings is None else self._found(viewpoint, left, sightings)
        moved, stopped = self._moves(left, likeness), self._stops(arrived[:-1], likeness[:-1])
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

    def _found(self, viewpoint: Tensor, left: Tensor, sightings: Tensor) -> Tensor:
        """[time, row] whether to stop here would be right in REVERIE."""
        if self.config.reverie_stop == "visible":
            return (viewpoint[..., None] == sightings).any(dim=-1)
        return left < AT_GOAL

    def _stops(self, arrived: Tensor, likeness: Tensor) -> Tensor:
        reward = torch.zeros_like(likeness)
        if self.config.progress:
            reward = reward + torch.where(arrived, FINAL, -FINAL)
        if self.config.fidelity:
            reward = reward + torch.where(arrived, FINAL * likeness, 0.0)
        return reward


def running_ndtw(world: World, viewpoint: Tensor, path: Tensor, path_length: Tensor, distance: Tensor) -> Tensor:
    """[time, row] nDTW of the walk so far, the start included. Staying where one is adds nothing."""
    pairs = world.pair(viewpoint[:, :, None], path)  # [time, row, hop]
    cost = distance[pairs].double()
    moved = torch.cat((torch.ones_like(viewpoint[:1], dtype=torch.bool), viewpoint[1:] != viewpoint[:-1]))
    return ndtw(dtw_cost(dtw_table(cost, moved), path_length), path_length)


def hop_distances(world: World) -> Tensor:
    """[pair] edges on the way between any two viewpoints of a scan, infinite where there is none."""
    from scipy.sparse import csr_array  # here, since few experiments count hops
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
