"""Recurrent VLN-BERT over any backbone: `encode` reads instructions once, `step` decides and updates the state.

Hong et al. 2021, "A Recurrent Vision-and-Language BERT for Navigation", arXiv:2011.13922; equations and sections are
that paper's. A step is Eq. 13 (the past decision), Eq. 15 to 18 (visual tokens), Eq. 7 (the backbone), Eq. 9 to 12
(state refinement) and Decision Making (sections 3.3 and B.2).

In the paper Eq. 12 and 13 are bare linear maps at the end of a step. As in the published code there is a LayerNorm
after each and one of the product in Eq. 12, a tanh in Eq. 13, and Eq. 13 runs as the next step begins. In the paper
V_t = I^v_t W. As in the published code a LayerNorm follows, and in the two-stream model a dropout; features, but not
directions, have a dropout of their own. Directions are (sin, cos, sin, cos) where B.1 says (cos, sin, cos, sin).
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from vlnbert.environment.environment import Observation
from vlnbert.errors import UsageError
from vlnbert.external import ExternalCall, is_ours
from vlnbert.navigator import fast
from vlnbert.navigator.model.backbone import (
    AttentionMaps,
    Backbone,
    Instruction,
    VisualTokens,
    check_instruction,
    check_output,
    make_backbone,
)
from vlnbert.navigator.model.bert import EPS
from vlnbert.navigator.model.config import NavigatorConfig

# Left, top, right, bottom and area of an object's box, as shares of the view: p of Eq. 16.
BOX = 5


@dataclass(frozen=True)
class Step:
    """One decision of a batch of agents."""

    state: Tensor  # [row, hidden] for the next step
    instruction: Instruction  # for the next step; unchanged unless words attend to the previous step's output
    logits: Tensor  # [row, slot] of the actions; slot 0 stops; -inf where nothing can be chosen
    object_logits: Tensor | None  # [row, object + 1] of the visible objects; the last one stands for "no object"
    language_weights: Tensor  # [row, token] attention of the state over the words after [CLS]
    attention_maps: AttentionMaps | None  # every layer and head, if requested


class RecurrentVLNBert(nn.Module):
    """The network of the paper, for R2R or REVERIE, over the backbone that its configuration names."""

    def __init__(self, config: NavigatorConfig, backbone: Backbone | None = None) -> None:
        """`backbone` is a ready-made instance of the one that `config.backbone` names."""
        super().__init__()
        self.backbone: Backbone = make_backbone(config) if backbone is None else backbone
        completed = getattr(self.backbone, "config", None)
        self.config = config = completed if isinstance(completed, NavigatorConfig) else config
        dropout = getattr(self.backbone, "visual_dropout", config.hidden_dropout)
        # On the meta device torch draws no weights: `_initialise` does.
        with torch.device("meta"):
            self.view_embedding = ViewEmbedding(config, dropout)
            self.object_embedding = ObjectEmbedding(config, dropout) if config.object_width else None
            self.past_decision = PastDecision(config)
            self.refinement = Refinement(config)
            self.critic = Critic(config.hidden, config.critic_width, config.critic_dropout)
        self._initialise()

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Eq. 8: read instructions [row, token] once; `mask` is true where a token is real."""
        if tokens.shape[1] > self.config.positions:
            raise UsageError(f"{tokens.shape[1]} tokens; this navigator reads at most {self.config.positions}")
        if not hasattr(self.backbone, "encode"):
            raise UsageError(f"{type(self.backbone).__name__} has no encode(tokens, mask), which a backbone needs")
        if getattr(self.backbone, "uses_fast", False):
            return self.backbone.encode(tokens, mask)
        with self._guard(tokens, mask):
            instruction = fast.foreign(self.backbone.encode, tokens, mask)
        check_instruction(self.backbone, instruction, len(tokens), self.config.hidden)
        return instruction

    def step(
        self, state: Tensor, instruction: Instruction, observation: Observation, attention_maps: bool = False
    ) -> Step:
        """Decide where to go from an observation; with `attention_maps`, also return all attention weights.

        Decision Making (sections 3.3 and B.2): the mean scores of the state over the visual tokens are the logits. With
        objects, stopping means choosing the best one: the stop logit is the greatest object logit.
        """
        language = instruction.language
        state = fast.call(self.past_decision, state, self._angles(observation.facing, state))
        visual, directions = self._visual_tokens(observation, state)
        if getattr(self.backbone, "uses_fast", False):
            out = self.backbone(state, visual, language, attention_maps)
        else:
            with self._guard(state, visual):
                out = fast.foreign(self.backbone, state, visual, language, attention_maps)
            check_output(self.backbone, out, visual, language)
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
        """Eq. 19: [row] the critic's value of the state at the end of a step, s^f_t, as in the published code."""
        if getattr(self.critic, "uses_fast", False):
            return self.critic(state).squeeze(-1)
        value = fast.foreign(self.critic, state)
        single = isinstance(value, Tensor) and value.dim() == state.dim() - 1
        fast.require(self.critic, "the value", value, state.shape[:-1] if single else (*state.shape[:-1], 1))
        return value if single else value.squeeze(-1)

    def _guard(self, *inputs: object) -> AbstractContextManager[None]:
        """Name a third-party backbone in its errors, and refuse one that writes into its inputs."""
        if is_ours(type(self.backbone)):
            return nullcontext()
        return ExternalCall(f"the backbone {type(self.backbone).__name__}", *inputs)

    def _visual_tokens(self, observation: Observation, state: Tensor) -> tuple[VisualTokens, int]:
        """The visual tokens, and the number of leading ones that are attended to as views (F^v of Eq. 11).

        Without objects those are all slots, the stop slot first (Eq. 17, where it is last). With objects there is no
        stop token: objects follow the directions (Eq. 18).
        """
        if observation.features is None:
            raise UsageError("a navigator needs features to see; give the environment a feature bank")
        slots, visible = fast.widest(observation.choosable), observation.visible_objects
        mask, features, direction = (
            part[:, :slots] for part in (observation.choosable, observation.features, observation.direction)
        )
        tokens = self._embed(self.view_embedding, features, self._angles(direction, state), fast.Packing(mask))
        if visible is None:
            return VisualTokens(tokens, mask), tokens.shape[1]
        if self.object_embedding is None:
            raise UsageError("this navigator was made without objects; choose one with object_width above 0")
        position, direction = visible.position.to(state), self._angles(visible.direction, state)
        objects = self._embed(self.object_embedding, visible.features, position, direction, more=1)
        # "No object", the last token, is always present.
        present = torch.cat((visible.present, visible.present.new_ones(len(objects), 1)), dim=1)
        visual = VisualTokens(torch.cat((tokens[:, 1:], objects), dim=1), torch.cat((mask[:, 1:], present), dim=1))
        return visual, tokens.shape[1] - 1

    def _embed(self, embedding: nn.Module, features: Tensor, like: Tensor, *others: Any, more: int = 0) -> Tensor:
        """Visual tokens of features, by our modules or by a third-party one, whose inputs all have one dtype."""
        if getattr(embedding, "uses_fast", False):
            return embedding(features, like, *others)
        rows, count, _ = features.shape
        return fast.foreign_tensor(
            embedding, (rows, count + more, self.config.hidden), features.to(like.dtype), like, *others
        )

    def _angles(self, direction: Tensor, like: Tensor) -> Tensor:
        """Directions of four numbers, repeated to the width of the configuration (section B.1)."""
        return direction.to(like).repeat(*(1,) * (direction.dim() - 1), self.config.angle_width // 4)

    def _initialise(self) -> None:
        """BERT's normal initialisation, its standard deviation scaled with the width of a token.

        Weights that are not on the meta device, such as a third-party backbone's, stay. Biases of visual projections
        are drawn as torch draws them: with zeros, the tokens of stop and "no object" would be the LayerNorm of an exact
        zero, through whose epsilon gradients grow by a million.
        """
        empty = [one for one in self.modules() if any(weight.is_meta for weight in one.parameters(recurse=False))]
        allocate(self, torch.get_default_device())
        deviation = 0.02 * math.sqrt(768 / self.config.hidden)
        for module in empty:
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=deviation)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()
        for project in (one.project for one in (self.view_embedding, self.object_embedding) if one is not None):
            bound = 1 / math.sqrt(project.in_features)
            nn.init.uniform_(project.bias, -bound, bound)


class PastDecision(nn.Module):
    """Eq. 13, at the start of a step: s_t = LayerNorm(tanh([s^f_t; a_t] W^s)), a_t the direction of the last action.

    a_t is the absolute direction that the agent faces now; in the paper, the action's, relative to the agent before it.
    """

    uses_fast = True

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        self.hidden = config.hidden
        self.project = nn.Linear(config.hidden + config.angle_width, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=EPS)

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        """[row, hidden] states and [row, angle width] directions -> [row, hidden]."""
        fused = fast.linear(torch.cat((state, action), dim=-1), self.project, width=self.hidden)
        return fast.layer_norm(self.norm, torch.tanh(fused))


class Refinement(nn.Module):
    """Eq. 12, cross-modal matching at the end of a step: s^f_t = LayerNorm([s^r_t; LayerNorm(F^x * F^v)] W^r).

    `visual` matching is REVERIE's, [s^r_t; F^v] W^r, and `off` leaves the state as it is (Table 3 without Matching).
    """

    uses_fast = True

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        self.hidden, self.matching = config.hidden, config.matching
        if self.matching == "cross-modal":
            self.match_norm = nn.LayerNorm(self.hidden, eps=EPS)
        if self.matching != "off":
            self.project = nn.Linear(2 * self.hidden, self.hidden)
            self.norm = nn.LayerNorm(self.hidden, eps=EPS)

    def forward(self, pooled: Tensor, words: Tensor, views: Tensor) -> Tensor:
        """[row, hidden] each: the pooled state s^r_t, the attended words F^x_t and the attended views F^v_t."""
        if self.matching == "off":
            return pooled
        matched = fast.layer_norm(self.match_norm, words * views) if self.matching == "cross-modal" else views
        fused = fast.linear(torch.cat((pooled, matched), dim=-1), self.project, width=self.hidden)
        return fast.layer_norm(self.norm, fused)


class Critic(nn.Sequential):
    """Eq. 19: the value [..., 1] of a state [..., hidden], by two linear maps with a ReLU between."""

    uses_fast = True

    def __init__(self, hidden: int, width: int, dropout: float) -> None:
        super().__init__(nn.Linear(hidden, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1))
        self.width = width

    def forward(self, state: Tensor) -> Tensor:
        inner, relu, dropout, outer = self
        return fast.linear(dropout(relu(fast.linear(state, inner, width=self.width))), outer, width=1)


def attention_pool(scores: Tensor, mask: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 10 and 11: softmax of mean scores [row, token] under a mask, and tokens [row, token, hidden] summed by it.

    A row whose mask is all false attends to nothing.
    """
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1) * mask
    return weights, torch.einsum("rt,rth->rh", weights, tokens)


class ViewEmbedding(nn.Module):
    """LayerNorm([f; d] W) of every choice (Eq. 15): f a view's feature, d its direction. Stop is all zeros (Eq. 17)."""

    uses_fast = True

    def __init__(self, config: NavigatorConfig, dropout: float) -> None:
        super().__init__()
        self.hidden = config.hidden
        self.project = nn.Linear(config.feature_width + config.angle_width, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=EPS)
        self.feature_dropout, self.dropout = nn.Dropout(config.feature_dropout), nn.Dropout(dropout)

    def forward(self, features: Tensor, direction: Tensor, packing: fast.Packing) -> Tensor:
        """[row, slot, width] features and [row, slot, angle] directions -> [row, slot, hidden]."""
        features = self.feature_dropout(packing.pack(features)).to(direction.dtype)
        tokens = torch.cat((features, packing.pack(direction)), dim=-1)
        tokens = fast.linear(tokens, self.project, width=self.hidden)
        return packing.unpack(self.dropout(fast.layer_norm(self.norm, tokens)))


class ObjectEmbedding(nn.Module):
    """LayerNorm([f; p W^p; d] W) of every object (Eq. 16), followed by an all-zero "no object".

    The paper has no such token; with it an agent can stop at a viewpoint without objects.
    """

    uses_fast = True

    def __init__(self, config: NavigatorConfig, dropout: float) -> None:
        super().__init__()
        self.hidden, self.angle_width = config.hidden, config.angle_width
        self.position = nn.Linear(BOX, config.angle_width, bias=False)
        self.project = nn.Linear(config.object_width + 2 * config.angle_width, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=EPS)
        self.feature_dropout, self.dropout = nn.Dropout(config.feature_dropout), nn.Dropout(dropout)

    def forward(self, features: Tensor, position: Tensor, direction: Tensor) -> Tensor:
        """[row, object, width] each -> [row, object + 1, hidden]."""
        features = self.feature_dropout(features).to(direction.dtype)
        position = fast.linear(position, self.position, width=self.angle_width)
        tokens = torch.cat((features, position, direction), dim=-1)
        no_object = tokens.new_zeros(tokens.shape[0], 1, tokens.shape[2])
        tokens = torch.cat((tokens, no_object), dim=1)
        return self.dropout(fast.layer_norm(self.norm, fast.linear(tokens, self.project, width=self.hidden)))


def allocate(module: nn.Module, device: torch.device | str) -> None:
    """Allocate what is on the meta device, uninitialised; all other tensors stay as they are."""
    module._apply(  # type: ignore[no-untyped-call]
        lambda tensor: torch.empty_like(tensor, device=device) if tensor.is_meta else tensor
    )


def key_shapes(
    config: NavigatorConfig, kind: Callable[[NavigatorConfig], nn.Module] = RecurrentVLNBert
) -> dict[str, tuple[int, ...]]:
    """Every key of a navigator of this class and its shape, without allocating any weights."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in kind(config).state_dict().items()}
