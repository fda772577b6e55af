"""What agents earn, counted the way of the published code: one agent after the other, nDTW anew at every step.

The rules are those of `learning/rewards.py`, which explains them.
"""

import math
from collections.abc import Sequence

from vlnbert.evaluation.metrics import NEAR
from vlnbert.learning.rewards import AT_GOAL, FINAL, RewardConfig, Rewards
from vlnbert.world.world import STOP, World


class Purses:
    """What the agents of one world earn."""

    def __init__(self, world: World, config: RewardConfig) -> None:
        self.config = config
        self.row: list[int] = world.row.tolist()
        self.column: list[int] = world.column.tolist()
        self.metres: list[float] = world.distance.tolist()
        self.apart: list[float] = Rewards(world, config).distance.tolist()  # what nDTW measures

    def open(self, start: int, path: Sequence[int]) -> "Purse":
        return Purse(self, start, path)

    def left(self, viewpoint: int, goal: int) -> float:
        """Metres to the goal."""
        return self.metres[self.row[viewpoint] + self.column[goal]]

    def likeness(self, walked: Sequence[int], path: Sequence[int]) -> float:
        """nDTW of a walk, from its first viewpoint on."""
        before = [0.0] + [math.inf] * len(path)
        for viewpoint in walked:
            now = [math.inf]
            for place, other in enumerate(path):
                cost = self.apart[self.row[viewpoint] + self.column[other]]
                now.append(cost + min(before[place], before[place + 1], now[place]))
            before = now
        return math.exp(-before[-1] / (NEAR * len(path)))


class Purse:
    """What one agent has earned lately depends on where it was before."""

    def __init__(self, purses: Purses, start: int, path: Sequence[int]) -> None:
        self.purses, self.path, self.walked = purses, path, [start]
        self.left, self.likeness = purses.left(start, path[-1]), purses.likeness(self.walked, path)

    def earn(self, slot: int, viewpoint: int) -> float:
        """The reward of a choice that led to a viewpoint."""
        left, likeness = self.left, self.likeness
        if slot != STOP:
            self.walked.append(viewpoint)
        self.left = self.purses.left(viewpoint, self.path[-1])
        self.likeness = self.purses.likeness(self.walked, self.path)
        return self._stopped() if slot == STOP else self._moved(left, likeness)

    def _stopped(self) -> float:
        config, arrived, reward = self.purses.config, self.left < NEAR, 0.0
        if config.progress:
            reward += FINAL if arrived else -FINAL
        if config.fidelity and arrived:
            reward += FINAL * self.likeness
        return reward

    def _moved(self, left: float, likeness: float) -> float:
        config, reward = self.purses.config, 0.0
        if config.progress:
            reward += 1.0 if self.left < left else -1.0
        if config.fidelity:
            reward += self.likeness - likeness
        if config.departure and left <= AT_GOAL and self.left > left:
            reward -= FINAL * (AT_GOAL - left)
        return reward
