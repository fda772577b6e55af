"""Recurrent VLN-BERT: two verbs over any backbone. `encode` reads instructions once; `step` looks, decides, remembers.

Hong et al. 2021, "A Recurrent Vision-and-Language BERT for Navigation", arXiv:2011.13922; equations and sections are
that paper's. A step is Eq. 13 (the decision before), Eq. 15 to 18 (visual tokens), Eq. 7 (the backbone), Eq. 9 to 12
(state refinement) and Decision Making (sections 3.3 and B.2).
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from vlnbert.environment.environment import Observation
from vlnbert.errors import UsageError
from vlnbert.external import ExternalCall, is_ours
from vlnbert.navigator import fast
from vlnbert.navigator.model.backbones import make_backbone
from vlnbert.navigator.model.config import NavigatorConfig
from vlnbert.navigator.model.recurrence import Critic, PastDecision, Refinement, attention_pool
from vlnbert.navigator.model.types import (
    Backbone,
    BackboneOutput,
    Instruction,
    Language,
    Step,
    VisualTokens,
    check_instruction,
    check_output,
)
from vlnbert.navigator.model.vision import ObjectEmbedding, ViewEmbedding


class RecurrentVLNBert(nn.Module):
    """The network of the paper over the backbone that its configuration names, for R2R or REVERIE."""

    def __init__(self, config: NavigatorConfig, backbone: Backbone | None = None) -> None:
        """`backbone`, where given, is the one that `config.backbone` names, ready made."""
        super().__init__()
        self.backbone: Backbone = make_backbone(config) if backbone is None else backbone
        completed = getattr(self.backbone, "config", None)
        self.config = config = completed if isinstance(completed, NavigatorConfig) else config
        with torch.device("meta"):  # torch would draw weights that are drawn again below
            dropout = getattr(self.backbone, "visual_dropout", config.hidden_dropout)
            vision = (config.angle_width, config.hidden, config.feature_dropout, dropout)
            self.view_embedding = ViewEmbedding(config.feature_width, *vision)
            self.object_embedding = ObjectEmbedding(config.object_width, *vision) if config.object_width else None
            self.past_decision = PastDecision(config.hidden, config.angle_width)
            self.refinement = Refinement(config.hidden, config.matching)
            self.critic = Critic(config.hidden, config.critic_width, config.critic_dropout)
        self._initialise()

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Eq. 8: read instructions [row, token], true in `mask` where a token is real. They are never read again."""
        if tokens.shape[1] > self.config.positions:
            raise UsageError(f"{tokens.shape[1]} tokens; this navigator reads at most {self.config.positions}")
        if not hasattr(self.backbone, "encode"):
            raise UsageError(f"{type(self.backbone).__name__} has no encode(tokens, mask), which a backbone needs")
        if getattr(self.backbone, "uses_fast", False):
            return self.backbone.encode(tokens, mask)
        with self._calling(tokens, mask):
            instruction = fast.foreign(self.backbone.encode, tokens, mask)
        check_instruction(self.backbone, instruction, len(tokens), self.config.hidden)
        return instruction

    def step(
        self, state: Tensor, instruction: Instruction, observation: Observation, attention_maps: bool = False
    ) -> Step:
        """Decide where to go from what is seen now; with `attention_maps`, also return all attention weights.

        Decision Making (sections 3.3 and B.2): the mean scores of the state over the visual tokens are the logits. With
        objects one stops at the best of them: the stop logit is the greatest object logit.
        """
        language = instruction.language
        state = fast.call(self.past_decision, state, self._angles(observation.facing, state))
        visual, directions = self._visual_tokens(observation, state)
        out = self._attend(state, visual, language, attention_maps)
        language_weights, words = attention_pool(out.language_scores, language.mask, language.features)
        scores, mask, tokens = (part[:, :directions] for part in (out.visual_scores, visual.mask, visual.tokens))
        _, views = attention_pool(scores, mask, tokens)
        logits = out.visual_scores.masked_fill(~visual.mask, -math.inf)
        object_logits = None
        if observation.visible_objects is not None:
            object_logits = logits[:, directions:]
            logits = torch.cat((object_logits.amax(dim=1, keepdim=True), logits[:, :directions]), dim=1)
        logits = pad(logits, (0, observation.choosable.shape[1] - logits.shape[1]), value=-math.inf)
        return Step(
            state=fast.call(self.refinement, out.pooled, words, views),
            instruction=Instruction(instruction.state, out.language),
            logits=logits,
            object_logits=object_logits,
            language_weights=language_weights,
            attention_maps=out.attention_maps,
        )

    def value(self, state: Tensor) -> Tensor:
        """Eq. 19: [row] what the critic expects of the state at the end of a step, s^f_t; as in the published code."""
        if getattr(self.critic, "uses_fast", False):
            return self.critic(state).squeeze(-1)
        value = fast.foreign(self.critic, state)
        single = isinstance(value, Tensor) and value.dim() == state.dim() - 1
        fast.require(self.critic, "the value", value, state.shape[:-1] if single else (*state.shape[:-1], 1))
        return value if single else value.squeeze(-1)

    def _attend(self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool) -> BackboneOutput:
        """Eq. 7, by our backbones or by a foreign one."""
        if getattr(self.backbone, "uses_fast", False):
            return self.backbone(state, visual, language, attention_maps)
        with self._calling(state, visual):
            out = fast.foreign(self.backbone, state, visual, language, attention_maps)
        check_output(self.backbone, out, visual, language)
        return out

    def _calling(self, *kept: object) -> AbstractContextManager[None]:
        """Around a call of a backbone that is not ours."""
        if is_ours(type(self.backbone)):
            return nullcontext()
        return ExternalCall(f"the backbone {type(self.backbone).__name__}", *kept)

    def _visual_tokens(self, observation: Observation, state: Tensor) -> tuple[VisualTokens, int]:
        """The visual tokens, and how many of them, from the first, are attended to as views (F^v of Eq. 11).

        Without objects those are all slots, the stop slot first (Eq. 17, where it is last). With objects there is no
        stop token: objects stand behind the directions (Eq. 18).
        """
        if observation.features is None:
            raise UsageError("a navigator needs features to see; give the environment a feature bank")
        slots, found = fast.widest(observation.choosable), observation.visible_objects
        mask, features, direction = (
            part[:, :slots] for part in (observation.choosable, observation.features, observation.direction)
        )
        tokens = self._embed(self.view_embedding, features, self._angles(direction, state), fast.Packing(mask))
        if found is None:
            return VisualTokens(tokens, mask), tokens.shape[1]
        if self.object_embedding is None:
            raise UsageError("this navigator was made without objects; choose one with object_width above 0")
        position, direction = found.position.to(state), self._angles(found.direction, state)
        objects = self._embed(self.object_embedding, found.features, position, direction, more=1)
        present = torch.cat((found.present, found.present.new_ones(len(objects), 1)), dim=1)  # "no object" always is
        visual = VisualTokens(torch.cat((tokens[:, 1:], objects), dim=1), torch.cat((mask[:, 1:], present), dim=1))
        return visual, tokens.shape[1] - 1

    def _embed(self, embedding: nn.Module, features: Tensor, like: Tensor, *others: Any, more: int = 0) -> Tensor:
        """Visual tokens of features, by our modules or by a foreign one, which gets all of one dtype."""
        if getattr(embedding, "uses_fast", False):
            return embedding(features, like, *others)
        rows, count, _ = features.shape
        return fast.checked(embedding, (rows, count + more, self.config.hidden), features.to(like.dtype), like, *others)

    def _angles(self, direction: Tensor, like: Tensor) -> Tensor:
        """Directions of four numbers, repeated to the width that the weights were trained with (section B.1)."""
        return direction.to(like).repeat(*(1,) * (direction.dim() - 1), self.config.angle_width // 4)

    def _initialise(self) -> None:
        """BERT's normal initialisation, with its deviation kept in proportion where a token is narrower.

        A foreign backbone's weights, which are not on the meta device, are its own. Biases of visual projections are
        drawn as torch draws them: without any, stop and "no object" would be the LayerNorm of an exact zero, through
        whose epsilon gradients grow by a million.
        """
        unmade = [one for one in self.modules() if any(weight.is_meta for weight in one.parameters(recurse=False))]
        allocate(self, torch.get_default_device())
        deviation = 0.02 * math.sqrt(768 / self.config.hidden)
        for module in unmade:
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=deviation)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()
        for project in (one.project for one in (self.view_embedding, self.object_embedding) if one is not None):
            bound = 1 / math.sqrt(project.in_features)
            nn.init.uniform_(project.bias, -bound, bound)


def allocate(module: nn.Module, device: torch.device | str) -> None:
    """Make room for whatever is on the meta device; the rest stays as it is, where it is."""
    module._apply(  # type: ignore[no-untyped-call]
        lambda tensor: torch.empty_like(tensor, device=device) if tensor.is_meta else tensor
    )


def key_shapes(
    config: NavigatorConfig, kind: Callable[[NavigatorConfig], nn.Module] = RecurrentVLNBert
) -> dict[str, tuple[int, ...]]:
    """Every key of a navigator, of that class, and its shape, without room for a single weight."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in kind(config).state_dict().items()}
