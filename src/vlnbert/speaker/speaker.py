"""Speakers as folders, or on the hub: weights, words and features; and whether one goes with a data folder."""

import json
from dataclasses import asdict, fields, replace
from os.path import realpath
from pathlib import Path
from typing import Any, Self

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.data.data import Data
from vlnbert.errors import DataError, UsageError, setting
from vlnbert.features.opening import from_kept
from vlnbert.features.spec import OFF, FeatureSpec
from vlnbert.navigator.storage.folder import (
    CONFIG,
    FEATURES,
    FEW_LAYERS,
    SPEAKER,
    TOKENIZER,
    WEIGHTS,
    WHOLE_WEIGHTS,
    check_file,
    check_fit,
    find_folder,
    noting,
    read_safetensors,
    read_shown,
    read_tokenizer,
    stored_shapes,
    weight_problem,
    write_tokenizer,
)
from vlnbert.sources.files import FORMAT, format_of, read_json
from vlnbert.sources.writing import read_whole
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.model import SpeakerModel
from vlnbert.tasks.tokens import require_fit

NEWEST = 1  # format of a speaker's config.json
SPOKEN = "spoken"  # the tensor that is no weight: the word pieces that may be written
GIVE = "give a speaker's folder, as vlnbert train speaker-open makes one"
SAVE_AGAIN = "save the speaker again"

TEMPLATE = """---
{{ card_data }}
---

# A speaker

It turns a path through a house into an instruction that leads along it.
{% if preset %}
Trained with the preset `{{ preset }}`.
{% endif %}{% if scores %}
| split | perplexity |
| --- | --- |
{% for split, score in scores.items() -%}
| {{ split }} | {{ "%.2f"|format(score.perplexity) }} |
{% endfor %}{% endif %}
| configuration | |
| --- | --- |
{% for name, value in facts.items() -%}
| {{ name }} | {{ value }} |
{% endfor %}
```python
import vlnbert as vln

print(vln.speak("{{ repo_id | default('path or hub name') }}", data="data", split="r2r/val_unseen"))
```
"""


class Speaker(
    SpeakerModel,
    PyTorchModelHubMixin,
    library_name="vlnbert",
    tags=["vision-and-language-navigation", "instruction-generation"],
    model_card_template=TEMPLATE,
):
    """A network that describes paths. Its `tokenizer` and its `features` are saved and loaded with it."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__(config)
        self.tokenizer: Tokenizer | None = None
        self.features = FeatureSpec()

    def _save_pretrained(self, save_directory: Path) -> None:
        config = {FORMAT: NEWEST, SPEAKER: asdict(self.config), FEATURES: asdict(self.features)}
        with noting(save_directory, {WEIGHTS: self.state_dict(), CONFIG: None, TOKENIZER: None}):
            super()._save_pretrained(save_directory)
            (save_directory / CONFIG).write_text(json.dumps(config, sort_keys=True, indent=2))
            if self.tokenizer is not None:
                write_tokenizer(save_directory / TOKENIZER, self.tokenizer)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The card shows the configuration, and `preset` and `scores` where they are given."""
        facts = {name.replace("_", " "): value for name, value in asdict(self.config).items()}
        return super().generate_model_card(*args, facts={"views": self.features.views or "a file", **facts}, **kwargs)

    @classmethod
    def from_pretrained(  # type: ignore[override]  # the model has no options
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> Self:
        """Open a speaker from its folder, or by its name on the hub, which the options are for."""
        source, hub = pretrained_model_name_or_path, {"token": token, "cache_dir": cache_dir, "revision": revision}
        folder = find_folder(
            source,
            (CONFIG, WEIGHTS, TOKENIZER),
            GIVE,
            force_download=force_download,
            local_files_only=local_files_only,
            **hub,
        )
        return read_whole(folder, cls._opened)

    @classmethod
    def _opened(cls, folder: Path) -> Self:
        speaker = cls.unfilled(folder)
        speaker.load_state_dict(speaker.read_weights(folder), assign=True)
        return speaker.eval()

    @classmethod
    def unfilled(cls, folder: Path) -> Self:
        """A speaker in the shape that a folder describes, with its tokenizer; its weights are on the meta device."""
        config, features = _read_config(folder / CONFIG)
        stored, layers = stored_shapes(folder / WEIGHTS), config.encoder_layers + config.decoder_layers
        # A network of so many layers is not even built.
        if layers > max(len(stored), FEW_LAYERS):
            problem = f"describes {layers:,} layers, but {WEIGHTS} holds {len(stored):,} weights"
            raise DataError(folder / CONFIG, problem, SAVE_AGAIN)
        with torch.device("meta"):
            speaker = cls(config)
        check_fit(folder / WEIGHTS, stored, speaker._shapes(), SAVE_AGAIN)
        speaker.features, speaker.tokenizer = features, read_tokenizer(folder / TOKENIZER)
        require_fit(folder / TOKENIZER, speaker.tokenizer, config.vocabulary)
        return speaker

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        """The weights in a folder, which must be those of this speaker, in their shapes."""
        path = folder / WEIGHTS
        check_fit(path, stored_shapes(path), self._shapes(), SAVE_AGAIN)
        tensors, _ = read_safetensors(path)
        for name, tensor in tensors.items():
            problem = weight_problem(tensor) if name != SPOKEN else None
            if name == SPOKEN and (tensor.dtype != torch.bool or not tensor.any()):
                problem = "does not hold which word pieces may be written"
            if problem is not None:
                raise DataError(path, problem, WHOLE_WEIGHTS, name)
        return tensors

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self.state_dict().items()}

    @property
    def marks(self) -> tuple[int, int]:
        """The tokens that begin and end an instruction: [CLS] and [SEP]."""
        if self.tokenizer is None:
            raise UsageError("the speaker has no tokenizer; set speaker.tokenizer")
        known = self.tokenizer.get_vocab()
        return known["[CLS]"], known["[SEP]"]

    def may_write(self, pieces: Tensor) -> None:
        """Let the speaker write these word pieces and no others; of the marks only the end."""
        begin, end = self.marks
        self.spoken.zero_()
        self.spoken[pieces.flatten().to(self.spoken.device)] = True
        unknown = None if self.tokenizer is None else self.tokenizer.token_to_id("[UNK]")
        for mark in (0, begin, unknown):
            if mark is not None:
                self.spoken[mark] = False
        self.spoken[end] = True


def _read_config(path: Path) -> tuple[SpeakerConfig, FeatureSpec]:
    check_file(path)
    values = read_json(path, "configuration")
    if not isinstance(values, dict) or not isinstance(values.get(SPEAKER), dict):
        raise DataError(path, "does not describe a speaker", GIVE)
    format_of(path, values, NEWEST)
    known = {item.name for item in fields(SpeakerConfig)}
    try:
        config = SpeakerConfig(**{name: value for name, value in values[SPEAKER].items() if name in known})
    except UsageError as error:
        raise DataError(path, str(error), SAVE_AGAIN) from None
    return config, from_kept(read_shown(path, values.get(FEATURES, {}), "speaker", SAVE_AGAIN))


# The features that a speaker was trained with where none were named.
DEFAULTS = {
    "views": "the only feature file",
    "objects": "the only object feature file",
    "max_objects": "without a limit",
}


def shown_to_speaker(speaker: Speaker, data: Data, name: str = "the speaker") -> Data:
    """The data with the features of a speaker; those that the data was opened with must be the same."""
    config, opened, usual = speaker.config, data.features, FeatureSpec()
    learned = replace(speaker.features, view_width=config.feature_width, object_width=config.object_width)
    of_objects = ("objects", "object_width", "max_objects") if config.object_width else ()
    for place in ("views", "view_width", "encoder", *of_objects):
        value, known = getattr(opened, place), getattr(learned, place)
        if value != getattr(usual, place) and _meaning(opened, place) != _meaning(learned, place):
            problem = f"{name} was trained with {place} {known or DEFAULTS[place]}, and the data is opened with {value}"
            raise UsageError(f"{problem}; open it with the same, or leave out {setting(f'features.{place}')}")
    objects = speaker.features.objects if config.object_width else OFF
    shown = data.seen_as(replace(speaker.features, objects=objects))
    require_vocabulary(speaker, shown, name)
    widths = (
        ("view", config.feature_width, shown.view_bank.width),
        ("object", config.object_width, shown.object_width),
    )
    for kind, known, width in widths:
        if known != width:
            problem = f"{name} knows {kind}s {known} wide, and they are {width}"
            raise UsageError(f"{problem}; give the features that it was trained with: {setting(f'features.{kind}s')}")
    return shown


def require_vocabulary(speaker: Speaker, data: Data, name: str) -> None:
    """Refuse a speaker of other words than the data's: neither would understand the other's tokens."""
    own, known = speaker.tokenizer, data.tokenizer
    if own is None or own.get_vocab() != known.get_vocab():
        pieces = 0 if own is None else own.get_vocab_size()
        problem = f"{name} has another vocabulary, of {pieces:,} word pieces, than {data.folder.vocabulary}"
        raise UsageError(f"{problem}, of {known.get_vocab_size():,}; give the data that it belongs to")


def _meaning(features: FeatureSpec, place: str) -> object:
    """A setting in a form that can be compared: some names stand for several channels, and a file has many paths."""
    value = getattr(features, place)
    channels = {"views": features.view_channels, "objects": features.object_channels}.get(place)
    return channels or (realpath(value) if isinstance(value, str) else value)
