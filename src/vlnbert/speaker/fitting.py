"""Whether a speaker and a data folder go together: the same channels, widths and words; or one line on why not."""

from dataclasses import replace
from os.path import realpath

from vlnbert.data.data import Data
from vlnbert.errors import UsageError, setting
from vlnbert.features.spec import OFF, FeatureSpec
from vlnbert.speaker.speaker import Speaker

# What a speaker was shown where nothing was said.
UNSAID = {"views": "the only feature file", "objects": "the only object feature file", "max_objects": "without a limit"}


def shown_to_speaker(speaker: Speaker, data: Data, name: str = "the speaker") -> Data:
    """The data as a speaker, called by its name, was shown it; what the data was opened with must be the same."""
    learned = speaker.features
    _require_same_features(speaker, data.features, name)
    objects = learned.objects if speaker.config.object_width else OFF
    shown = data.seen_as(replace(learned, objects=objects))
    require_vocabulary(speaker, shown, name)
    found = {"view": shown.view_bank.width, "object": shown.object_width}
    wanted = {"view": speaker.config.feature_width, "object": speaker.config.object_width}
    for what, width in wanted.items():
        if found[what] != width:
            problem = f"{name} knows {what}s {width} wide, and they are {found[what]}"
            raise UsageError(f"{problem}; give the features that it was trained with: {setting(f'features.{what}s')}")
    return shown


def require_vocabulary(speaker: Speaker, data: Data, name: str) -> None:
    """Refuse a speaker of other words than the data's: neither would understand the other's tokens."""
    own, known = speaker.tokenizer, data.tokenizer
    if own is None or own.get_vocab() != known.get_vocab():
        pieces = 0 if own is None else own.get_vocab_size()
        problem = f"{name} has another vocabulary, of {pieces:,} word pieces, than {data.folder.vocabulary}"
        raise UsageError(f"{problem}, of {known.get_vocab_size():,}; give the data that it belongs to")


def _require_same_features(speaker: Speaker, asked: FeatureSpec, name: str) -> None:
    """Refuse what the data was opened with, where the speaker was shown something else."""
    config, usual = speaker.config, FeatureSpec()
    learned = replace(speaker.features, view_width=config.feature_width, object_width=config.object_width)
    objects = ("objects", "object_width", "max_objects") if config.object_width else ()
    for place in ("views", "view_width", "encoder", *objects):
        said, known = getattr(asked, place), getattr(learned, place)
        if said != getattr(usual, place) and _what(asked, place) != _what(learned, place):
            problem = f"{name} was shown {place} {known or UNSAID[place]}, and the data is opened with {said}"
            raise UsageError(
                f"{problem}; open it with what the speaker was shown, or leave out {setting(f'features.{place}')}"
            )


def _what(features: FeatureSpec, place: str) -> object:
    """What a setting means: some names stand for several channels, and a file has many paths."""
    said = getattr(features, place)
    channels = {"views": features.view_channels, "objects": features.object_channels}.get(place)
    return channels or (realpath(said) if isinstance(said, str) else said)
