"""Transformer layers that normalise first, over torch's own attention; those that write can keep keys and values."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention


@dataclass(frozen=True)
class KeyValues:
    """Keys and values of one attention."""

    keys: Tensor  # [row, head, token, width of a head]
    values: Tensor


class Attention(nn.Module):
    """Multi-head attention; who gives `kept` keys and values has projected them before."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.output = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.key_value = nn.Linear(hidden, 2 * hidden)

    def project(self, tokens: Tensor) -> KeyValues:
        """The keys and values of [row, token, hidden]."""
        keys, values = (self._split(part) for part in self.key_value(tokens).chunk(2, dim=-1))
        return KeyValues(keys, values)

    def forward(self, tokens: Tensor, kept: KeyValues, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """[row, token, hidden]; `mask` is bool and broadcasts to [row, head, query, key], true where one may look."""
        query = self._split(self.query(tokens))
        found = scaled_dot_product_attention(query, kept.keys, kept.values, attn_mask=mask, is_causal=causal)
        mixed: Tensor = self.output(found.transpose(1, 2).flatten(2))
        return mixed

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.view(*tokens.shape[:2], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        wide: Tensor = self.down(gelu(self.up(tokens)))
        return wide


class EncoderLayer(nn.Module):
    """Tokens look at each other, then think for themselves."""

    def __init__(self, hidden: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(hidden, heads), FeedForward(hidden, inner)
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        normed = self.attention_norm(tokens)
        tokens = tokens + self.dropout(self.attention(normed, self.attention.project(normed), mask))
        thought: Tensor = tokens + self.dropout(self.feed_forward(self.feed_forward_norm(tokens)))
        return thought


class DecoderLayer(nn.Module):
    """Words look at the words before them, then at the path, then think for themselves."""

    def __init__(self, hidden: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.cross_attention = Attention(hidden, heads), Attention(hidden, heads)
        self.feed_forward, self.dropout = FeedForward(hidden, inner), nn.Dropout(dropout)
        self.attention_norm, self.cross_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.feed_forward_norm = nn.LayerNorm(hidden)

    def forward(self, words: Tensor, path: KeyValues, path_mask: Tensor) -> Tensor:
        """All words of the instructions at once, each seeing those before it."""
        normed = self.attention_norm(words)
        words = words + self.dropout(self.attention(normed, self.attention.project(normed), causal=True))
        return self._look_and_think(words, path, path_mask)

    def step(
        self, word: Tensor, position: Tensor, before: KeyValues, seen: Tensor, path: KeyValues, path_mask: Tensor
    ) -> Tensor:
        """One word [row, 1, hidden] at `position` [1], whose keys and values are added to those `before`.

        `seen` masks the places behind it. Nothing in it depends on the values of `position` but what is computed.
        """
        normed = self.attention_norm(word)
        own = self.attention.project(normed)
        before.keys.index_copy_(2, position, own.keys)
        before.values.index_copy_(2, position, own.values)
        word = word + self.dropout(self.attention(normed, before, seen))
        return self._look_and_think(word, path, path_mask)

    def _look_and_think(self, words: Tensor, path: KeyValues, path_mask: Tensor) -> Tensor:
        words = words + self.dropout(self.cross_attention(self.cross_norm(words), path, path_mask))
        thought: Tensor = words + self.dropout(self.feed_forward(self.feed_forward_norm(words)))
        return thought


def empty_key_values(rows: int, heads: int, tokens: int, width: int, like: Tensor) -> KeyValues:
    """Room for the keys and values of some tokens. Zeros: what is masked must be numbers all the same."""
    shape = rows, heads, tokens, width
    return KeyValues(*(torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in range(2)))
