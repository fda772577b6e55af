"""The two-stream backbone (PREVALENT- or LXMERT-like): language layers first, then layers that look across to it.

Of the cross-modal layers only the visual branch is there: the state, as the first of the visual tokens, attends to the
words and then to itself and the sights. The words' keys and values are projected once for all steps.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vlnbert.navigator.layers import CrossLayer, Embeddings, Layer, Pooler
from vlnbert.navigator.types import Attended, Instruction, KeysValues, Language, Maps, Sights


class TwoStream(nn.Module):
    """Embeddings, language layers, cross-modal layers and a pooler."""

    layers: Sequence[Layer]
    cross_layers: Sequence[CrossLayer]

    def __init__(self, embeddings: Embeddings, layers: list[Layer], cross: list[CrossLayer], pooler: Pooler) -> None:
        super().__init__()
        self.embeddings, self.pooler = embeddings, pooler
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # torch does not say what a list holds
        self.cross_layers = nn.ModuleList(cross)  # type: ignore[assignment]

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Read instructions: the pooled [CLS] output is the initial state."""
        hidden = self.embeddings(tokens)
        for layer in self.layers:
            hidden = layer(hidden, layer.attention.keys_values(hidden), mask)
        words = hidden[:, 1:]
        cache = tuple(layer.cross.keys_values(words) for layer in self.cross_layers)
        return Instruction(self.pooler(hidden[:, 0]), Language(words, mask[:, 1:], cache))

    def forward(self, state: Tensor, sights: Sights, language: Language, maps: bool = False) -> Attended:
        """One step: the state [row, hidden] and the sights attend to the words, then to each other."""
        hidden = torch.cat((state[:, None], sights.tokens), dim=1)
        mask = torch.cat((sights.mask.new_ones(len(state), 1), sights.mask), dim=1)
        over_words, over_sights = list[Tensor](), list[Tensor]()
        for number, layer in enumerate(self.cross_layers):
            words = self._known_words(number, layer, language)
            last = number == len(self.cross_layers) - 1
            if last:
                language_scores = layer.cross.mean_scores(hidden[:, 0], words[0])
            if maps:
                over_words.append(layer.cross.weights(hidden, words[0], language.mask))
            hidden = layer.cross(hidden, words, language.mask)
            around = layer.attention.keys_values(hidden)
            if maps:
                over_sights.append(layer.attention.weights(hidden, around[0], mask))
            if last:
                sight_scores = layer.attention.mean_scores(hidden[:, 0], around[0])[:, 1:]
                hidden = hidden[:, :1]  # nobody reads the other sights' last output
            hidden = layer.feed_forward(layer.attention(hidden, around, mask))
        seen = Maps(tuple(over_words), tuple(over_sights)) if maps else None
        return Attended(self.pooler(hidden[:, 0]), sight_scores, language_scores, language, seen)

    def _known_words(self, number: int, layer: CrossLayer, language: Language) -> KeysValues:
        if language.cache is not None:
            return language.cache[number]
        return layer.cross.keys_values(language.features)
