"""Multi-head attention whose keys and values may be kept, with fused kernels wherever no weights are asked for."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from vlnbert.navigator.fused_attention import attend, fits
from vlnbert.navigator.linear import project
from vlnbert.navigator.norms import residual
from vlnbert.navigator.serving import on


@dataclass(frozen=True)
class Source:
    """Tokens that can be attended to: the keys and values made of them, and which of them are real."""

    made: Tensor  # [row, token, 2 or 3 x hidden] keys and values side by side, behind queries where those are there too
    mask: Tensor  # [row, token] bool


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

    def queries(self, tokens: Tensor) -> Tensor:
        return project(tokens, self.query)

    def keys_values(self, tokens: Tensor) -> Tensor:
        """[..., 2 x hidden] keys and values of tokens, made once for any number of queries."""
        return project(tokens, self.key, self.value)

    def queries_keys_values(self, tokens: Tensor) -> Tensor:
        """[..., 3 x hidden] all that is made of tokens which attend to each other."""
        return project(tokens, self.query, self.key, self.value)

    def context(self, queries: Tensor, *sources: Source) -> Tensor:
        """[row, query, hidden] what queries find in one or two sources together.

        Queries are the first of the numbers in `queries`, which may be what a source was made of too.
        """
        dropout = self.attention_dropout if self.training else 0.0
        if (economy := on(queries)) is not None and fits(queries, sources):
            return attend(economy, queries, sources, self.heads, self._hidden, dropout)
        asked = self._split(queries[..., : self._hidden])
        keys, values, allowed = self._joined(sources)
        found = scaled_dot_product_attention(asked, keys, values, allowed[:, None, None], dropout)
        return found.transpose(1, 2).flatten(2)

    def forward(self, tokens: Tensor, context: Tensor) -> Tensor:
        """Tokens with what they found; both in any layout."""
        return residual(self.norm, tokens, project(context, self.output), self.dropout)

    def mean_scores(self, query: Tensor, source: Source) -> Tensor:
        """[row, token] scores of one query [row, hidden] over a source, before softmax, averaged over heads.

        The mean over heads of their dot products is the dot product of the whole, so no heads are formed.
        """
        keys = source.made[..., -2 * self._hidden : -self._hidden]
        scale = 1 / (self.heads * math.sqrt(self._hidden // self.heads))
        return torch.einsum("rh,rkh->rk", query * scale, keys)

    def weights(self, queries: Tensor, *sources: Source) -> Tensor:
        """[row, head, query, token] what each query attends to: only for those who want to look."""
        asked = self._split(queries[..., : self._hidden])
        keys, _, allowed = self._joined(sources)
        scores = asked @ keys.transpose(-1, -2) / math.sqrt(asked.shape[-1])
        return scores.masked_fill(~allowed[:, None, None], -math.inf).softmax(dim=-1)

    @property
    def _hidden(self) -> int:
        return self.query.in_features

    def _joined(self, sources: tuple[Source, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """Keys and values [row, head, token, head width] of sources one behind the other, and their mask."""
        pairs = [source.made[..., -2 * self._hidden :].chunk(2, dim=-1) for source in sources]
        keys, values = (_behind([self._split(part) for part in parts], dim=2) for parts in zip(*pairs, strict=True))
        return keys, values, _behind([source.mask for source in sources], dim=1)

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.view(*tokens.shape[:-1], self.heads, -1).transpose(1, 2)


def _behind(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)
