"""The navigator: two verbs over any backbone. `encode` reads instructions once; `step` looks, decides and remembers.

Hong et al. 2021, "A Recurrent Vision-and-Language BERT for Navigation", arXiv:2011.13922, sections 3.3 and B.
"""

import math
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import pad

from vlnbert.environment.environment import Observation
from vlnbert.errors import UsageError
from vlnbert.navigator.card import TEMPLATE, facts
from vlnbert.navigator.config import NavigatorConfig
from vlnbert.navigator.folder import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    check_fit,
    find_folder,
    read_config,
    read_safetensors,
    read_tokenizer,
)
from vlnbert.navigator.layers import CrossLayer, Embeddings, Layer, Pooler
from vlnbert.navigator.layout import Layout, widest
from vlnbert.navigator.linear import project
from vlnbert.navigator.one_stream import OneStream
from vlnbert.navigator.recurrence import PastDecision, Refinement, attended
from vlnbert.navigator.senses import Objects, Views
from vlnbert.navigator.two_stream import TwoStream
from vlnbert.navigator.types import Backbone, Instruction, Sights, Step


class Navigator(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="vlnbert",
    tags=["vision-and-language-navigation", "embodied-ai"],
    model_card_template=TEMPLATE,
):
    """A recurrent BERT that follows instructions. `tokenizer`, where set, is saved and loaded with it."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        self.config = config
        self.tokenizer: Tokenizer | None = None
        with torch.device("meta"):  # torch would draw weights that are drawn again below
            self.backbone: Backbone = _backbone(config)
            senses = (config.angle_width, config.hidden, config.feature_dropout, config.hidden_dropout)
            self.views = Views(config.feature_width, *senses)
            self.objects = Objects(config.object_width, *senses) if config.object_width else None
            self.past_decision = PastDecision(config.hidden, config.angle_width)
            self.refinement = Refinement(config.hidden, config.matching)
            self.critic = nn.Sequential(
                nn.Linear(config.hidden, config.critic_width),
                nn.ReLU(),
                nn.Dropout(config.critic_dropout),
                nn.Linear(config.critic_width, 1),
            )
        self.to_empty(device=torch.get_default_device())
        self._initialise()

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Read instructions [row, token], true in `mask` where a token is real. The language is never read again."""
        if tokens.shape[1] > self.config.positions:
            raise UsageError(f"{tokens.shape[1]} tokens; this navigator reads at most {self.config.positions}")
        return self.backbone.encode(tokens, mask)

    def step(self, state: Tensor, instruction: Instruction, observation: Observation, maps: bool = False) -> Step:
        """Decide where to go from what is seen now; with `maps`, also return all attention weights."""
        language = instruction.language
        state = self.past_decision(state, self._angles(observation.facing, state))
        sights, directions = self._look(observation, state)
        seen = self.backbone(state, sights, language, maps)
        language_weights, words = attended(seen.language_scores, language.mask, language.features)
        count = directions.stop - directions.start
        _, views = attended(seen.sight_scores[:, directions], sights.mask[:, directions], sights.tokens[:, directions])
        logits = seen.sight_scores.masked_fill(~sights.mask, -math.inf)
        object_logits = None
        if observation.visible_objects is not None:
            object_logits = logits[:, count:]
            logits = torch.cat((object_logits.amax(dim=1, keepdim=True), logits[:, :count]), dim=1)
        logits = pad(logits, (0, observation.choosable.shape[1] - logits.shape[1]), value=-math.inf)
        return Step(
            state=self.refinement(seen.pooled, words, views),
            instruction=Instruction(instruction.state, seen.language),
            logits=logits,
            object_logits=object_logits,
            language_weights=language_weights,
            maps=seen.maps,
        )

    def value(self, state: Tensor) -> Tensor:
        """[row] what the critic expects of the state at the end of a step."""
        inner, relu, dropout, outer = cast("tuple[nn.Linear, nn.ReLU, nn.Dropout, nn.Linear]", tuple(self.critic))
        return project(dropout(relu(project(state, inner))), outer).squeeze(-1)

    def _look(self, observation: Observation, state: Tensor) -> tuple[Sights, slice]:
        """The visual tokens, and which of them are attended to as views.

        Without objects those are all slots, the stop slot first. With objects there is no stop token: one stops at the
        best of the objects, which stand behind the directions.
        """
        if observation.features is None:
            raise UsageError("a navigator needs features to see; give the environment a feature bank")
        slots, found = widest(observation.choosable), observation.visible_objects
        mask, features, direction = (
            part[:, :slots] for part in (observation.choosable, observation.features, observation.direction)
        )
        tokens = self.views(features, self._angles(direction, state), Layout(mask))
        if found is None:
            return Sights(tokens, mask), slice(0, tokens.shape[1])
        if self.objects is None:
            raise UsageError("this navigator was made without objects; choose one with object_width above 0")
        things = self.objects(found.features, found.position.to(state), self._angles(found.direction, state))
        present = torch.cat((found.present, found.present.new_ones(len(things), 1)), dim=1)  # "no object" always is
        sights = Sights(torch.cat((tokens[:, 1:], things), dim=1), torch.cat((mask[:, 1:], present), dim=1))
        return sights, slice(0, tokens.shape[1] - 1)

    def _angles(self, direction: Tensor, like: Tensor) -> Tensor:
        """Directions of four numbers, repeated to the width that the weights were trained with."""
        return direction.to(like).repeat(*(1,) * (direction.dim() - 1), self.config.angle_width // 4)

    def _initialise(self) -> None:
        """BERT's normal initialisation, with its deviation kept in proportion where a token is narrower."""
        deviation = 0.02 * math.sqrt(768 / self.config.hidden)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=deviation)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()

    def _save_pretrained(self, save_directory: Path) -> None:
        super()._save_pretrained(save_directory)
        if self.tokenizer is not None:
            self.tokenizer.save(str(save_directory / TOKENIZER))

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The card shows the configuration; it may be told `preset` and `scores`, or `source` and `family`."""
        return super().generate_model_card(*args, facts=facts(self.config), **kwargs)

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
    ) -> "Navigator":
        """A navigator from its folder, or by its name on the hub; the options are for the latter.

        Loads every weight or fails: a checkpoint that fits in part is a fault, not a start.
        """
        folder = find_folder(
            pretrained_model_name_or_path,
            force_download=force_download,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            revision=revision,
        )
        config = read_config(folder / CONFIG)
        tensors, _ = read_safetensors(folder / WEIGHTS)
        check_fit(folder / WEIGHTS, tensors, key_shapes(config))
        navigator = cls(config)
        navigator.load_state_dict(tensors)
        if (folder / TOKENIZER).exists():
            navigator.tokenizer = read_tokenizer(folder / TOKENIZER)
        return navigator.eval()


def key_shapes(config: NavigatorConfig) -> dict[str, tuple[int, ...]]:
    """Every key of a navigator and its shape, without room for a single weight."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in Navigator(config).state_dict().items()}


def _backbone(config: NavigatorConfig) -> Backbone:
    """The Transformer that a configuration names."""
    embeddings = Embeddings(config.vocabulary, config.positions, config.hidden, config.hidden_dropout)
    shape = (config.hidden, config.heads, config.inner, config.hidden_dropout, config.attention_dropout)
    layers = [Layer(*shape) for _ in range(config.layers)]
    if config.backbone == "one-stream":
        return OneStream(embeddings, layers, Pooler(config.hidden), config.language_attention)
    cross = [CrossLayer(*shape) for _ in range(config.cross_layers)]
    return TwoStream(embeddings, layers, cross, Pooler(config.hidden))
