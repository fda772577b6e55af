"""Batches of episodes: seeded, shared out over ranks, and bucketed by length so that little is padding.

A batch is a pure function of the seed and its number: there is no hidden position to save or lose.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from vlnbert.errors import UsageError
from vlnbert.tasks.episodes import Episodes, Extra, Picked
from vlnbert.tasks.tokens import Tokens

BUCKET = 8  # token widths are rounded up to a multiple of this
WINDOW = 16  # batches that are sorted by length together: more means less padding and less mixing


@dataclass(frozen=True)
class Batch:
    """Some episodes of a split, ready for a device.

    Attributes:
        task: The name of their task.
        index: [row] their places in the split.
        tokens: [row, token] ids of word pieces, padded with 0, as wide as the bucket of the longest.
        token_count: [row] how many tokens are real.
        start: [row] viewpoint.
        heading: [row] float64 radians at the start.
        goal: [row] viewpoint: the end of the path, or the first of several goals.
        path: [row, hop] viewpoints of the described path; the last one repeats as padding.
        path_length: [row] viewpoints in the path.
        sightings: [row, any] viewpoints that show REVERIE's target, padded with -1; None in other tasks.
        target: [row] in REVERIE, the place of the target among the objects of the goal, -1 where not shown; else None.
        aligned: [row, hop, token] bool: the words that are due there; None without word labels.
        goals: [row, any] viewpoints at any of which the episode may end, the first one repeated as padding; None where
            every episode of the split has one goal.
        extra: User-defined fields by name: tensors [row, ...]; values that are no numbers as a sequence, one a row.
        ids: [row] the names of the instructions. Like values of `extra` that are no tensors they are looked up on the
            host when they are read, which waits for the device; a recorded update cannot read them.
    """

    task: str
    index: Tensor
    tokens: Tensor
    token_count: Tensor
    start: Tensor
    heading: Tensor
    goal: Tensor
    path: Tensor
    path_length: Tensor
    sightings: Tensor | None = None
    target: Tensor | None = None
    aligned: Tensor | None = None
    goals: Tensor | None = None
    extra: Extra = field(default_factory=Extra)
    ids: Sequence[str] = ()

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name; tensors of `extra` as extra.<name>."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        named |= {f"extra.{name}": value for name, value in self.extra.items()}
        return {name: value for name, value in named.items() if isinstance(value, Tensor)}

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """A copy with each of its tensors changed."""
        changed: dict[str, Any] = {
            name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **changed, extra=self.extra.each(change))


def take(
    episodes: Episodes,
    tokens: Tokens,
    index: Tensor,
    width: int,
    target: Tensor | None = None,
    aligned: Tensor | None = None,
) -> Batch:
    """Gather rows of a split, with tokens cut or padded to `width`. The index is on the episodes' device.

    `target` [episode] is, in REVERIE, the place of each target among the objects of its goal; `aligned` [episode, hop,
    token] are the words that are due at each viewpoint of a path.
    """
    return Batch(
        task=episodes.task,
        index=index,
        tokens=pad(tokens.ids[index], (0, width - tokens.ids.shape[1])),
        token_count=tokens.count[index],
        start=episodes.start[index],
        heading=episodes.heading[index],
        goal=episodes.goal[index],
        path=episodes.path[index],
        path_length=episodes.path_length[index],
        sightings=None if episodes.sightings is None else episodes.sightings[index],
        target=None if target is None else target[index],
        aligned=None if aligned is None else pad(aligned[index], (0, width - aligned.shape[2])),
        goals=None if episodes.goals is None else episodes.goals[index],
        extra=episodes.extra.rows(index),
        ids=Picked(episodes.ids, index),
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
        _check_share(self.size, self.rank, self.ranks)
        if self.size % self.ranks:
            problem = f"a batch of {self.size} cannot be shared out over {self.ranks} ranks"
            raise UsageError(f"{problem}; choose a multiple of {self.ranks}")
        if not len(self.lengths):
            raise UsageError("there are no episodes to make batches of; choose a split that has some")

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
    """[batches x size] a permutation of the episodes, filled up; sorted by length within windows, then shuffled.

    Batches are shuffled, and the rows of each: a row's place must not depend on its length, as the first half is
    teacher-forced.
    """
    # The generator keeps 32 bits of its seed: a hash fills them from all of ours.
    seed = hashlib.blake2b(f"{batches.seed} {epoch}".encode(), digest_size=4).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(seed))
    order = torch.randperm(len(batches.lengths), generator=generator)
    order = order.repeat(1 + len(batches) * batches.size // len(order))[: len(batches) * batches.size]
    windows = torch.split(order, WINDOW * batches.size)
    rows = torch.cat([window[batches.lengths[window].argsort(stable=True)] for window in windows])
    shuffled = rows.view(len(batches), batches.size)[torch.randperm(len(batches), generator=generator)]
    places = torch.rand(shuffled.shape, generator=generator).argsort(dim=1, stable=True)
    return shuffled.gather(1, places).flatten()


def evaluation_batches(lengths: Tensor, size: int, rank: int = 0, ranks: int = 1) -> Iterator[Tensor]:
    """Every episode exactly once over all ranks, the longest first so that memory peaks at once."""
    _check_share(size, rank, ranks)
    order = lengths.argsort(descending=True, stable=True)
    return iter(torch.split(order, size)[rank::ranks])


def _check_share(size: int, rank: int, ranks: int) -> None:
    if size < 1 or not 0 <= rank < ranks:
        raise UsageError(
            f"there are no batches of {size} for rank {rank} of {ranks}; count ranks from 0 and rows from 1"
        )
