"""The navigator that is saved to a folder or the hub, opened from there, and described in a model card."""

from html import escape
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelCard, PyTorchModelHubMixin
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.navigator.model import Backbone, NavigatorConfig, RecurrentVLNBert
from vlnbert.navigator.storage.digests import check_file, noting
from vlnbert.navigator.storage.folder import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    Limits,
    expected_shapes,
    find_navigator_folder,
    read_config,
    read_features,
    read_limits,
    read_tokenizer,
    read_weights,
    write_config,
    write_tokenizer,
)
from vlnbert.navigator.storage.shown import Shown, describe_shown
from vlnbert.sources.writing import read_whole
from vlnbert.tasks.tokens import SPECIAL, require_fit

TEMPLATE = """---
{{ card_data }}
---

# A Recurrent VLN-BERT navigator

An agent that reads an instruction and walks through a house, by attention alone
([paper](https://arxiv.org/abs/2011.13922)).
{% if source %}
Imported from `{{ source }}`{% if family %}, {{ family }}{% endif %}.
{% endif %}{% if preset %}
Trained with the preset `{{ preset }}`.
{% endif %}{% if scores %}
| split | SR | SPL |
| --- | --- | --- |
{% for split, score in scores.items() -%}
| {{ split }} | {{ "%.2f"|format(100 * score.sr) }} | {{ "%.2f"|format(100 * score.spl) }} |
{% endfor %}{% endif %}
| configuration | |
| --- | --- |
{% for name, value in facts.items() -%}
| {{ name }} | {{ value }} |
{% endfor %}
```python
from vlnbert.navigator import Navigator

navigator = Navigator.from_pretrained("{{ repo_id | default('path or hub name') }}")
```
"""


class Navigator(
    RecurrentVLNBert,
    PyTorchModelHubMixin,
    library_name="vlnbert",
    tags=["vision-and-language-navigation", "embodied-ai"],
    model_card_template=TEMPLATE,
):
    """A recurrent BERT that follows instructions.

    `tokenizer`, where set, `limits` and, where known, `features` are saved and loaded with it. `features` says what
    it was shown in its training, as plain values: `vln.FeatureSpec(**navigator.features)`.
    """

    def __init__(self, config: NavigatorConfig, backbone: Backbone | None = None) -> None:
        """The backbone that `config.backbone` names, or one ready made.

        That name is saved: to open the navigator again something must be registered under it.
        """
        super().__init__(config, backbone)
        self.tokenizer: Tokenizer | None = getattr(self.backbone, "tokenizer", None)
        self.limits = Limits()
        self.features: Shown | None = None

    def _save_pretrained(self, save_directory: Path) -> None:
        with noting(save_directory, {WEIGHTS: self.state_dict(), CONFIG: None, TOKENIZER: None}):
            super()._save_pretrained(save_directory)
            write_config(save_directory / CONFIG, self.config, self.limits, self.features)
            if self.tokenizer is not None:
                write_tokenizer(save_directory / TOKENIZER, self.tokenizer)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The card shows the configuration; it may be told `preset` and `scores`, or `source` and `family`."""
        return super().generate_model_card(*args, facts=_facts(self.config, self.features), **kwargs)

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
        """A navigator from its folder, or by its name on the hub; the options are for the latter.

        Loads every weight or fails: a checkpoint that fits in part is a fault, not a start.
        """
        folder = find_navigator_folder(
            pretrained_model_name_or_path,
            force_download=force_download,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            revision=revision,
        )
        return read_whole(folder, cls._opened)

    @classmethod
    def _opened(cls, folder: Path) -> Self:
        config = read_config(folder / CONFIG)
        weights = read_weights(folder / WEIGHTS, expected_shapes(folder / CONFIG, config, cls))
        navigator = cls(config)
        navigator.load_state_dict(weights)
        navigator.limits, navigator.features = read_limits(folder / CONFIG), read_features(folder / CONFIG)
        navigator.read_tokenizer(folder)
        return navigator.eval()

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        """The weights in a folder, if they are all of this navigator's, no others, in their shapes."""
        return read_weights(folder / WEIGHTS, {name: tuple(one.shape) for name, one in self.state_dict().items()})

    def read_tokenizer(self, folder: Path) -> None:
        """Take the tokenizer of a navigator's folder, if there is one: a BERT's, or that of a backbone with its own."""
        check_file(folder / TOKENIZER)
        if (folder / TOKENIZER).exists():
            own = hasattr(self.backbone, "tokenizer")
            self.tokenizer = read_tokenizer(folder / TOKENIZER, () if own else SPECIAL)
            require_fit(folder / TOKENIZER, self.tokenizer, self.config.vocabulary, padded=own)


def _facts(config: NavigatorConfig, features: Shown | None) -> dict[str, str]:
    """What a reader of the card wants to know of the configuration."""
    told = {
        "backbone": config.backbone,
        "layers": f"{config.layers} + {config.cross_layers} cross" if config.cross_layers else config.layers,
        "width": config.hidden,
        "heads": config.heads,
        "feed-forward width": config.inner,
        "word pieces": config.vocabulary,
        "feature width": config.feature_width,
        "direction width": config.angle_width,
        "object width": config.object_width or "sees no objects",
        "matching": config.matching,
        "language attention": config.language_attention,
    }
    if features is not None:
        told["shown"] = escape(describe_shown(features), quote=False).replace("|", "&#124;")
    return {name: str(value) for name, value in told.items()}
