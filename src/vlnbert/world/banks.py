"""Feature banks: what an agent sees in the view that faces each of its choices.

A bank is a table of vectors and, for every viewpoint and slot, a row in it. Row 0 is zero and serves the stop slot and
the padding. The table may hold a row for each view (image features, detected labels) or one row for many views (a
codebook of captions); looking is the same gather.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding


class Bank(Protocol):
    """Anything that can tell what is seen from a viewpoint."""

    @property
    def width(self) -> int: ...

    def look(self, viewpoint: Tensor) -> Tensor:
        """[agent] viewpoints -> [agent, slot, width] features."""

    def to(self, device: torch.device | str) -> "Bank": ...


def rows_of(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table, the faster way for some agents: torch's own gather takes few rows one by one on a GPU."""
    return table[index] if table.is_cuda else table.index_select(0, index)


@dataclass(frozen=True)
class FeatureBank:
    """One table, one row a slot."""

    table: Tensor  # [row, width]; row 0 is zero
    row: Tensor  # [viewpoint, slot]

    @classmethod
    def from_codebook(cls, vectors: Tensor, row: Tensor) -> "FeatureBank":
        """A bank from [code, width] vectors and codes [viewpoint, slot] that count from 1."""
        return cls(torch.cat((torch.zeros_like(vectors[:1]), vectors)), row)

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def look(self, viewpoint: Tensor) -> Tensor:
        return embedding(rows_of(self.row, viewpoint), self.table)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "FeatureBank":
        return FeatureBank(self.table.to(device, dtype), self.row.to(device))


@dataclass(frozen=True)
class JoinedBank:
    """Several banks side by side, such as captions and detected objects."""

    parts: tuple[Bank, ...]

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    def look(self, viewpoint: Tensor) -> Tensor:
        return torch.cat([part.look(viewpoint) for part in self.parts], dim=-1)

    def to(self, device: torch.device | str) -> "JoinedBank":
        return JoinedBank(tuple(part.to(device) for part in self.parts))
