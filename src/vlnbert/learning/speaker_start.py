"""The speaker that an experiment starts with: random weights, a BERT's words, or a speaker that was trained before."""

from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.data.data import Data
from vlnbert.errors import DataError, UsageError, setting
from vlnbert.learning.run_folder import best_weights, is_run, while_trained
from vlnbert.learning.speaker_experiment import SpeakerExperiment
from vlnbert.speaker import Speaker, SpeakerConfig
from vlnbert.speaker.fitting import require_vocabulary
from vlnbert.speaker.speaker import describes_speaker
from vlnbert.tasks.tokens import piece_count
from vlnbert.weights.importing import find_tokenizer
from vlnbert.weights.options import resolve_source
from vlnbert.weights.reading import read_checkpoint

WORDS = "word_embeddings.weight"  # how the name of a BERT's words ends
PLACE = "speaker."  # of a speaker's settings in an experiment
CHANGEABLE = ("dropout", "feature_dropout")  # what an experiment may say of a speaker to start from


def initial_speaker(experiment: SpeakerExperiment, data: Data, asked: Collection[str] = ()) -> Speaker:
    """The speaker before its first update, its tokenizer in hand.

    `asked` are the places of settings that somebody chose, such as speaker.hidden: what of its shape the data or the
    words decide otherwise is refused by its name.
    """
    torch.manual_seed(experiment.training.seed)
    shape = replace(experiment.speaker, feature_width=data.view_bank.width, object_width=data.object_width)
    if experiment.start is None:
        speaker = Speaker(replace(shape, vocabulary=piece_count(data.tokenizer)))
        speaker.tokenizer = data.tokenizer
    elif (own := while_trained(Path(experiment.start), _own_speaker)) is not None:
        speaker = _fitted(own, shape)
    else:
        speaker = _with_words(experiment.start, shape)
    speaker.features = experiment.seen
    _require_as_asked(experiment.speaker, speaker.config, asked)
    require_vocabulary(speaker, data, experiment.start or "the speaker")
    return speaker


def _own_speaker(start: Path) -> Speaker | None:
    """The speaker in a run's folder (its best) or in a speaker's own; nothing for other people's weights."""
    folder = best_weights(start) if is_run(start) else start
    return Speaker.from_pretrained(folder) if describes_speaker(folder) else None


def _fitted(loaded: Speaker, shape: SpeakerConfig) -> Speaker:
    """A loaded speaker with the dropout that was asked for, if it is shown what it was before."""
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
    words, tokenizer = read_words(start)
    pieces, hidden = words.shape
    if hidden % shape.heads:
        problem = f"the words to start from are {hidden} wide, which {shape.heads} heads cannot share"
        raise UsageError(f"{problem}; choose a divisor of it: {setting('speaker.heads')}")
    speaker = Speaker(replace(shape, hidden=hidden, vocabulary=pieces))
    with torch.no_grad():
        speaker.word.weight.copy_(words)
    speaker.tokenizer = tokenizer
    return speaker


def read_words(source: str) -> tuple[Tensor, Tokenizer]:
    """The word embeddings [piece, width] of a BERT, and its tokenizer."""
    checkpoint = read_checkpoint(resolve_source(source))
    found = [name for name in checkpoint.tensors if name.endswith(WORDS)]
    if len(found) != 1:
        raise DataError(source, f"holds no {WORDS}", "give a BERT, such as all-MiniLM-L6-v2")
    words = checkpoint.tensors[found[0]].float()
    tokenizer = find_tokenizer(checkpoint, None, len(words))
    if tokenizer is None:
        remedy = "give a BERT's folder that holds its vocab.txt or tokenizer.json"
        raise DataError(source, "comes without a vocabulary, so its words have no names", remedy)
    return words, tokenizer


def _require_as_asked(shape: SpeakerConfig, made: SpeakerConfig, asked: Collection[str]) -> None:
    """Refuse, by its name, a setting of the shape that the speaker does not have."""
    named = {place.removeprefix(PLACE) for place in asked if place.startswith(PLACE)}
    for name in sorted({item.name for item in fields(made)} & named):
        said, found = getattr(shape, name), getattr(made, name)
        if said != found:
            owner = "the data or the words to start from"
            raise UsageError(f"{setting(PLACE + name)} is {said}, but {owner} decided on {found}; leave it out")
