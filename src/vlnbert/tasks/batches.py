"""Which episodes come together: seeded, shared out over ranks, and bucketed by length so that little is padding.

A batch is a pure function of the seed and its number: there is no hidden position to save or lose.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from vlnbert.errors import UsageError
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.tokens import Tokens

BUCKET = 8  # token widths are rounded up to a multiple of this
WINDOW = 16  # batches that are sorted by length together: more means less padding and less mixing


@dataclass(frozen=True)
class Batch:
    """Some episodes of a split, ready for a device."""

    index: Tensor  # [row] their places in the split
    tokens: Tensor  # [row, token] as wide as the bucket of the longest
    token_count: Tensor  # [row]
    start: Tensor  # [row] viewpoint
    heading: Tensor  # [row] radians
    goal: Tensor  # [row] viewpoint
    path: Tensor  # [row, hop]
    path_length: Tensor  # [row]


def take(episodes: Episodes, tokens: Tokens, index: Tensor, width: int) -> Batch:
    """Gather rows of a split, with tokens cut to `width`. The index is on the episodes' device."""
    return Batch(
        index=index,
        tokens=tokens.ids[:, :width][index],
        token_count=tokens.count[index],
        start=episodes.start[index],
        heading=episodes.heading[index],
        goal=episodes.goal[index],
        path=episodes.path[index],
        path_length=episodes.path_length[index],
    )


def bucket(count: int) -> int:
    """The token width that holds `count` tokens."""
    return -(-count // BUCKET) * BUCKET


@dataclass(frozen=True, eq=False)  # compared and hashed as itself, so that its orders can be kept
class TrainingBatches:
    """An endless sequence of batches over the lengths of a split: epoch after epoch, each in an order of its own.

    `size` is the batch of all ranks together; each rank gets an equal share of every batch. The last batch of an epoch
    is filled up from the epoch's first rows.
    """

    lengths: Tensor  # [episode] tokens of each, on the CPU
    size: int
    seed: int
    rank: int = 0
    ranks: int = 1

    def __post_init__(self) -> None:
        if self.size < 1 or self.size % self.ranks or not 0 <= self.rank < self.ranks:
            problem = f"a batch of {self.size} cannot be shared out over {self.ranks} ranks"
            raise UsageError(f"{problem}; choose a multiple of {self.ranks}")

    def __len__(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.lengths) // self.size)

    def __getitem__(self, number: int) -> Tensor:
        """[row] the episodes of batch `number` that fall to this rank, counting on through the epochs."""
        epoch, place = divmod(number, len(self))
        rows = _epoch_order(self, epoch)[place * self.size : (place + 1) * self.size]
        return rows[self.rank :: self.ranks]


@lru_cache(maxsize=8)  # the batches of one epoch share its order
def _epoch_order(batches: TrainingBatches, epoch: int) -> Tensor:
    """[batches x size] a permutation of the episodes, filled up; sorted by length within windows, batches shuffled."""
    generator = torch.Generator().manual_seed((batches.seed << 32) + epoch)
    order = torch.randperm(len(batches.lengths), generator=generator)
    order = order.repeat(1 + len(batches) * batches.size // len(order))[: len(batches) * batches.size]
    windows = torch.split(order, WINDOW * batches.size)
    rows = torch.cat([window[batches.lengths[window].argsort(stable=True)] for window in windows])
    return rows.view(len(batches), batches.size)[torch.randperm(len(batches), generator=generator)].flatten()


def evaluation_batches(lengths: Tensor, size: int, rank: int = 0, ranks: int = 1) -> Iterator[Tensor]:
    """Every episode exactly once over all ranks, the longest first so that memory peaks at once."""
    order = lengths.argsort(descending=True, stable=True)
    yield from torch.split(order, size)[rank::ranks]
