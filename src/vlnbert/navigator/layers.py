"""BERT's parts: embeddings, feed-forward, a self-attention layer, a cross-modal layer, the pooler."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from vlnbert.navigator.attention import Attention
from vlnbert.navigator.types import KeysValues

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
        """[row, token] ids -> [row, token, hidden]. All words are of the first type."""
        places = self.positions.weight[: tokens.shape[1]]
        return self.dropout(self.norm(self.words(tokens) + places + self.types.weight[0]))


class FeedForward(nn.Module):
    """Two linear maps with a GELU between, residual and LayerNorm."""

    def __init__(self, hidden: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden, inner)
        self.outer = nn.Linear(inner, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.norm(tokens + self.dropout(self.outer(gelu(self.inner(tokens)))))


class Layer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, hidden: int, heads: int, inner: int, hidden_dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.attention = Attention(hidden, heads, hidden_dropout, attention_dropout, EPS)
        self.feed_forward = FeedForward(hidden, inner, hidden_dropout)

    def forward(self, tokens: Tensor, attended: KeysValues, mask: Tensor | None) -> Tensor:
        return self.feed_forward(self.attention(tokens, attended, mask))


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
        return torch.tanh(self.dense(token))
