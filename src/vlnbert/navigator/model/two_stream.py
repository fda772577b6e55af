"""The two-stream backbone (PREVALENT, LXMERT; sections 3.5 and B.3): language layers, then layers that look across.

Of the cross-modal layers only the visual branch is there: the state, as the first of the visual tokens, attends to the
words and then to itself and the visual tokens. The words' keys and values are projected once for all steps.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vlnbert.errors import UsageError, setting
from vlnbert.navigator import fast
from vlnbert.navigator.model.backbones import register_backbone
from vlnbert.navigator.model.config import NavigatorConfig
from vlnbert.navigator.model.layers import Attention, CrossLayer, Embeddings, Layer, Pooler, layer_shape
from vlnbert.navigator.model.types import AttentionMaps, BackboneOutput, Instruction, Language, VisualTokens


class CrossModal(nn.Module):
    """The half that looks across: cross-modal layers and a pooler, whoever reads the language."""

    uses_fast = True
    pooler: Pooler
    cross_layers: Sequence[CrossLayer]

    def instruction(self, hidden: Tensor, packing: fast.Packing) -> Instruction:
        """Eq. 8 of language features: that of [CLS], pooled as in the published code, is the initial state s_0."""
        words, mask = packing.unpack(hidden)[:, 1:], packing.mask[:, 1:]
        cache = tuple(packing.unpack(layer.cross.project_kv(hidden))[:, 1:] for layer in self.cross_layers)
        return Instruction(fast.call(self.pooler, packing.first(hidden)), Language(words, mask, cache))

    def forward(
        self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool = False
    ) -> BackboneOutput:
        """Eq. 7: the state [row, hidden] and the visual tokens attend to the words, then to each other.

        Language scores are those of the last cross-attention, visual scores those of the last self-attention (section
        B.3). There only the state is a query: nobody reads the other outputs.
        """
        mask = torch.cat((visual.mask.new_ones(len(state), 1), visual.mask), dim=1)
        packing = fast.Packing(mask, padded=attention_maps)
        hidden = packing.pack(torch.cat((state[:, None], visual.tokens), dim=1))
        language_maps, visual_maps = list[Tensor](), list[Tensor]()
        for number, layer in enumerate(self.cross_layers):
            cross, attention, last = layer.cross, layer.attention, number == len(self.cross_layers) - 1
            words_kv, q = self._words_kv(number, cross, language), cross.project_q(hidden)
            if last:
                language_scores = cross.mean_scores(packing.first(q), words_kv)
            if attention_maps:
                language_maps.append(cross.weights(q, words_kv))
            hidden = cross(hidden, packing.pack(cross.context(packing.unpack(q), words_kv)))
            if attention_maps:
                qkv = attention.project_qkv(hidden)
                visual_maps.append(attention.weights(qkv, fast.KeyValues(qkv, mask)))
            if not last:
                qkv = packing.unpack(attention.project_qkv(hidden))
                context = packing.pack(attention.context(qkv, fast.KeyValues(qkv, mask)))
                hidden = layer.feed_forward(attention(hidden, context))
        visual_kv = fast.KeyValues(packing.unpack(attention.project_kv(hidden)), mask)
        state = packing.first(hidden)
        q = attention.project_q(state)
        visual_scores = attention.mean_scores(q, visual_kv)[:, 1:]
        context = attention.context(q[:, None], visual_kv)[:, 0]
        return BackboneOutput(
            pooled=fast.call(self.pooler, layer.feed_forward(attention(state, context))),
            visual_scores=visual_scores,
            language_scores=language_scores,
            language=language,
            attention_maps=AttentionMaps(tuple(language_maps), tuple(visual_maps)) if attention_maps else None,
        )

    def _words_kv(self, number: int, cross: Attention, language: Language) -> fast.KeyValues:
        if language.kv_cache is not None:
            return fast.KeyValues(language.kv_cache[number], language.mask)
        return fast.KeyValues(cross.project_kv(language.features), language.mask)


@register_backbone("two-stream")
class TwoStream(CrossModal):
    """Embeddings, language layers, cross-modal layers and a pooler."""

    layers: Sequence[Layer]

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        require_cross_layers(config)
        with torch.device("meta"):  # the navigator draws the weights
            self.embeddings = Embeddings(config.vocabulary, config.positions, config.hidden, config.hidden_dropout)
            self.pooler = Pooler(config.hidden)
            self.layers = nn.ModuleList(  # type: ignore[assignment]  # torch does not say what a list holds
                Layer(*layer_shape(config)) for _ in range(config.layers)
            )
            self.cross_layers = make_cross_layers(config)

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Eq. 8: read instructions."""
        packing = fast.Packing(mask)
        hidden = packing.pack(self.embeddings(tokens))
        for layer in self.layers:
            hidden = layer(hidden, packing)
        return self.instruction(hidden, packing)


def make_cross_layers(config: NavigatorConfig) -> Sequence[CrossLayer]:
    """As many as the configuration says, in a list that torch knows of."""
    layers = (CrossLayer(*layer_shape(config)) for _ in range(config.cross_layers))
    return nn.ModuleList(layers)  # type: ignore[return-value]  # torch does not say what a list holds


def require_cross_layers(config: NavigatorConfig) -> None:
    """What the backbones that look across ask of a configuration."""
    if not config.cross_layers:
        raise UsageError(
            f"0 cross layers in a {config.backbone} backbone; choose {setting('navigator.cross_layers')} from 1"
        )
    if config.language_attention != "once":
        raise UsageError(
            f"{setting('navigator.language_attention', config.language_attention)} needs the one-stream backbone"
        )
