"""BERT's parts: embeddings, feed-forward, a self-attention layer, a cross-modal layer, the pooler."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from vlnbert.navigator.attention import Attention, Source
from vlnbert.navigator.economy import current
from vlnbert.navigator.layout import Layout
from vlnbert.navigator.linear import project
from vlnbert.navigator.norms import normalised, residual

EPS = 1e-12  # of every LayerNorm in BERT


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
        places = self.positions.weight[: tokens.shape[1]]
        embedded = self.words(tokens) + places + self.types.weight[0]
        shared = current()
        return self.dropout(normalised(self.norm, embedded if shared is None else embedded.to(shared.precision)))


class FeedForward(nn.Module):
    """Two linear maps with a GELU between, residual and LayerNorm."""

    def __init__(self, hidden: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden, inner)
        self.outer = nn.Linear(inner, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        change = project(gelu(project(tokens, self.inner)), self.outer)
        return residual(self.norm, tokens, change, self.dropout)


class Layer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, hidden: int, heads: int, inner: int, hidden_dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.attention = Attention(hidden, heads, hidden_dropout, attention_dropout, EPS)
        self.feed_forward = FeedForward(hidden, inner, hidden_dropout)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Let the tokens of each row attend to each other."""
        made = layout.spread(self.attention.queries_keys_values(tokens))
        return self.take_in(tokens, layout.pack(self.attention.context(made, Source(made, layout.mask))))

    def take_in(self, tokens: Tensor, context: Tensor) -> Tensor:
        """Tokens after what they found."""
        return self.feed_forward(self.attention(tokens, context))


class CrossLayer(nn.Module):
    """Attention to the language, then self-attention, then feed-forward."""

    def __init__(self, hidden: int, heads: int, inner: int, hidden_dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.cross = Attention(hidden, heads, hidden_dropout, attention_dropout, EPS)
        self.attention = Attention(hidden, heads, hidden_dropout, attention_dropout, EPS)
        self.feed_forward = FeedForward(hidden, inner, hidden_dropout)


class Pooler(nn.Module):
    """The first token, mapped and squashed."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, token: Tensor) -> Tensor:
        return torch.tanh(project(token, self.dense))
