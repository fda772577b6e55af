"""BERT's layers (section 3.2) and the two backbones made of them: one-stream and two-stream.

Where the paper and the published code differ we follow the code: the feed-forward has a GELU where Eq. 5 has a ReLU.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from vlnbert.errors import UsageError, setting
from vlnbert.navigator import fast
from vlnbert.navigator.model.backbone import (
    AttentionMaps,
    BackboneOutput,
    Instruction,
    Language,
    VisualTokens,
    register_backbone,
)
from vlnbert.navigator.model.config import NavigatorConfig

# Of every LayerNorm in BERT.
EPS = 1e-12

AnyLayer = TypeVar("AnyLayer", bound=nn.Module)


class Attention(nn.Module):
    """Multi-head attention, Eq. 1 to 4: projections, heads, output, residual and LayerNorm."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        self.hidden, self.heads, self.attention_dropout = config.hidden, config.heads, config.attention_dropout
        self.query = nn.Linear(self.hidden, self.hidden)
        self.key = nn.Linear(self.hidden, self.hidden)
        self.value = nn.Linear(self.hidden, self.hidden)
        self.output = nn.Linear(self.hidden, self.hidden)
        self.norm = nn.LayerNorm(self.hidden, eps=EPS)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def project_q(self, tokens: Tensor) -> Tensor:
        """Eq. 1: queries."""
        return fast.linear(tokens, self.query, width=self.hidden)

    def project_kv(self, tokens: Tensor) -> Tensor:
        """Eq. 1: [..., 2 x hidden] keys and values of tokens, computed once for any number of queries."""
        return fast.linear(tokens, self.key, self.value, width=self.hidden)

    def project_qkv(self, tokens: Tensor) -> Tensor:
        """Eq. 1: [..., 3 x hidden] queries, keys and values of tokens which attend to each other."""
        return fast.linear(tokens, self.query, self.key, self.value, width=self.hidden)

    def context(self, q: Tensor, *sources: fast.KeyValues) -> Tensor:
        """Eq. 2: [row, query, hidden] Softmax(Q K^T / sqrt(d_h)) V over one source or two together, heads side by side.

        Queries are the first `hidden` numbers of `q`, which may be the same tensor as a source's.
        """
        dropout = self.attention_dropout if self.training else 0.0
        return fast.attention(q, *sources, heads=self.heads, hidden=self.hidden, dropout=dropout)

    def forward(self, tokens: Tensor, context: Tensor) -> Tensor:
        """Eq. 3 and 4: LayerNorm(context W^O + tokens), packed or padded."""
        branch = fast.linear(context, self.output, width=self.hidden)
        return fast.residual_norm(self.norm, tokens, branch, self.dropout)

    def mean_scores(self, query: Tensor, source: fast.KeyValues) -> Tensor:
        """Eq. 9, and the mean inside Eq. 10: [row, token] scores of one query [row, hidden], averaged over heads.

        The mean over heads of their dot products is the dot product of the whole, so there is no need to split heads.
        """
        hidden = self.hidden
        keys = source.kv[..., -2 * hidden : -hidden]
        scale = 1 / (self.heads * math.sqrt(hidden // self.heads))
        return torch.einsum("rh,rkh->rk", query * scale, keys)

    def weights(self, q: Tensor, *sources: fast.KeyValues) -> Tensor:
        """The softmax of Eq. 2 itself, [row, head, query, token]: only computed for attention maps."""
        hidden = self.hidden
        queries = fast.split_heads(q[..., :hidden], self.heads)
        keys, _, mask = fast.join_sources(sources, self.heads, hidden)
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        return scores.masked_fill(~mask[:, None, None], -math.inf).softmax(dim=-1)


class Embeddings(nn.Module):
    """Words, positions and types, summed and normalised."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden, padding_idx=0)
        self.positions = nn.Embedding(config.positions, config.hidden)
        self.types = nn.Embedding(2, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=EPS)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """[row, token] ids -> [row, token, hidden], in the precision of the pass. All words are of the first type."""
        embedded = self.words(tokens) + self.positions.weight[: tokens.shape[1]] + self.types.weight[0]
        return self.dropout(fast.layer_norm(self.norm, fast.cast(embedded)))


class FeedForward(nn.Module):
    """Eq. 5 and 6: two linear maps with a GELU between, residual and LayerNorm."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        self.hidden, self.inner_width = config.hidden, config.inner
        self.inner = nn.Linear(config.hidden, config.inner)
        self.outer = nn.Linear(config.inner, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=EPS)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        inner = gelu(fast.linear(tokens, self.inner, width=self.inner_width))
        branch = fast.linear(inner, self.outer, width=self.hidden)
        return fast.residual_norm(self.norm, tokens, branch, self.dropout)


class Layer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)

    def forward(self, tokens: Tensor, packing: fast.Packing) -> Tensor:
        """Let the tokens of each row attend to each other."""
        qkv = packing.unpack(self.attention.project_qkv(tokens))
        return self.update(tokens, packing.pack(self.attention.context(qkv, fast.KeyValues(qkv, packing.mask))))

    def update(self, tokens: Tensor, context: Tensor) -> Tensor:
        """Eq. 3 to 6: the layer's output for tokens and the context that they attended to."""
        return self.feed_forward(self.attention(tokens, context))


class CrossLayer(nn.Module):
    """Attention to the language, then self-attention, then feed-forward."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        self.cross = Attention(config)
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)


def stack(layer: Callable[[NavigatorConfig], AnyLayer], config: NavigatorConfig, count: int) -> Sequence[AnyLayer]:
    """A module list of so many layers."""
    return nn.ModuleList(layer(config) for _ in range(count))  # type: ignore[return-value]  # typed as plain modules


def _with_state(state: Tensor, visual: VisualTokens, padded: bool) -> tuple[Tensor, fast.Packing, Tensor]:
    """The mask, the packing and the packed tokens of the state followed by the visual tokens."""
    mask = torch.cat((visual.mask.new_ones(len(state), 1), visual.mask), dim=1)
    packing = fast.Packing(mask, padded)
    return mask, packing, packing.pack(torch.cat((state[:, None], visual.tokens), dim=1))


class Pooler(nn.Module):
    """BERT's pooler of one token: tanh(W x)."""

    uses_fast = True

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, token: Tensor) -> Tensor:
        return torch.tanh(fast.linear(token, self.dense, width=self.hidden))


@register_backbone("one-stream")
class OneStream(nn.Module):
    """The one-stream backbone (OSCAR, section 3.3): state, language and vision are one sequence for the same layers.

    By default the words attend to each other once, in `encode`; afterwards they are only keys and values (section 3.3,
    Language Processing), and since they do not change, those are projected once for all steps. The variants of the
    paper's Table 4 let the words attend at every step too: on their embeddings (Emb-Attn), on their initial features
    (Init-Attn), or on the output of the previous step (Re-Attn).

    Dropout is where the published code has it: on the embeddings, on attention weights, on both residuals of a layer
    and on what leaves the last layer as words or as the first state, but not on visual tokens.
    """

    uses_fast = True
    visual_dropout = 0.0

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        if config.cross_layers:
            problem = f"{config.cross_layers} cross layers in a one-stream backbone"
            raise UsageError(f"{problem}; only two-stream has some: {setting('navigator.cross_layers', 0)}")
        self.language_attention = config.language_attention
        # The navigator initialises what is on the meta device.
        with torch.device("meta"):
            self.embeddings = Embeddings(config)
            self.dropout = nn.Dropout(config.hidden_dropout)
            self.pooler = Pooler(config.hidden)
            self.layers = stack(Layer, config, config.layers)

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Eq. 8: read instructions; the output of [CLS], as it leaves the last layer, is the initial state s_0."""
        packing, embedded = fast.Packing(mask), self.embeddings(tokens)
        hidden = packing.pack(embedded)
        for layer in self.layers:
            hidden = layer(hidden, packing)
        # Before keys and values are computed from it, as in the published code.
        hidden = self.dropout(hidden)
        words = (embedded if self.language_attention == "embeddings" else packing.unpack(hidden))[:, 1:]
        cache = None
        if self.language_attention == "once":
            cache = tuple(packing.unpack(layer.attention.project_kv(hidden))[:, 1:] for layer in self.layers)
        return Instruction(packing.first(hidden), Language(words, mask[:, 1:], cache))

    def forward(
        self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool = False
    ) -> BackboneOutput:
        """Eq. 7: the state [row, hidden] and the visual tokens attend to everything.

        In the last layer only the state is a query: the other outputs are not used.
        """
        mask, packing, hidden = _with_state(state, visual, padded=attention_maps)
        words, maps = language.features, list[Tensor]()
        for number, layer in enumerate(self.layers):
            attention, last = layer.attention, number == len(self.layers) - 1
            if language.kv_cache is not None:
                words_kv = fast.KeyValues(language.kv_cache[number], language.mask)
            else:
                project = attention.project_kv if self.language_attention == "once" else attention.project_qkv
                words_kv = fast.KeyValues(project(words), language.mask)
            projected = attention.project_qkv(hidden) if attention_maps or not last else attention.project_kv(hidden)
            visual_kv = fast.KeyValues(packing.unpack(projected), mask)
            if attention_maps:
                maps.append(attention.weights(visual_kv.kv, words_kv, visual_kv))
            if self.language_attention != "once" and not (last and self.language_attention != "previous"):
                words = layer.update(words, attention.context(words_kv.kv, words_kv, visual_kv))
            if not last:
                hidden = layer.update(hidden, packing.pack(attention.context(visual_kv.kv, words_kv, visual_kv)))
        split = language.mask.shape[1]
        if self.language_attention == "previous":
            language = Language(self.dropout(words), language.mask, None)
        state = packing.first(hidden)
        q = attention.project_q(state)
        language_scores, visual_scores = (attention.mean_scores(q, source) for source in (words_kv, visual_kv))
        context = attention.context(q[:, None], words_kv, visual_kv)[:, 0]
        split_maps = AttentionMaps(tuple(one[..., :split] for one in maps), tuple(one[..., split:] for one in maps))
        return BackboneOutput(
            pooled=fast.call(self.pooler, layer.update(state, context)),
            visual_scores=visual_scores[:, 1:],
            language_scores=language_scores,
            language=language,
            attention_maps=split_maps if attention_maps else None,
        )


class CrossModal(nn.Module):
    """The cross-modal half of the two-stream backbones: cross-modal layers and a pooler, for any language encoder.

    Of the cross-modal layers only the visual branch exists: the state, as the first of the visual tokens, attends to
    the words and then to itself and the visual tokens. The words' keys and values are projected once for all steps.
    """

    uses_fast = True
    pooler: Pooler
    cross_layers: Sequence[CrossLayer]

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        if not config.cross_layers:
            choose = f"choose {setting('navigator.cross_layers')} from 1"
            raise UsageError(f"0 cross layers in a {config.backbone} backbone; {choose}")
        if config.language_attention != "once":
            option = setting("navigator.language_attention", config.language_attention)
            raise UsageError(f"{option} needs the one-stream backbone")

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
        B.3). There only the state is a query: the other outputs are not used.
        """
        mask, packing, hidden = _with_state(state, visual, padded=attention_maps)
        language_maps, visual_maps = list[Tensor](), list[Tensor]()
        for number, layer in enumerate(self.cross_layers):
            cross, attention, last = layer.cross, layer.attention, number == len(self.cross_layers) - 1
            cache = language.kv_cache
            kv = cross.project_kv(language.features) if cache is None else cache[number]
            words_kv, q = fast.KeyValues(kv, language.mask), cross.project_q(hidden)
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


@register_backbone("two-stream")
class TwoStream(CrossModal):
    """The two-stream backbone (PREVALENT, LXMERT; sections 3.5 and B.3): language layers, then cross-modal layers."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__(config)
        # The navigator initialises what is on the meta device.
        with torch.device("meta"):
            self.embeddings = Embeddings(config)
            self.pooler = Pooler(config.hidden)
            self.layers = stack(Layer, config, config.layers)
            self.cross_layers = stack(CrossLayer, config, config.cross_layers)

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Eq. 8: read instructions."""
        packing = fast.Packing(mask)
        hidden = packing.pack(self.embeddings(tokens))
        for layer in self.layers:
            hidden = layer(hidden, packing)
        return self.instruction(hidden, packing)
