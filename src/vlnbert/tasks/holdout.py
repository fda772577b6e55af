"""Houses of the train split that are kept out of training, and the split dev_unseen that they make.

Settings are chosen there, so that val_unseen is looked at only to report. The same seed keeps the same houses out of
R2R and of REVERIE.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from vlnbert.errors import UnknownNameError, UsageError, setting
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.splits import Split
from vlnbert.tasks.sub_instructions import is_cut_from_train
from vlnbert.tasks.task import R2R, REVERIE, TASKS
from vlnbert.world.world import World

TRAIN, DEV = "train", "dev_unseen"


def choose_houses(folder: DataFolder, tasks: Sequence[str], count: int, seed: int) -> tuple[str, ...]:
    """So many houses of the train split, in alphabetical order.

    They are drawn from those that R2R and REVERIE both train in, so far as a folder holds these, else from those of
    `tasks`. Houses are ordered by a hash of their names: one more or less changes little.
    """
    if not count:
        return ()
    for task in tasks:
        if DEV in TASKS[task].files(folder):
            problem = f"{TASKS[task].file(folder, DEV)} is a {DEV} already"
            raise UsageError(f"{problem}; train without {setting('holdout')}, or take the file away")
    both = [task.name for task in (R2R, REVERIE) if TRAIN in TASKS[task.name].files(folder)]
    known = set.intersection(*(set(count_by_house(folder, task)) for task in both or tasks))
    if count >= len(known):
        problem = f"{count} houses kept out would leave none of the {len(known)} that {folder.root} trains in"
        raise UsageError(f"{problem}; choose fewer than {len(known)}: {setting('holdout')}")
    return tuple(sorted(sorted(known, key=lambda house: _hash_of(house, seed))[:count]))


def count_by_house(folder: DataFolder, task: str) -> Counter[str]:
    """How many instructions a task's train split has in each house."""
    return Counter(record.scan for record in TASKS[task].read(TASKS[task].file(folder, TRAIN)))


def file_of(folder: DataFolder, task: str, split: str) -> Path:
    """The file that a split is read from: dev_unseen and sub-instructions from train's, unless they have their own."""
    derived = (split == DEV and DEV not in TASKS[task].files(folder)) or is_cut_from_train(folder, task, split)
    return TASKS[task].file(folder, TRAIN if derived else split)


def dev_episodes(world: World, train: Episodes, houses: Sequence[str]) -> Episodes:
    """The episodes of a train split in some houses, as dev_unseen."""
    return replace(train.select(_rows(world, train, houses)), split=DEV)


def dev_split(world: World, train: Split, houses: Sequence[str]) -> Split:
    """The same with tokens."""
    part = train.select(_rows(world, train.episodes, houses))
    return replace(part, episodes=replace(part.episodes, split=DEV))


def without_houses(world: World, split: Split, houses: Sequence[str]) -> Split:
    """A split without its episodes in some houses; as it is where there are none such."""
    rows = (~inside_houses(world, split.episodes, houses)).nonzero().flatten()
    if not len(rows):
        problem = f"{split.name} has no episodes outside of the houses that are kept out"
        raise UsageError(f"{problem}; keep out fewer ({setting('holdout')}) or others ({setting('holdout_seed')})")
    return split if len(rows) == len(split.episodes) else split.select(rows)


def _rows(world: World, train: Episodes, houses: Sequence[str]) -> Tensor:
    rows = inside_houses(world, train, houses).nonzero().flatten()
    if not len(rows):
        problem = f"{train.task}/{train.split} has no episodes in the houses that are kept out"
        raise UsageError(f"{problem} ({', '.join(houses)}); keep out others: {setting('holdout_seed')}")
    return rows


def inside_houses(world: World, episodes: Episodes, houses: Sequence[str]) -> Tensor:
    """[episode] whether it is in one of the houses, on the CPU."""
    for house in houses:
        if house not in world.scans:
            raise UnknownNameError("scan", house, world.scans)
    kept_out = torch.tensor([world.scans.index(house) for house in houses], dtype=world.scan_of.dtype)
    return torch.isin(world.scan_of[episodes.start].cpu(), kept_out)


def _hash_of(house: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed} {house}".encode(), digest_size=8).digest()
