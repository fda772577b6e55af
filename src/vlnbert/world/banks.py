"""Feature banks: features of the views that face an agent's choices.

A bank is a table of vectors and, for every viewpoint and slot, a row in it. Row 0 is zero and serves the stop slot and
the padding. The table may hold a row for each view (image features, detected labels) or one row for many views (a
codebook of captions); looking is the same gather.

A panorama bank is the same with the 36 views of a viewpoint in place of its slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding, embedding_bag

from vlnbert.external import ExternalCall


class Bank(Protocol):
    """Features of each choice, or of each of 36 views, by viewpoint; users may bring classes of their own."""

    @property
    def width(self) -> int: ...

    def look(self, viewpoint: Tensor) -> Tensor:
        """[agent] viewpoints -> [agent, slot, width] features."""

    def to(self, device: torch.device | str) -> "Bank": ...


def rows_of(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table, gathered the faster way: on a GPU torch's `index_select` takes few rows one by one."""
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

    def laid_out(self, row: Tensor) -> "FeatureBank":
        """The same bank with other rows [viewpoint, slot], from 0 for none: slots of one row must look the same."""
        table = self.table.new_zeros(int(row.max()) + 1, self.width)
        table[row.flatten()] = self.table[self.row.flatten()]
        return FeatureBank(table, row)

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
        return torch.cat([look(part, viewpoint) for part in self.parts], dim=-1)

    def to(self, device: torch.device | str) -> "JoinedBank":
        return JoinedBank(tuple(part.to(device) for part in self.parts))


@dataclass(frozen=True)
class MixedBank:
    """Sums of vectors of a codebook, with the same weights at all viewpoints: of two headings, or two views.

    They are made at each look, since a viewpoint has fewer distinct texts than sums.
    """

    table: Tensor  # [code, width]; row 0 is zero
    code: Tensor  # [viewpoint, text] rows of the table
    place: Tensor  # [view, part] which of a viewpoint's texts are summed
    weight: Tensor  # [view, part]

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def look(self, viewpoint: Tensor) -> Tensor:
        code = rows_of(self.code, viewpoint)[:, self.place]  # [agent, view, part]
        weight = self.weight.expand(code.shape).flatten(0, 1)
        mixed = embedding_bag(code.flatten(0, 1), self.table, per_sample_weights=weight, mode="sum")
        return mixed.view(*code.shape[:2], self.width)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "MixedBank":
        table, weight = (tensor.to(device, dtype) for tensor in (self.table, self.weight))
        return MixedBank(table, self.code.to(device), self.place.to(device), weight)


OWN_BANKS = (FeatureBank, JoinedBank, MixedBank)  # others, and classes derived from these, are a user's


def side_by_side(banks: Sequence[Bank]) -> Bank:
    """Several banks as one. Neighbours whose slots have the same rows become one table: one gather instead of some."""
    parts = list[Bank]()
    for bank in banks:
        last = parts[-1] if parts else None
        if isinstance(last, FeatureBank) and isinstance(bank, FeatureBank) and torch.equal(last.row, bank.row):
            parts[-1] = FeatureBank(torch.cat((last.table, bank.table), dim=1), bank.row)
        else:
            parts.append(bank)
    return parts[0] if len(parts) == 1 else JoinedBank(tuple(parts))


def look(bank: Bank, viewpoint: Tensor) -> Tensor:
    """Look into a bank; a user-defined one gets a copy of the viewpoints and a guard around it."""
    if type(bank) in OWN_BANKS:
        return bank.look(viewpoint)
    with ExternalCall(f"the features of {type(bank).__name__}"):
        return bank.look(viewpoint.clone())


def in_dtype(bank: Bank, dtype: torch.dtype) -> Bank:
    """A bank whose features are in another precision; a user-defined bank stays as it is."""
    if isinstance(bank, JoinedBank):
        return JoinedBank(tuple(in_dtype(part, dtype) for part in bank.parts))
    if isinstance(bank, FeatureBank | MixedBank) and bank.table.dtype != dtype:
        return bank.to(bank.table.device, dtype)
    return bank


def memory(bank: Bank) -> int:
    """Bytes of a bank's tensors, each counted once."""
    parts = bank.parts if isinstance(bank, JoinedBank) else (bank,)
    tensors = [value for part in parts for value in vars(part).values() if isinstance(value, Tensor)]
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())
