"""The interface between a backbone and the navigator: what passes between them, the protocol, and backbones by name.

    @register_backbone("my-transformer")
    class MyTransformer(nn.Module):
        def __init__(self, config: NavigatorConfig) -> None: ...

A configuration that names it (`backbone="my-transformer"`) then makes navigators with it, and opens them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from vlnbert.errors import UsageError
from vlnbert.external import ExternalCall, is_ours
from vlnbert.navigator import fast
from vlnbert.navigator.model.config import NavigatorConfig
from vlnbert.registry import Registry, by_name

Part = TypeVar("Part")


@dataclass(frozen=True)
class Language:
    """The words X of the instructions, without [CLS]: what every step attends to."""

    # [row, token, hidden] as they enter the layers of a step.
    features: Tensor
    # [row, token] bool, true for real words.
    mask: Tensor
    # [row, token, 2 x hidden] keys and values of each layer, if they never change.
    kv_cache: tuple[Tensor, ...] | None


@dataclass(frozen=True)
class Instruction:
    """Encoded instructions and the initial state of an agent that read them: s_0 and X of Eq. 8."""

    state: Tensor  # [row, hidden]
    language: Language

    def uncached(self) -> "Instruction":
        """A copy without cached keys and values: each step projects them again. Slower, same results."""
        return replace(self, language=replace(self.language, kv_cache=None))


@dataclass(frozen=True)
class VisualTokens:
    """The visual tokens of one step, V_t and O_t of Eq. 7: stop or objects, and the possible directions."""

    tokens: Tensor  # [row, visual token, hidden]
    mask: Tensor  # [row, visual token] bool


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one step, a tensor for each layer, averaged over nothing.

    Queries are the state and the visual tokens. In the one-stream backbone a row of weights covers language, state and
    vision together; in the two-stream one, language and the rest are attended separately, and each sums to one.
    """

    language: tuple[Tensor, ...]  # [row, head, 1 + visual token, token]
    visual: tuple[Tensor, ...]  # [row, head, 1 + visual token, 1 + visual token], the state first


@dataclass(frozen=True)
class BackboneOutput:
    """The output of a backbone for one step."""

    pooled: Tensor  # [row, hidden] s^r_t of Eq. 12: the state after the last layer, pooled
    visual_scores: Tensor  # [row, visual token] the state's scores in the last layer, mean over heads (Eq. 9, 10)
    language_scores: Tensor  # [row, token] the state's scores over words, likewise
    language: Language  # for the next step
    attention_maps: AttentionMaps | None


class Backbone(Protocol):
    """The Transformer interface that recurrence needs of an `nn.Module`; `register_backbone` gives one a name.

    A backbone that computes with the functions of `fast` has the class attribute `uses_fast = True`. Any other is
    called by `fast.foreign`, and its output is checked. These attributes are optional: `tokenizer`, for one that brings
    its own, which the navigator then uses; `config`, for one that completes its configuration, so that a saved
    navigator needs nothing else; `visual_dropout`, the dropout of visual tokens after their LayerNorm, by default the
    configuration's `hidden_dropout`.
    """

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction: ...

    def __call__(
        self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool = False
    ) -> BackboneOutput: ...


def check_instruction(backbone: Backbone, value: object, rows: int, hidden: int) -> None:
    """Raise a one-line error unless a third-party backbone's `encode` returned a well-formed `Instruction`."""
    instruction = _require_a(Instruction, backbone, value)
    fast.require(backbone, "Instruction.state", instruction.state, (rows, hidden))
    _check_language(backbone, instruction.language, rows, hidden)


def check_output(backbone: Backbone, value: object, visual: VisualTokens, language: Language) -> None:
    """Raise a one-line error unless a third-party backbone's step returned a well-formed `BackboneOutput`."""
    out = _require_a(BackboneOutput, backbone, value)
    (rows, count, hidden), words = visual.tokens.shape, language.mask.shape[1]
    fast.require(backbone, "BackboneOutput.pooled", out.pooled, (rows, hidden))
    fast.require(backbone, "BackboneOutput.visual_scores", out.visual_scores, (rows, count))
    fast.require(backbone, "BackboneOutput.language_scores", out.language_scores, (rows, words))
    _check_language(backbone, out.language, rows, hidden)
    if out.attention_maps is not None:
        _require_a(AttentionMaps, backbone, out.attention_maps)


def _check_language(backbone: Backbone, value: object, rows: int, hidden: int) -> None:
    language = _require_a(Language, backbone, value)
    fast.require(backbone, "Language.features", language.features, (rows, None, hidden))
    fast.require(backbone, "Language.mask", language.mask, (rows, language.features.shape[1]), torch.bool)
    for kv in language.kv_cache or ():
        fast.require(backbone, "Language.kv_cache", kv, (rows, None, None))


def _require_a(expected: type[Part], backbone: Backbone, value: object) -> Part:
    if isinstance(value, expected):
        return value
    raise UsageError(f"{type(backbone).__name__} gave a {type(value).__name__} where {expected.__name__} is expected")


# A class or a function that returns an nn.Module.
Factory = Callable[[NavigatorConfig], Backbone]
BACKBONES: Registry[Factory] = Registry("backbone")
AnyFactory = TypeVar("AnyFactory", bound=Factory)


def register_backbone(name: str) -> Callable[[AnyFactory], AnyFactory]:
    """Decorate a class or function that makes a backbone, so that a configuration can name it.

    It takes a `NavigatorConfig` and returns an `nn.Module` that follows the protocol `Backbone`. It initialises its own
    weights; those that it leaves on the meta device are initialised as BERT's.

    Args:
        name: The value of `NavigatorConfig.backbone` that selects it.
    """
    return by_name(BACKBONES, name)


def make_backbone(config: NavigatorConfig) -> Backbone:
    """Build the backbone that a configuration names."""
    factory = BACKBONES[config.backbone]
    if is_ours(factory):
        return factory(config)
    with ExternalCall(f"the backbone '{config.backbone}'"):
        return factory(config)
