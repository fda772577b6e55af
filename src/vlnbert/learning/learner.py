"""What a batch costs: the rollout and its objective, as the one module that gradients are taken of.

It is a module so that `DistributedDataParallel` can hold it: the whole rollout is its forward pass.
"""

import torch
from torch import Tensor, nn

from vlnbert.environment.environment import Environment
from vlnbert.learning.config import TrainConfig
from vlnbert.learning.objective import Objective, navigation_objective
from vlnbert.learning.rewards import Rewards
from vlnbert.navigator import Navigator, fast
from vlnbert.ranks import Ranks
from vlnbert.rollout.explore import Explorer, Lesson, explore
from vlnbert.tasks.batches import Batch

PARTS = ("total", "imitation", "policy", "value", "entropy", "grounding")


class Learner(nn.Module):
    """A navigator among those that learn together."""

    def __init__(
        self, navigator: Navigator, environment: Environment, config: TrainConfig, ranks: Ranks, lesson: Lesson
    ) -> None:
        super().__init__()
        self.navigator, self.environment, self.config, self.ranks = navigator, environment, config, ranks
        self.lesson = lesson
        self.rewards = Rewards(environment.world, config.rewards)

    def forward(self, batch: Batch, how: Tensor, key: Tensor) -> Tensor:
        """[part] the objective of a batch and its parts, as PARTS names them; the first carries the gradient."""
        environment = self.environment.for_task("r2r" if batch.sightings is None else "reverie")
        given = (batch.tokens, how, key, batch.target, self.config.limit, self.lesson)
        explorer = Explorer(self.navigator, environment, *given)
        with fast.enabled(fast.dtype_of(self.config.precision)):
            rollout = explore(environment, explorer, batch.start, batch.heading, batch.goal)
        weights, paths = self.config.objective, (batch.path, batch.path_length)
        return _stacked(navigation_objective(rollout, how, self.rewards, *paths, weights, self.ranks, batch.sightings))


def _stacked(objective: Objective) -> Tensor:
    parts = [getattr(objective, name) for name in PARTS]
    return torch.stack([parts[0], *(part.detach() for part in parts[1:])])
