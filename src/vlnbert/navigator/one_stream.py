"""The one-stream backbone (OSCAR-like): state, language and vision are one sequence for the same layers.

By default the words attend to each other once, in `encode`; afterwards they are only keys and values, and since they
do not change, those are projected once for all steps. The variants of the paper's Table 4 let the words attend at
every step too: on their embeddings, on their initial features, or on the output of the previous step.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vlnbert.navigator.attention import Source
from vlnbert.navigator.config import LanguageAttention
from vlnbert.navigator.layers import Embeddings, Layer, Pooler
from vlnbert.navigator.layout import Layout
from vlnbert.navigator.types import Attended, Instruction, Language, Maps, Sights


class OneStream(nn.Module):
    """Embeddings, layers and a pooler."""

    layers: Sequence[Layer]

    def __init__(self, embeddings: Embeddings, layers: list[Layer], pooler: Pooler, attend: LanguageAttention) -> None:
        super().__init__()
        self.embeddings, self.pooler, self.attend = embeddings, pooler, attend
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # torch does not say what a list holds

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Read instructions: the raw [CLS] output is the initial state."""
        layout, embedded = Layout(mask), self.embeddings(tokens)
        hidden = layout.pack(embedded)
        for layer in self.layers:
            hidden = layer(hidden, layout)
        words = (embedded if self.attend == "embeddings" else layout.spread(hidden))[:, 1:]
        cache = None
        if self.attend == "once":
            cache = tuple(layout.spread(layer.attention.keys_values(hidden))[:, 1:] for layer in self.layers)
        return Instruction(layout.first(hidden), Language(words, mask[:, 1:], cache))

    def forward(self, state: Tensor, sights: Sights, language: Language, maps: bool = False) -> Attended:
        """One step: the state [row, hidden] and the sights attend to everything."""
        mask = torch.cat((sights.mask.new_ones(len(state), 1), sights.mask), dim=1)
        layout = Layout(mask, padded=maps)
        hidden = layout.pack(torch.cat((state[:, None], sights.tokens), dim=1))
        words, seen = language.features, list[Tensor]()
        for number, layer in enumerate(self.layers):
            known, last = self._known_words(number, layer, language, words), number == len(self.layers) - 1
            asking = maps or not last  # at last only the state asks, below
            made = layer.attention.queries_keys_values(hidden) if asking else layer.attention.keys_values(hidden)
            around = Source(layout.spread(made), mask)
            if maps:
                seen.append(layer.attention.weights(around.made, known, around))
            if self.attend != "once" and not (last and self.attend != "previous"):
                words = layer.take_in(words, layer.attention.context(known.made, known, around))
            if not last:
                hidden = layer.take_in(hidden, layout.pack(layer.attention.context(around.made, known, around)))
        state = layout.first(hidden)  # nobody reads the other sights' last output
        query = layer.attention.queries(state)
        scores = [layer.attention.mean_scores(query, source) for source in (known, around)]
        found = layer.attention.context(query[:, None], known, around)[:, 0]
        return Attended(
            pooled=self.pooler(layer.take_in(state, found)),
            sight_scores=scores[1][:, 1:],
            language_scores=scores[0],
            language=Language(words, language.mask, None) if self.attend == "previous" else language,
            maps=_maps(seen, language.mask.shape[1]) if maps else None,
        )

    def _known_words(self, number: int, layer: Layer, language: Language, words: Tensor) -> Source:
        if language.cache is not None:
            return Source(language.cache[number], language.mask)
        attention = layer.attention
        made = attention.keys_values(words) if self.attend == "once" else attention.queries_keys_values(words)
        return Source(made, language.mask)


def _maps(seen: list[Tensor], count: int) -> Maps:
    return Maps(tuple(weights[..., :count] for weights in seen), tuple(weights[..., count:] for weights in seen))
