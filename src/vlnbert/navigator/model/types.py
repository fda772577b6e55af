"""The named bundles that pass between a backbone, the navigator and the rest; and what a foreign backbone must give."""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from vlnbert.errors import UsageError
from vlnbert.navigator import fast


@dataclass(frozen=True)
class Language:
    """The words X of the instructions, [CLS] left out: what every step attends to."""

    features: Tensor  # [row, token, hidden] as they enter the layers of a step
    mask: Tensor  # [row, token] bool, true for real words
    kv_cache: tuple[Tensor, ...] | None  # [row, token, 2 x hidden] a layer: keys and values, where they do not change


@dataclass(frozen=True)
class Instruction:
    """Encoded instructions, and the state with which an agent that read them begins: s_0 and X of Eq. 8."""

    state: Tensor  # [row, hidden]
    language: Language

    def uncached(self) -> "Instruction":
        """The same without kept keys and values: each step projects them again. Slower, never different."""
        return replace(self, language=replace(self.language, kv_cache=None))


@dataclass(frozen=True)
class VisualTokens:
    """What one step shows, V_t and O_t of Eq. 7: stop or objects, and the directions one may take."""

    tokens: Tensor  # [row, visual token, hidden]
    mask: Tensor  # [row, visual token] bool


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one step, a tensor for each layer, averaged over nothing.

    Queries are the state and the visual tokens. In the one-stream backbone a row of weights covers language, state and
    vision together; in the two-stream one, language and the rest are attended apart, and each sums to one.
    """

    language: tuple[Tensor, ...]  # [row, head, 1 + visual token, token]
    visual: tuple[Tensor, ...]  # [row, head, 1 + visual token, 1 + visual token], the state first


@dataclass(frozen=True)
class BackboneOutput:
    """What a backbone makes of one step."""

    pooled: Tensor  # [row, hidden] s^r_t of Eq. 12: the state after the last layer, pooled
    visual_scores: Tensor  # [row, visual token] the state's scores in the last layer, mean over heads (Eq. 9, 10)
    language_scores: Tensor  # [row, token] the same over words
    language: Language  # for the next step
    attention_maps: AttentionMaps | None


@dataclass(frozen=True)
class Step:
    """One decision."""

    state: Tensor  # [row, hidden] for the next step
    instruction: Instruction  # for the next step; the same again, unless words attend to the previous step's output
    logits: Tensor  # [row, slot] of the actions; slot 0 stops; -inf where nothing can be chosen
    object_logits: Tensor | None  # [row, object + 1] of the objects in view; the last one stands for "no object"
    language_weights: Tensor  # [row, token] attention of the state over the words after [CLS]
    attention_maps: AttentionMaps | None  # every layer and head, where asked for


class Backbone(Protocol):
    """What recurrence needs of a Transformer, an `nn.Module`; `register_backbone` gives one a name.

    One that computes with the functions of `fast` says so with a class attribute, `uses_fast = True`. Any other is
    called by `fast.foreign`, and what it gives is checked. One that reads with a tokenizer of its own has it as
    `tokenizer`, and the navigator takes it from there. One that completes its configuration, so that a saved navigator
    needs nothing else, has the complete one as `config`. Of visual tokens, after their LayerNorm, the configuration's
    `hidden_dropout` is dropped, unless the backbone says another share as `visual_dropout`.
    """

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction: ...

    def __call__(
        self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool = False
    ) -> BackboneOutput: ...


def check_instruction(backbone: Backbone, given: object, rows: int, hidden: int) -> None:
    """One line where a foreign backbone's `encode` gave something else than the navigator goes on with."""
    if not isinstance(given, Instruction):
        raise _not_a(backbone, given, Instruction)
    fast.require(backbone, "Instruction.state", given.state, (rows, hidden))
    _check_language(backbone, given.language, rows, hidden)


def check_output(backbone: Backbone, given: object, visual: VisualTokens, language: Language) -> None:
    """The same for one step."""
    if not isinstance(given, BackboneOutput):
        raise _not_a(backbone, given, BackboneOutput)
    (rows, count, hidden), words = visual.tokens.shape, language.mask.shape[1]
    fast.require(backbone, "BackboneOutput.pooled", given.pooled, (rows, hidden))
    fast.require(backbone, "BackboneOutput.visual_scores", given.visual_scores, (rows, count))
    fast.require(backbone, "BackboneOutput.language_scores", given.language_scores, (rows, words))
    _check_language(backbone, given.language, rows, hidden)
    if not isinstance(given.attention_maps, AttentionMaps | None):
        raise _not_a(backbone, given.attention_maps, AttentionMaps)


def _check_language(backbone: Backbone, given: object, rows: int, hidden: int) -> None:
    if not isinstance(given, Language):
        raise _not_a(backbone, given, Language)
    fast.require(backbone, "Language.features", given.features, (rows, None, hidden))
    fast.require(backbone, "Language.mask", given.mask, (rows, given.features.shape[1]), torch.bool)
    for kv in given.kv_cache or ():
        fast.require(backbone, "Language.kv_cache", kv, (rows, None, None))


def _not_a(backbone: Backbone, given: object, bundle: type) -> UsageError:
    return UsageError(f"{type(backbone).__name__} gave a {type(given).__name__} where {bundle.__name__} is expected")
