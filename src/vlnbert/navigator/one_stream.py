"""The one-stream backbone (OSCAR-like): state, language and vision are one sequence for the same layers.

By default the words attend to each other once, in `encode`; afterwards they are only keys and values, and since they
do not change, those are projected once for all steps. The variants of the paper's Table 4 let the words attend at
every step too: on their embeddings, on their initial features, or on the output of the previous step.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vlnbert.navigator.attention import joined
from vlnbert.navigator.config import LanguageAttention
from vlnbert.navigator.layers import Embeddings, Layer, Pooler
from vlnbert.navigator.types import Attended, Instruction, KeysValues, Language, Maps, Sights


class OneStream(nn.Module):
    """Embeddings, layers and a pooler."""

    layers: Sequence[Layer]

    def __init__(self, embeddings: Embeddings, layers: list[Layer], pooler: Pooler, attend: LanguageAttention) -> None:
        super().__init__()
        self.embeddings, self.pooler, self.attend = embeddings, pooler, attend
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # torch does not say what a list holds

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Read instructions: the raw [CLS] output is the initial state."""
        embedded = self.embeddings(tokens)
        hidden = embedded
        for layer in self.layers:
            hidden = layer(hidden, layer.attention.keys_values(hidden), mask)
        words = (embedded if self.attend == "embeddings" else hidden)[:, 1:]
        cache = None
        if self.attend == "once":
            cache = tuple(layer.attention.keys_values(words) for layer in self.layers)
        return Instruction(hidden[:, 0], Language(words, mask[:, 1:], cache))

    def forward(self, state: Tensor, sights: Sights, language: Language, maps: bool = False) -> Attended:
        """One step: the state [row, hidden] and the sights attend to everything."""
        hidden = torch.cat((state[:, None], sights.tokens), dim=1)
        words = language.features
        mask = torch.cat((language.mask, sights.mask.new_ones(len(state), 1), sights.mask), dim=1)
        seen = list[Tensor]()
        for number, layer in enumerate(self.layers):
            known = self._known_words(number, layer, language, words)
            attended = joined(known, layer.attention.keys_values(hidden))
            if maps:
                seen.append(layer.attention.weights(hidden, attended[0], mask))
            last = number == len(self.layers) - 1
            if last:
                scores = layer.attention.mean_scores(hidden[:, 0], attended[0])
                hidden = hidden[:, :1]  # nobody reads the other sights' last output
            if self.attend != "once" and not (last and self.attend != "previous"):
                words = layer(words, attended, mask)
            hidden = layer(hidden, attended, mask)
        count = language.mask.shape[1]
        return Attended(
            pooled=self.pooler(hidden[:, 0]),
            sight_scores=scores[:, count + 1 :],
            language_scores=scores[:, :count],
            language=Language(words, language.mask, None) if self.attend == "previous" else language,
            maps=_maps(seen, count) if maps else None,
        )

    def _known_words(self, number: int, layer: Layer, language: Language, words: Tensor) -> KeysValues:
        if language.cache is not None:
            return language.cache[number]
        return layer.attention.keys_values(words)


def _maps(seen: list[Tensor], count: int) -> Maps:
    return Maps(tuple(weights[..., :count] for weights in seen), tuple(weights[..., count:] for weights in seen))
