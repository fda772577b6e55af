"""How agents walk: the settings that all verbs which let one walk have in common."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from vlnbert.errors import UnknownNameError
from vlnbert.features.spec import FeatureSpec
from vlnbert.runtime import Precision, require_within

if TYPE_CHECKING:
    from vlnbert.features.opening import Features

Checkpoint = Literal["best", "last"]
SplBy = Literal["shortest", "reference"]


@dataclass(frozen=True)
class WalkOptions:
    """How an agent walks; by default as it did in its training, else as its task asks for."""

    checkpoint: Checkpoint = "best"
    """Which weights of a run walk: the best, or those of its last checkpoint; averaged ones if the run averages."""
    features: "FeatureSpec | str | Path | Features | None" = None
    """What the agent sees, if that differs from what it was trained with; features in memory are given again."""
    seed: int = 0
    """Seed of agents that draw random numbers."""
    max_steps: int | None = None
    """Steps after which an episode ends; by default as in the training, else the task's: 15 in R2R."""
    batch: int | None = None
    """Episodes that walk together; by default 64 on a CPU, 1024 on a GPU, and all of them for agents without text."""
    precision: Precision = "float32"
    """Precision of a navigator's tokens; "fastest" takes the one that multiplies faster on this device."""
    device: str | None = None
    """Where to walk, such as cpu or cuda; by default that of the data, which is cpu for a folder."""

    def __post_init__(self) -> None:
        require_within(
            max_steps=(1 if self.max_steps is None else self.max_steps, 1, 1000),
            batch=(1 if self.batch is None else self.batch, 1, 1_000_000),
        )
        for name, value, known in (
            ("precision", self.precision, Precision),
            ("checkpoint", self.checkpoint, Checkpoint),
        ):
            if value not in get_args(known):
                raise UnknownNameError(name, value, get_args(known))
