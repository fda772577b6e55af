"""The two-stream backbone (PREVALENT- or LXMERT-like): language layers first, then layers that look across to it.

Of the cross-modal layers only the visual branch is there: the state, as the first of the visual tokens, attends to the
words and then to itself and the sights. The words' keys and values are projected once for all steps.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vlnbert.navigator.attention import Source
from vlnbert.navigator.layers import CrossLayer, Embeddings, Layer, Pooler
from vlnbert.navigator.layout import Layout
from vlnbert.navigator.types import Attended, Instruction, Language, Maps, Sights


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
        layout = Layout(mask)
        hidden = layout.pack(self.embeddings(tokens))
        for layer in self.layers:
            hidden = layer(hidden, layout)
        words = layout.spread(hidden)[:, 1:]
        cache = tuple(layout.spread(layer.cross.keys_values(hidden))[:, 1:] for layer in self.cross_layers)
        return Instruction(self.pooler(layout.first(hidden)), Language(words, mask[:, 1:], cache))

    def forward(self, state: Tensor, sights: Sights, language: Language, maps: bool = False) -> Attended:
        """One step: the state [row, hidden] and the sights attend to the words, then to each other."""
        mask = torch.cat((sights.mask.new_ones(len(state), 1), sights.mask), dim=1)
        layout = Layout(mask, padded=maps)
        hidden = layout.pack(torch.cat((state[:, None], sights.tokens), dim=1))
        over_words, over_sights = list[Tensor](), list[Tensor]()
        for number, layer in enumerate(self.cross_layers):
            last = number == len(self.cross_layers) - 1
            words, asked = self._known_words(number, layer, language), layer.cross.queries(hidden)
            if last:
                language_scores = layer.cross.mean_scores(layout.first(asked), words)
            if maps:
                over_words.append(layer.cross.weights(asked, words))
            hidden = layer.cross(hidden, layout.pack(layer.cross.context(layout.spread(asked), words)))
            if maps:
                made = layer.attention.queries_keys_values(hidden)
                over_sights.append(layer.attention.weights(made, Source(made, mask)))
            if not last:
                made = layout.spread(layer.attention.queries_keys_values(hidden))
                found = layout.pack(layer.attention.context(made, Source(made, mask)))
                hidden = layer.feed_forward(layer.attention(hidden, found))
        around = Source(layout.spread(layer.attention.keys_values(hidden)), mask)
        state = layout.first(hidden)  # nobody reads the other sights' last output
        query = layer.attention.queries(state)
        sight_scores = layer.attention.mean_scores(query, around)[:, 1:]
        found = layer.attention.context(query[:, None], around)[:, 0]
        pooled = self.pooler(layer.feed_forward(layer.attention(state, found)))
        seen = Maps(tuple(over_words), tuple(over_sights)) if maps else None
        return Attended(pooled, sight_scores, language_scores, language, seen)

    def _known_words(self, number: int, layer: CrossLayer, language: Language) -> Source:
        if language.cache is not None:
            return Source(language.cache[number], language.mask)
        return Source(layer.cross.keys_values(language.features), language.mask)
