"""The training of speakers: on people's instructions for paths, scored by the perplexity of held-out ones."""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from vlnbert.data.data import Data
from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError, UsageError, listed, setting
from vlnbert.evaluation.metrics import Summary
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.recipe import Recipe, require_scored
from vlnbert.learning.run_folder import best_weights, file_of_a_run, is_run, while_trained
from vlnbert.navigator import fast
from vlnbert.navigator.model.navigator import allocate
from vlnbert.navigator.storage.folder import describes_speaker
from vlnbert.ranks import Ranks
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.experiment import PERPLEXITY, SpeakerExperiment, SpeakerTrainConfig
from vlnbert.speaker.model import batch_losses, instruction_likelihoods, perplexity
from vlnbert.speaker.speaker import Speaker, require_vocabulary
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.episodes import walkable
from vlnbert.tasks.splits import Split
from vlnbert.tasks.tokens import piece_count
from vlnbert.weights.importing import find_tokenizer
from vlnbert.weights.options import resolve_source
from vlnbert.weights.reading import read_checkpoint

if TYPE_CHECKING:
    from vlnbert.learning.run_record import RunRecord

WORDS = "word_embeddings.weight"  # the end of the name of a BERT's word embeddings
PLACE = "speaker."  # of a speaker's settings in an experiment
CHANGEABLE = ("dropout", "feature_dropout")  # settings of a speaker to start from that an experiment may change


class SpeakerLearner(nn.Module):
    """The losses of a batch of instructions; gradients are taken of this module."""

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
        """Do nothing: no loss of a speaker changes with the updates."""

    def unclipped(self) -> list[nn.Parameter]:
        """The parameters whose gradients may be of any size."""
        return []


class SpeakerRecipe(Recipe):
    """A network that turns paths into instructions."""

    name = "speaker"
    experiment = SpeakerExperiment

    def initial(self, experiment: SpeakerExperiment, data: Data, asked: Collection[str] = ()) -> Speaker:
        torch.manual_seed(experiment.training.seed)
        shape = replace(experiment.speaker, feature_width=data.view_bank.width, object_width=data.object_width)
        if experiment.start is None:
            speaker = Speaker(replace(shape, vocabulary=piece_count(data.tokenizer)))
            speaker.tokenizer = data.tokenizer
        elif (loaded := while_trained(Path(experiment.start), _read_speaker)) is not None:
            speaker = _with_dropout(loaded, shape)
        else:
            speaker = _with_words(experiment.start, shape)
        speaker.features = experiment.seen
        explicit = {place.removeprefix(PLACE) for place in asked if place.startswith(PLACE)}
        for name in sorted({item.name for item in fields(SpeakerConfig)} & explicit):
            wanted, made = getattr(experiment.speaker, name), getattr(speaker.config, name)
            if wanted != made:
                owner = "the data or the words to start from"
                raise UsageError(f"{setting(PLACE + name)} is {wanted}, but {owner} decided on {made}; leave it out")
        require_vocabulary(speaker, data, experiment.start or "the speaker")
        return speaker

    def reopen(self, checkpoint: Path) -> Speaker:
        with file_of_a_run():
            speaker = Speaker.unfilled(checkpoint)
        allocate(speaker, "cpu")
        return speaker

    def open(self, folder: Path) -> Speaker:
        return Speaker.from_pretrained(folder)

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
            whole = walkable(data.world, split.episodes.path, split.episodes.path_length).cpu()
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
        """The speaker may write the word pieces that it learns from, and no others."""
        model.may_write(torch.cat([torch.unique(split.tokens.ids) for split in batches.splits]))
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
            likelihoods = instruction_likelihoods(model, environment, split, config.validation_batch, ranks)
            scores[name] = {PERPLEXITY: perplexity(*likelihoods), "episodes": len(split.episodes)}
        return scores


RECIPE = SpeakerRecipe()


def _read_speaker(start: Path) -> Speaker | None:
    """The speaker in a run's folder (its best) or in a speaker's folder; None for other weights."""
    folder = best_weights(start) if is_run(start) else start
    return Speaker.from_pretrained(folder) if describes_speaker(folder) else None


def _with_dropout(loaded: Speaker, shape: SpeakerConfig) -> Speaker:
    """A loaded speaker with the dropout of a shape, whose features must be as wide as before."""
    for name in ("feature_width", "object_width"):
        if (was := getattr(loaded.config, name)) != (now := getattr(shape, name)):
            what = "views" if name == "feature_width" else "objects"
            problem = f"the {what} are {now} wide, the speaker to start from sees {was}"
            raise UsageError(f"{problem}; give the features that it was trained with")
    speaker = Speaker(replace(loaded.config, **{name: getattr(shape, name) for name in CHANGEABLE}))
    speaker.load_state_dict(loaded.state_dict())
    speaker.tokenizer = loaded.tokenizer
    return speaker


def _with_words(start: str, shape: SpeakerConfig) -> Speaker:
    """A new speaker with the word embeddings and the vocabulary of a BERT."""
    checkpoint = read_checkpoint(resolve_source(start))
    names = [name for name in checkpoint.tensors if name.endswith(WORDS)]
    if len(names) != 1:
        raise DataError(start, f"holds no {WORDS}", "give a BERT, such as all-MiniLM-L6-v2")
    words = checkpoint.tensors[names[0]].float()
    tokenizer = find_tokenizer(checkpoint, None, len(words))
    if tokenizer is None:
        remedy = "give a BERT's folder that holds its vocab.txt or tokenizer.json"
        raise DataError(start, "comes without a vocabulary, so its words have no names", remedy)
    pieces, hidden = words.shape
    if hidden % shape.heads:
        problem = f"the words to start from are {hidden} wide, which {shape.heads} heads cannot share"
        raise UsageError(f"{problem}; choose a divisor of it: {setting('speaker.heads')}")
    speaker = Speaker(replace(shape, hidden=hidden, vocabulary=pieces))
    with torch.no_grad():
        speaker.word.weight.copy_(words)
    speaker.tokenizer = tokenizer
    return speaker
