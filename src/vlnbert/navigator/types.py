"""The named bundles that pass between the navigator and the rest."""

from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Language:
    """The words of the instructions, [CLS] left out: what every step attends to."""

    features: Tensor  # [row, token, hidden] as they enter the layers of a step
    mask: Tensor  # [row, token] bool, true for real words
    cache: tuple[Tensor, ...] | None  # [row, token, 2 x hidden] a layer: keys and values, where they do not change


@dataclass(frozen=True)
class Instruction:
    """Encoded instructions, and the state with which an agent that read them begins."""

    state: Tensor  # [row, hidden]
    language: Language

    def only(self, rows: Tensor) -> "Instruction":
        """Those of some rows, by their places."""
        known, cache = self.language, self.language.cache
        kept = None if cache is None else tuple(made.index_select(0, rows) for made in cache)
        features, mask = known.features.index_select(0, rows), known.mask.index_select(0, rows)
        return Instruction(self.state.index_select(0, rows), Language(features, mask, kept))

    def uncached(self) -> "Instruction":
        """The same without kept keys and values: each step projects them again. Slower, never different."""
        return replace(self, language=replace(self.language, cache=None))


@dataclass(frozen=True)
class Sights:
    """Visual tokens of one step: stop or objects, and the directions one may take."""

    tokens: Tensor  # [row, sight, hidden]
    mask: Tensor  # [row, sight] bool


@dataclass(frozen=True)
class Maps:
    """Attention weights of one step, a tensor for each layer, averaged over nothing.

    Queries are the state and the sights. In the one-stream backbone a row of weights covers language, state and sights
    together; in the two-stream one, language and the rest are attended apart, and each sums to one.
    """

    language: tuple[Tensor, ...]  # [row, head, 1 + sight, token]
    sights: tuple[Tensor, ...]  # [row, head, 1 + sight, 1 + sight], the state first


@dataclass(frozen=True)
class Attended:
    """What a backbone makes of one step."""

    pooled: Tensor  # [row, hidden] the state after the last layer, pooled
    sight_scores: Tensor  # [row, sight] mean over heads of the state's scores in the last layer, before softmax
    language_scores: Tensor  # [row, token] the same over words
    language: Language  # for the next step
    maps: Maps | None


@dataclass(frozen=True)
class Step:
    """One decision."""

    state: Tensor  # [row, hidden] for the next step
    instruction: Instruction  # for the next step; the same again, unless words attend to the previous step's output
    logits: Tensor  # [row, slot] of the actions; slot 0 stops; -inf where nothing can be chosen
    object_logits: Tensor | None  # [row, object + 1] of the objects in view; the last one stands for "no object"
    language_weights: Tensor  # [row, token] attention of the state over the words after [CLS]
    maps: Maps | None  # every layer and head, where asked for


class Backbone(Protocol):
    """What recurrence needs of a Transformer: a third one can be added without touching it."""

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction: ...

    def __call__(self, state: Tensor, sights: Sights, language: Language, maps: bool = False) -> Attended: ...
