"""Speakers: they learn what people said of paths, and are scored by how likely they find what others said."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vlnbert.data.data import Data
from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, listed, setting
from vlnbert.evaluation.tables import Summary
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.checkpoints import unfilled_speaker
from vlnbert.learning.recipe import Recipe, require_scored
from vlnbert.learning.speaker_experiment import PERPLEXITY, SpeakerExperiment, SpeakerTrainConfig
from vlnbert.learning.speaker_start import initial_speaker
from vlnbert.navigator import fast
from vlnbert.ranks import Ranks
from vlnbert.speaker import Paths, Speaker
from vlnbert.speaker.likelihood import batch_losses, instruction_likelihoods, perplexity
from vlnbert.speaker.paths import connected
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.splits import Split

if TYPE_CHECKING:
    from vlnbert.learning.run_record import RunRecord


class SpeakerLearner(nn.Module):
    """The losses of a batch of instructions: the one module that gradients are taken of."""

    parts = ("total", "cross_entropy")

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

    def begin_update(self, iteration: int) -> None:
        """Nothing of it changes with the updates."""

    def unclipped(self) -> list[nn.Parameter]:
        """The parameters whose gradients may be of any size."""
        return []


class SpeakerRecipe(Recipe):
    """A network that turns paths into instructions."""

    name = "speaker"
    experiment = SpeakerExperiment
    shape = "speaker"

    def initial(self, experiment: SpeakerExperiment, data: Data, asked: Collection[str] = ()) -> Speaker:
        return initial_speaker(experiment, data, asked)

    def reopen(self, checkpoint: Path) -> Speaker:
        return unfilled_speaker(checkpoint)

    def as_trained(self, experiment: SpeakerExperiment, model: Speaker) -> SpeakerExperiment:
        return replace(experiment, speaker=model.config)

    def splits(self, record: "RunRecord", data: Data, model: Speaker) -> tuple[dict[str, Split], list[str]]:
        splits, notes = dict[str, Split](), list[str]()
        for name in record.experiment.splits:
            split = data.split(name, model.tokenizer, model.config.max_tokens)
            require_scored(name, split)
            hops = int(split.episodes.path_length.max())
            if hops > model.config.max_hops:
                problem = f"{name} has paths of {hops} viewpoints, the speaker reads at most {model.config.max_hops}"
                raise UsageError(f"{problem}; let it read more: {setting('speaker.max_hops', hops)}")
            whole = connected(data.world, Paths.of(split.episodes)).cpu()
            if not whole.all():
                broken = (~whole).nonzero().flatten().tolist()
                ids = listed([split.episodes.ids[row] for row in broken], 3)
                notes.append(f"{name}: {len(broken):,} paths are not connected, and left out: {ids}")
                split = split.select(whole.nonzero().flatten())
            if not len(split.episodes):
                raise UsageError(f"{name} has no path that is connected; choose another split")
            splits[name] = split
        return splits, notes

    def learner(
        self,
        model: Speaker,
        environment: Environment,
        batches: BatchStream,
        config: SpeakerTrainConfig,
        ranks: Ranks,
    ) -> SpeakerLearner:
        """It may say what it learns from, no more."""
        model.may_say(torch.cat([torch.unique(split.tokens.ids) for split in batches.splits]))
        return SpeakerLearner(model, environment, config, ranks)

    def scores(
        self,
        model: Speaker,
        environment: Environment,
        validation: Mapping[str, Split],
        config: SpeakerTrainConfig,
        ranks: Ranks,
    ) -> dict[str, Summary]:
        scores: dict[str, Summary] = {}
        for name, split in validation.items():
            found = instruction_likelihoods(model, environment, split, batch=config.validation_batch, ranks=ranks)
            scores[name] = {PERPLEXITY: perplexity(*found), "episodes": len(split.episodes)}
        return scores

    def best_metric(self, best_on: str) -> str:
        return PERPLEXITY

    def drops(self, model: Any) -> bool:
        return any(rate for name, rate in vars(model.config).items() if name.endswith("dropout"))
