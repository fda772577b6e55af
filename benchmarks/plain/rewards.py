"""Rewards, computed the way of the published code: one agent after the other, nDTW anew at every step.

The rules are those of `learning/rewards.py`, which explains them.
"""

import math
from collections.abc import Sequence

from vlnbert.learning.rewards import AT_GOAL, FINAL, RewardConfig, Rewards
from vlnbert.tasks.task import NEAR
from vlnbert.world.world import STOP, World


class PlainRewards:
    """The rewards of one world."""

    def __init__(self, world: World, config: RewardConfig) -> None:
        self.config = config
        self.row: list[int] = world.row.tolist()
        self.column: list[int] = world.column.tolist()
        self.metres: list[float] = world.distance.tolist()
        self.ndtw_distance: list[float] = Rewards(world, config).distance.tolist()  # in metres or hops

    def begin(self, start: int, path: Sequence[int]) -> "EpisodeRewards":
        return EpisodeRewards(self, start, path)

    def distance(self, viewpoint: int, goal: int) -> float:
        """Metres to the goal."""
        return self.metres[self.row[viewpoint] + self.column[goal]]

    def ndtw(self, walked: Sequence[int], path: Sequence[int]) -> float:
        """nDTW of a walk, from its first viewpoint on."""
        before = [0.0] + [math.inf] * len(path)
        for viewpoint in walked:
            now = [math.inf]
            for place, other in enumerate(path):
                cost = self.ndtw_distance[self.row[viewpoint] + self.column[other]]
                now.append(cost + min(before[place], before[place + 1], now[place]))
            before = now
        return math.exp(-before[-1] / (NEAR * len(path)))


class EpisodeRewards:
    """The rewards of one agent: each depends on where it was before."""

    def __init__(self, rewards: PlainRewards, start: int, path: Sequence[int]) -> None:
        self.rewards, self.path, self.walked = rewards, path, [start]
        self.distance, self.ndtw = rewards.distance(start, path[-1]), rewards.ndtw(self.walked, path)

    def step(self, slot: int, viewpoint: int) -> float:
        """The reward of a choice that led to a viewpoint."""
        distance, ndtw = self.distance, self.ndtw
        if slot != STOP:
            self.walked.append(viewpoint)
        self.distance = self.rewards.distance(viewpoint, self.path[-1])
        self.ndtw = self.rewards.ndtw(self.walked, self.path)
        return self._stopped() if slot == STOP else self._moved(distance, ndtw)

    def _stopped(self) -> float:
        config, arrived, reward = self.rewards.config, self.distance < NEAR, 0.0
        if config.progress:
            reward += FINAL if arrived else -FINAL
        if config.fidelity and arrived:
            reward += FINAL * self.ndtw
        return reward

    def _moved(self, distance: float, ndtw: float) -> float:
        config, reward = self.rewards.config, 0.0
        if config.progress:
            reward += 1.0 if self.distance < distance else -1.0
        if config.fidelity:
            reward += self.ndtw - ndtw
        if config.departure and distance <= AT_GOAL and self.distance > distance:
            reward -= FINAL * (AT_GOAL - distance)
        return reward
