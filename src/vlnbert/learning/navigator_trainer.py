"""A navigator's training: it walks its batches, by the teacher and by itself, and is scored by how it walks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.tables import Summary
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.experiment import TrainConfig, best_metric
from vlnbert.learning.trainer import Trainer
from vlnbert.learning.updates import Learner
from vlnbert.learning.validation import validation_scores
from vlnbert.navigator import Navigator
from vlnbert.ranks import ALONE, Ranks
from vlnbert.tasks.splits import Split


class NavigatorTrainer(Trainer):
    """A navigator that learns on some splits."""

    config: TrainConfig

    def __init__(
        self,
        run: Path,
        navigator: Navigator,
        environment: Environment,
        train: Sequence[Split],
        validation: Mapping[str, Split],
        config: TrainConfig,
        best_on: str,
        ranks: Ranks = ALONE,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """`best_on` names the validation split whose score decides; `card` is what the best's model card shall tell."""
        self.navigator, self.environment = navigator, environment
        batches = BatchStream.of(train, config, ranks, environment.world.device)
        learner = Learner(
            navigator,
            environment,
            config,
            ranks=ranks,
            teacher_rows=batches.teacher_rows(environment.world),
            row_policy=batches.row_policy,
        )
        self.parts = learner.objective.parts
        super().__init__(
            run,
            navigator,
            learner,
            batches,
            validation=validation,
            config=config,
            best_on=best_on,
            ranks=ranks,
            card=card,
            unclipped=learner.objective.unclipped(),
            some_unused=navigator.object_embedding is not None,
        )

    def scores(self) -> dict[str, Summary]:
        return validation_scores(
            self.environment, self.navigator, self.validation, config=self.config, ranks=self.ranks
        )

    @property
    def best_metric(self) -> str:
        return best_metric(self.best_on)
