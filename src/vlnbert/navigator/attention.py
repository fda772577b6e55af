"""Multi-head attention whose keys and values may be kept, with fused kernels wherever no weights are asked for."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from vlnbert.navigator.types import KeysValues


class Attention(nn.Module):
    """BERT's attention: projections, heads, output, residual and LayerNorm."""

    def __init__(self, hidden: int, heads: int, hidden_dropout: float, attention_dropout: float, eps: float) -> None:
        super().__init__()
        self.heads, self.attention_dropout = heads, attention_dropout
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=eps)
        self.dropout = nn.Dropout(hidden_dropout)

    def keys_values(self, tokens: Tensor) -> KeysValues:
        """Project tokens [row, token, hidden] once, for any number of queries."""
        return self._split(self.key(tokens)), self._split(self.value(tokens))

    def forward(self, tokens: Tensor, attended: KeysValues, mask: Tensor | None) -> Tensor:
        """Let tokens attend to keys and values; `mask` [row, key] is true where they may."""
        dropout = self.attention_dropout if self.training else 0.0
        allowed = None if mask is None else mask[:, None, None]
        context = scaled_dot_product_attention(self._split(self.query(tokens)), *attended, allowed, dropout)
        return self.norm(tokens + self.dropout(self.output(context.transpose(1, 2).flatten(2))))

    def mean_scores(self, token: Tensor, keys: Tensor) -> Tensor:
        """[row, key] scores of one token [row, hidden] over keys, before softmax, averaged over heads.

        The mean over heads of their dot products is the dot product of the whole, so no heads are formed.
        """
        whole = keys.transpose(1, 2).flatten(2)  # [row, key, hidden]
        scale = 1 / (self.heads * math.sqrt(whole.shape[-1] // self.heads))
        return torch.einsum("rh,rkh->rk", self.query(token), whole) * scale

    def weights(self, tokens: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        """[row, head, token, key] what each token attends to: only for those who want to look."""
        query = self._split(self.query(tokens))
        scores = query @ keys.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -math.inf)
        return scores.softmax(dim=-1)

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.view(*tokens.shape[:-1], self.heads, -1).transpose(1, 2)


def joined(first: KeysValues, second: KeysValues) -> KeysValues:
    """The keys and values of two sequences, one behind the other."""
    return torch.cat((first[0], second[0]), dim=2), torch.cat((first[1], second[1]), dim=2)
