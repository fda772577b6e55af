"""The navigator that can be saved to a folder or the hub and opened from there, with its model card."""

from html import escape
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelCard, PyTorchModelHubMixin
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.navigator.model.backbone import Backbone
from vlnbert.navigator.model.config import NavigatorConfig
from vlnbert.navigator.model.navigator import RecurrentVLNBert
from vlnbert.navigator.storage.folder import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    Limits,
    Shown,
    check_file,
    describe_shown,
    expected_shapes,
    find_folder,
    noting,
    read_config,
    read_tokenizer,
    read_training_facts,
    read_weights,
    write_config,
    write_tokenizer,
)
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

    `tokenizer`, `limits` and `features`, if set, are saved and loaded with it. `features` describes its training inputs
    as plain values: `vln.FeatureSpec(**navigator.features)`.
    """

    def __init__(self, config: NavigatorConfig, backbone: Backbone | None = None) -> None:
        """Build the backbone that `config.backbone` names, or use a ready-made one.

        The name is saved: to open the navigator again, a backbone must be registered under it.
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
        """Describe the configuration; optional keywords are `preset` and `scores`, or `source` and `family`."""
        config = self.config
        facts = {
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
        if self.features is not None:
            facts["shown"] = escape(describe_shown(self.features), quote=False).replace("|", "&#124;")
        return super().generate_model_card(*args, facts=facts, **kwargs)

    @classmethod
    def from_pretrained(  # type: ignore[override]  # no model-specific keywords
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> Self:
        """Open a navigator from its folder, or by its name on the hub, for which the options are.

        Loads every weight or fails: a checkpoint that fits in part is an error.
        """
        folder = find_folder(
            pretrained_model_name_or_path,
            (CONFIG, WEIGHTS),
            "give a navigator's folder, or its name on the hub",
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
        navigator.limits, navigator.features = read_training_facts(folder / CONFIG)
        navigator.read_tokenizer(folder)
        return navigator.eval()

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        """Read a folder's weights, which must be exactly this navigator's, in their shapes."""
        return read_weights(folder / WEIGHTS, {name: tuple(one.shape) for name, one in self.state_dict().items()})

    def read_tokenizer(self, folder: Path) -> None:
        """Load the tokenizer of a navigator's folder, if any: a BERT's, or that of a backbone with its own."""
        check_file(folder / TOKENIZER)
        if (folder / TOKENIZER).exists():
            own = hasattr(self.backbone, "tokenizer")
            self.tokenizer = read_tokenizer(folder / TOKENIZER, () if own else SPECIAL)
            require_fit(folder / TOKENIZER, self.tokenizer, self.config.vocabulary, padded=own)
