"""The one-stream backbone (OSCAR, section 3.3): state, language and vision are one sequence for the same layers.

By default the words attend to each other once, in `encode`; afterwards they are only keys and values (section 3.3,
Language Processing), and since they do not change, those are projected once for all steps. The variants of the paper's
Table 4 let the words attend at every step too: on their embeddings (Emb-Attn), on their initial features (Init-Attn),
or on the output of the previous step (Re-Attn).

Dropout is where the published code has it: on the embeddings, on attention weights, on both residuals of a layer and on
what leaves the last layer as words or as the first state, but not on visual tokens.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vlnbert.errors import UsageError, setting
from vlnbert.navigator import fast
from vlnbert.navigator.model.backbones import register_backbone
from vlnbert.navigator.model.config import NavigatorConfig
from vlnbert.navigator.model.layers import Attention, Embeddings, Layer, Pooler, layer_shape
from vlnbert.navigator.model.types import AttentionMaps, BackboneOutput, Instruction, Language, VisualTokens


@register_backbone("one-stream")
class OneStream(nn.Module):
    """Embeddings, layers and a pooler."""

    uses_fast = True
    visual_dropout = 0.0
    layers: Sequence[Layer]

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        if config.cross_layers:
            problem = f"{config.cross_layers} cross layers in a one-stream backbone"
            raise UsageError(f"{problem}; only two-stream has some: {setting('navigator.cross_layers', 0)}")
        self.language_attention = config.language_attention
        with torch.device("meta"):  # the navigator draws the weights
            self.embeddings = Embeddings(config.vocabulary, config.positions, config.hidden, config.hidden_dropout)
            self.dropout = nn.Dropout(config.hidden_dropout)
            self.pooler = Pooler(config.hidden)
            self.layers = nn.ModuleList(  # type: ignore[assignment]  # torch does not say what a list holds
                Layer(*layer_shape(config)) for _ in range(config.layers)
            )

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Eq. 8: read instructions; the output of [CLS], as it leaves the last layer, is the initial state s_0."""
        packing, embedded = fast.Packing(mask), self.embeddings(tokens)
        hidden = packing.pack(embedded)
        for layer in self.layers:
            hidden = layer(hidden, packing)
        hidden = self.dropout(hidden)  # before keys and values are made of it
        words = (embedded if self.language_attention == "embeddings" else packing.unpack(hidden))[:, 1:]
        cache = None
        if self.language_attention == "once":
            cache = tuple(packing.unpack(layer.attention.project_kv(hidden))[:, 1:] for layer in self.layers)
        return Instruction(packing.first(hidden), Language(words, mask[:, 1:], cache))

    def forward(
        self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool = False
    ) -> BackboneOutput:
        """Eq. 7: the state [row, hidden] and the visual tokens attend to everything.

        In the last layer only the state is a query: nobody reads the other outputs.
        """
        mask = torch.cat((visual.mask.new_ones(len(state), 1), visual.mask), dim=1)
        packing = fast.Packing(mask, padded=attention_maps)
        hidden = packing.pack(torch.cat((state[:, None], visual.tokens), dim=1))
        words, maps = language.features, list[Tensor]()
        for number, layer in enumerate(self.layers):
            attention, last = layer.attention, number == len(self.layers) - 1
            words_kv = self._words_kv(number, attention, language, words)
            projected = attention.project_qkv(hidden) if attention_maps or not last else attention.project_kv(hidden)
            visual_kv = fast.KeyValues(packing.unpack(projected), mask)
            if attention_maps:
                maps.append(attention.weights(visual_kv.kv, words_kv, visual_kv))
            if self.language_attention != "once" and not (last and self.language_attention != "previous"):
                words = layer.update(words, attention.context(words_kv.kv, words_kv, visual_kv))
            if not last:
                hidden = layer.update(hidden, packing.pack(attention.context(visual_kv.kv, words_kv, visual_kv)))
        if self.language_attention == "previous":
            language = Language(self.dropout(words), language.mask, None)
        state = packing.first(hidden)
        q = attention.project_q(state)
        language_scores, visual_scores = (attention.mean_scores(q, source) for source in (words_kv, visual_kv))
        context = attention.context(q[:, None], words_kv, visual_kv)[:, 0]
        return BackboneOutput(
            pooled=fast.call(self.pooler, layer.update(state, context)),
            visual_scores=visual_scores[:, 1:],
            language_scores=language_scores,
            language=language,
            attention_maps=_split_maps(maps, language.mask.shape[1]) if attention_maps else None,
        )

    def _words_kv(self, number: int, attention: Attention, language: Language, words: Tensor) -> fast.KeyValues:
        if language.kv_cache is not None:
            return fast.KeyValues(language.kv_cache[number], language.mask)
        once = self.language_attention == "once"
        return fast.KeyValues(attention.project_kv(words) if once else attention.project_qkv(words), language.mask)


def _split_maps(maps: list[Tensor], words: int) -> AttentionMaps:
    language, visual = (tuple(one[..., part] for one in maps) for part in (slice(words), slice(words, None)))
    return AttentionMaps(language, visual)
