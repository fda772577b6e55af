"""BERT's parts (section 3.2): attention, embeddings, feed-forward, layers, the pooler.

Where print and published code differ we follow the code: the feed-forward has a GELU where Eq. 5 says ReLU.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from vlnbert.navigator import fast
from vlnbert.navigator.model.config import NavigatorConfig

EPS = 1e-12  # of every LayerNorm in BERT


def layer_shape(config: NavigatorConfig) -> tuple[int, int, int, float, float]:
    """What a layer and a cross-modal layer are made with."""
    return config.hidden, config.heads, config.inner, config.hidden_dropout, config.attention_dropout


class Attention(nn.Module):
    """Multi-head attention, Eq. 1 to 4: projections, heads, output, residual and LayerNorm."""

    def __init__(self, hidden: int, heads: int, hidden_dropout: float, attention_dropout: float, eps: float) -> None:
        super().__init__()
        self.hidden, self.heads, self.attention_dropout = hidden, heads, attention_dropout
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=eps)
        self.dropout = nn.Dropout(hidden_dropout)

    def project_q(self, tokens: Tensor) -> Tensor:
        """Eq. 1: queries."""
        return fast.linear(tokens, self.query, width=self.hidden)

    def project_kv(self, tokens: Tensor) -> Tensor:
        """Eq. 1: [..., 2 x hidden] keys and values of tokens, made once for any number of queries."""
        return fast.linear(tokens, self.key, self.value, width=self.hidden)

    def project_qkv(self, tokens: Tensor) -> Tensor:
        """Eq. 1: [..., 3 x hidden] queries, keys and values of tokens which attend to each other."""
        return fast.linear(tokens, self.query, self.key, self.value, width=self.hidden)

    def context(self, q: Tensor, *sources: fast.KeyValues) -> Tensor:
        """Eq. 2: [row, query, hidden] Softmax(Q K^T / sqrt(d_h)) V over one source or two together, heads side by side.

        Queries are the first of the numbers in `q`, which may be the tensor of a source too.
        """
        dropout = self.attention_dropout if self.training else 0.0
        return fast.attention(q, *sources, heads=self.heads, hidden=self.hidden, dropout=dropout)

    def forward(self, tokens: Tensor, context: Tensor) -> Tensor:
        """Eq. 3 and 4: LayerNorm(context W^O + tokens), packed or padded."""
        branch = fast.linear(context, self.output, width=self.hidden)
        return fast.residual_norm(self.norm, tokens, branch, self.dropout)

    def mean_scores(self, query: Tensor, source: fast.KeyValues) -> Tensor:
        """Eq. 9, and the mean inside Eq. 10: [row, token] scores of one query [row, hidden], averaged over heads.

        The mean over heads of their dot products is the dot product of the whole, so no heads are formed.
        """
        hidden = self.hidden
        keys = source.kv[..., -2 * hidden : -hidden]
        scale = 1 / (self.heads * math.sqrt(hidden // self.heads))
        return torch.einsum("rh,rkh->rk", query * scale, keys)

    def weights(self, q: Tensor, *sources: fast.KeyValues) -> Tensor:
        """The softmax of Eq. 2 itself, [row, head, query, token]: only for those who want to look."""
        hidden = self.hidden
        queries = fast.split_heads(q[..., :hidden], self.heads)
        keys, _, mask = fast.join_sources(sources, self.heads, hidden)
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        return scores.masked_fill(~mask[:, None, None], -math.inf).softmax(dim=-1)


class Embeddings(nn.Module):
    """Words, positions and types, summed and normalised."""

    def __init__(self, vocabulary: int, positions: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, hidden, padding_idx=0)
        self.positions = nn.Embedding(positions, hidden)
        self.types = nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """[row, token] ids -> [row, token, hidden], in the precision of the pass. All words are of the first type."""
        embedded = self.words(tokens) + self.positions.weight[: tokens.shape[1]] + self.types.weight[0]
        return self.dropout(fast.layer_norm(self.norm, fast.cast(embedded)))


class FeedForward(nn.Module):
    """Eq. 5 and 6: two linear maps with a GELU between, residual and LayerNorm."""

    def __init__(self, hidden: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.hidden, self.inner_width = hidden, inner
        self.inner = nn.Linear(hidden, inner)
        self.outer = nn.Linear(inner, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        inner = gelu(fast.linear(tokens, self.inner, width=self.inner_width))
        branch = fast.linear(inner, self.outer, width=self.hidden)
        return fast.residual_norm(self.norm, tokens, branch, self.dropout)


class Layer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, hidden: int, heads: int, inner: int, hidden_dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.attention = Attention(hidden, heads, hidden_dropout, attention_dropout, EPS)
        self.feed_forward = FeedForward(hidden, inner, hidden_dropout)

    def forward(self, tokens: Tensor, packing: fast.Packing) -> Tensor:
        """Let the tokens of each row attend to each other."""
        qkv = packing.unpack(self.attention.project_qkv(tokens))
        return self.update(tokens, packing.pack(self.attention.context(qkv, fast.KeyValues(qkv, packing.mask))))

    def update(self, tokens: Tensor, context: Tensor) -> Tensor:
        """Eq. 3 to 6: tokens after what they attended to."""
        return self.feed_forward(self.attention(tokens, context))


class CrossLayer(nn.Module):
    """Attention to the language, then self-attention, then feed-forward."""

    def __init__(self, hidden: int, heads: int, inner: int, hidden_dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.cross = Attention(hidden, heads, hidden_dropout, attention_dropout, EPS)
        self.attention = Attention(hidden, heads, hidden_dropout, attention_dropout, EPS)
        self.feed_forward = FeedForward(hidden, inner, hidden_dropout)


class Pooler(nn.Module):
    """BERT's pooler of one token: tanh(W x)."""

    uses_fast = True

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, token: Tensor) -> Tensor:
        return torch.tanh(fast.linear(token, self.dense, width=self.hidden))
