"""The speaker that is saved to a folder or the hub, and opened from there: weights, words and what it was shown."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Self

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.data.shown import from_kept
from vlnbert.data.spec import FeatureSpec
from vlnbert.errors import DataError, UsageError
from vlnbert.navigator.storage.digests import check_file, noting
from vlnbert.navigator.storage.folder import (
    CONFIG,
    FEW_LAYERS,
    SPEAKER,
    TOKENIZER,
    WEIGHTS,
    WHOLE_WEIGHTS,
    check_fit,
    find_folder,
    read_safetensors,
    read_tokenizer,
    require_files,
    stored_shapes,
    weight_problem,
    write_tokenizer,
)
from vlnbert.navigator.storage.shown import FEATURES, read_shown
from vlnbert.sources.files import read_json
from vlnbert.sources.folders import read_whole
from vlnbert.sources.formats import FORMAT, format_of
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.model import SpeakerModel
from vlnbert.tasks.tokens import require_fit

NEWEST = 1  # format of a speaker's config.json
SPOKEN = "spoken"  # the one tensor that is no weight
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
    """A network that tells of paths. `tokenizer` and `features`, what it was shown, are saved and loaded with it."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__(config)
        self.tokenizer: Tokenizer | None = None
        self.features = FeatureSpec()

    def _save_pretrained(self, save_directory: Path) -> None:
        told = {FORMAT: NEWEST, SPEAKER: asdict(self.config), FEATURES: asdict(self.features)}
        with noting(save_directory, {WEIGHTS: self.state_dict(), CONFIG: None, TOKENIZER: None}):
            super()._save_pretrained(save_directory)
            (save_directory / CONFIG).write_text(json.dumps(told, sort_keys=True, indent=2))
            if self.tokenizer is not None:
                write_tokenizer(save_directory / TOKENIZER, self.tokenizer)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The card shows the configuration; it may be told `preset` and `scores`."""
        facts = {name.replace("_", " "): value for name, value in asdict(self.config).items()}
        return super().generate_model_card(*args, facts={"views": self.features.views or "a file", **facts}, **kwargs)

    @classmethod
    def from_pretrained(  # type: ignore[override]  # there are no options of the model's own
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> Self:
        """A speaker from its folder, or by its name on the hub; the options are for the latter."""
        folder = find_folder(
            pretrained_model_name_or_path,
            GIVE,
            force_download=force_download,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            revision=revision,
        )
        require_files(pretrained_model_name_or_path, folder, (CONFIG, WEIGHTS, TOKENIZER), GIVE)
        return read_whole(folder, cls._opened)

    @classmethod
    def _opened(cls, folder: Path) -> Self:
        speaker = cls.unfilled(folder)
        speaker.load_state_dict(speaker.read_weights(folder), assign=True)
        return speaker.eval()

    @classmethod
    def unfilled(cls, folder: Path) -> Self:
        """A speaker in the shape that a folder describes, with its words, and without room for any weights yet."""
        config, features = _read_config(folder / CONFIG)
        stored, layers = stored_shapes(folder / WEIGHTS), config.encoder_layers + config.decoder_layers
        if layers > max(len(stored), FEW_LAYERS):  # as many as that are not even built
            problem = f"describes {layers:,} layers, but {WEIGHTS} holds {len(stored):,} weights"
            raise DataError(folder / CONFIG, problem, SAVE_AGAIN)
        with torch.device("meta"):
            speaker = cls(config)
        check_fit(folder / WEIGHTS, stored, speaker._shapes(), SAVE_AGAIN)
        speaker.features, speaker.tokenizer = features, read_tokenizer(folder / TOKENIZER)
        require_fit(folder / TOKENIZER, speaker.tokenizer, config.vocabulary)
        return speaker

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        """The weights in a folder, if they are all of this speaker's, no others, in their shapes."""
        path = folder / WEIGHTS
        check_fit(path, stored_shapes(path), self._shapes(), SAVE_AGAIN)
        tensors, _ = read_safetensors(path)
        for name, tensor in tensors.items():
            problem = weight_problem(tensor) if name != SPOKEN else _spoken_problem(tensor)
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

    def may_say(self, pieces: Tensor) -> None:
        """Let it say these word pieces and no others; of the marks only the end."""
        begin, end = self.marks
        self.spoken.zero_()
        self.spoken[pieces.flatten().to(self.spoken.device)] = True
        unknown = None if self.tokenizer is None else self.tokenizer.token_to_id("[UNK]")
        for mark in (0, begin, unknown):
            if mark is not None:
                self.spoken[mark] = False
        self.spoken[end] = True


def _spoken_problem(tensor: Tensor) -> str | None:
    if tensor.dtype != torch.bool or not tensor.any():
        return "does not tell which word pieces may be said"
    return None


def _read_config(path: Path) -> tuple[SpeakerConfig, FeatureSpec]:
    check_file(path)
    told = read_json(path, "configuration")
    if not isinstance(told, dict) or not isinstance(told.get(SPEAKER), dict):
        raise DataError(path, "does not describe a speaker", GIVE)
    format_of(path, told, NEWEST)
    known = {item.name for item in fields(SpeakerConfig)}
    try:
        config = SpeakerConfig(**{name: value for name, value in told[SPEAKER].items() if name in known})
    except UsageError as error:
        raise DataError(path, str(error), SAVE_AGAIN) from None
    return config, from_kept(read_shown(path, told.get(FEATURES, {}), "speaker", SAVE_AGAIN))
