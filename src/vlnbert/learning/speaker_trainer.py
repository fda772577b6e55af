"""A speaker's training: it learns what people said of paths, and is scored by how likely it finds what others said."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.tables import Summary
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.speaker_experiment import PERPLEXITY, SpeakerTrainConfig
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import fast
from vlnbert.ranks import ALONE, Ranks
from vlnbert.speaker import Speaker
from vlnbert.speaker.likelihood import batch_losses, instruction_likelihoods, perplexity
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.splits import Split


class SpeakerLearner(nn.Module):
    """The losses of a batch of instructions: the one module that gradients are taken of."""

    def __init__(self, speaker: Speaker, environment: Environment, config: SpeakerTrainConfig, ranks: Ranks) -> None:
        super().__init__()
        self.speaker, self.smoothing, self.ranks = speaker, config.label_smoothing, ranks
        self.dtype = fast.dtype_of(config.precision)
        self.environment = environment.in_dtype(self.dtype)

    def forward(self, batch: Batch, key: Tensor) -> Tensor:
        """[part] the mean loss of a word with smoothed labels, which carries the gradient, and without smoothing.

        Sums are divided by the mean counts of all ranks, so that the mean of their losses is that of the whole batch.
        """
        with torch.autocast(batch.tokens.device.type, self.dtype, enabled=self.dtype is not None):
            losses = batch_losses(self.speaker, self.environment, batch, self.smoothing)
        count = self.ranks.sum(losses.real.sum()).clamp(min=1) / self.ranks.count
        return torch.stack([losses.smoothed.sum() / count, (losses.negative_log.sum() / count).detach()])


class SpeakerTrainer(Trainer):
    """A speaker that learns on some splits."""

    parts = ("total", "cross_entropy")
    best_metric = PERPLEXITY
    config: SpeakerTrainConfig

    def __init__(
        self,
        run: Path,
        speaker: Speaker,
        environment: Environment,
        train: Sequence[Split],
        validation: Mapping[str, Split],
        config: SpeakerTrainConfig,
        best_on: str,
        ranks: Ranks = ALONE,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """`best_on` names the validation split whose perplexity decides. It may say what it learns from, no more."""
        self.speaker, self.environment = speaker, environment
        speaker.may_say(torch.cat([torch.unique(split.tokens.ids) for split in train]))
        super().__init__(
            run,
            speaker,
            SpeakerLearner(speaker, environment, config, ranks),
            BatchStream.of(train, config, ranks, environment.world.device),
            validation=validation,
            config=config,
            best_on=best_on,
            ranks=ranks,
            card=card,
            some_unused=speaker.encoder.target is not None,
        )

    def scores(self) -> dict[str, Summary]:
        return {name: self._scores(split) for name, split in self.validation.items()}

    def _scores(self, split: Split) -> Summary:
        found = instruction_likelihoods(
            self.speaker, self.environment, split, batch=self.config.validation_batch, ranks=self.ranks
        )
        return {PERPLEXITY: perplexity(*found), "episodes": len(split.episodes)}
