"""Everything that defines a training, beside the navigator: a field's docstring is its help."""

import math
from dataclasses import dataclass, field
from typing import Literal

from vlnbert.errors import UsageError
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.records import require_range
from vlnbert.learning.rewards import RewardConfig

MOST = 1_000_000_000  # of anything that is counted


@dataclass(frozen=True)
class TrainConfig:
    """A training. The defaults are the paper's R2R recipe."""

    iterations: int = 300_000
    """Updates of the weights."""
    batch: int = 16
    """Rows of an update: half follow the teacher, half explore."""
    rate: float = 1e-5
    """Learning rate."""
    schedule: Literal["constant", "cosine"] = "constant"
    """The rate over time: constant, as in the paper, or a cosine down to a hundredth."""
    warmup: int = 0
    """Updates over which the rate rises from zero."""
    weight_decay: float = 0.01
    """Of AdamW, on every weight."""
    clip: float = 40.0
    """Largest norm of the navigator's gradient; the critic's is not clipped."""
    accumulate: int = 1
    """Batches whose gradients make one update."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the forward pass. Weights, losses and the optimiser stay in float32; bfloat16 is for GPUs."""
    graphs: bool = True
    """On one GPU, record updates as CUDA graphs and replay them: the same numbers, several times faster. Updates from
    several batches (accumulate) or several processes are not recorded."""
    limit: int = 15
    """Steps of an episode."""
    validate_every: int = 2000
    """Updates between validations, which are also when the run is saved."""
    validation_batch: int = 256
    """Episodes that are walked together in a validation."""
    report_every: int = 10
    """Updates between lines of the log. On a GPU, to report is to wait."""
    patience: int = 0
    """Validations without a better score after which training stops; 0 for never."""
    seed: int = 0
    """Chooses initial weights, batches, dropout and what is explored."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """Weights of the losses."""
    rewards: RewardConfig = field(default_factory=RewardConfig)
    """Parts of the reward."""

    def __post_init__(self) -> None:
        if self.batch < 2 or self.batch % 2:
            raise UsageError(f"a batch of {self.batch} has no two halves; choose an even number")
        require_range(self, 1, MOST, "iterations", "accumulate", "limit", "validate_every", "validation_batch")
        require_range(self, 1, MOST, "report_every", "batch")
        require_range(self, 0, MOST, "warmup", "patience")
        require_range(self, 0, 2**63 - 1, "seed")
        require_range(self, 0.0, 1.0, "rate", "weight_decay")
        require_range(self, 1e-9, 1e9, "clip")

    def rate_at(self, iteration: int) -> float:
        """The learning rate of an update: a pure function, so there is no schedule to save."""
        risen = min(1.0, (iteration + 1) / self.warmup) if self.warmup else 1.0
        if self.schedule == "constant":
            return self.rate * risen
        done = iteration / self.iterations
        return self.rate * risen * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
