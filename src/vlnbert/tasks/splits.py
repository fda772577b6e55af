"""Splits: episodes with their tokens, houses of train held out of training, and the targets of REVERIE.

The held-out houses make the split dev_unseen. Settings are chosen there, so that val_unseen is looked at only to
report. The same seed holds out the same houses of R2R and of REVERIE.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.errors import UnknownNameError, UsageError, listed, setting
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.batches import Tokens, tokenise
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.tasks.task import R2R, REVERIE, SUB_INSTRUCTIONS, TASKS
from vlnbert.tasks.word_labels import cut_train_instructions
from vlnbert.world.objects import NONE, ObjectTable
from vlnbert.world.world import World

TRAIN, DEV = "train", "dev_unseen"
SHOWN = 5  # instructions that a line of a report names


@dataclass(frozen=True, repr=False)
class Split:
    """Episodes with their tokens, on one device."""

    episodes: Episodes
    tokens: Tokens
    target: Tensor | None = None  # [episode] REVERIE: its place among the objects of the goal, NONE where not shown
    aligned: Tensor | None = None  # [episode, hop, token] bool: the words that are due there, where labels say

    @property
    def name(self) -> str:
        return f"{self.episodes.task}/{self.episodes.split}"

    def __repr__(self) -> str:
        return f"Split({self.name}, {len(self.episodes):,} episodes, on {self.episodes.start.device})"

    def to(self, device: torch.device | str) -> "Split":
        target, aligned = (None if part is None else part.to(device) for part in (self.target, self.aligned))
        return Split(self.episodes.to(device), self.tokens.to(device), target, aligned)

    def select(self, rows: Tensor) -> "Split":
        """Some of its episodes, in the order of `rows`."""
        here = rows.to(self.tokens.ids.device)
        tokens = Tokens(self.tokens.ids[here], self.tokens.count[here])
        target, aligned = (None if part is None else part[here] for part in (self.target, self.aligned))
        return Split(self.episodes.select(rows), tokens, target, aligned)


def task_and_split(name: str) -> tuple[str, str]:
    """The two halves of a name such as r2r/val_unseen."""
    task, found, split = name.partition("/")
    if not found:
        raise UsageError(f"'{name}' does not name a task and a split; write it like r2r/val_unseen")
    return task, split


def full_name(name: str, task: str) -> str:
    """The name of a split with its task, such as r2r/val_unseen; without one it is of `task`."""
    return name if "/" in name else f"{task}/{name}"


def is_cut_from_train(folder: DataFolder, task: str, split: str) -> bool:
    """Whether a split is R2R's sub-instructions without a file of their own: they are cut from train when read."""
    return (task, split) == (R2R.name, SUB_INSTRUCTIONS) and split not in TASKS[task].files(folder)


def read_episodes(folder: DataFolder, world: World, name: str, objects: ObjectTable | None = None) -> Episodes:
    """The episodes of a split by its full name, read from its file or cut from train."""
    task, split = task_and_split(name)
    if is_cut_from_train(folder, task, split):
        parts = cut_train_instructions(folder, world.to("cpu"))
        return replace(parts.episodes, notes=(str(parts),)).to(world.device)
    return load_episodes(folder, world, task, split, objects)


def open_split(
    folder: DataFolder,
    world: World,
    tokenizer: Tokenizer,
    name: str,
    max_tokens: int | None = None,
    visible: ObjectTable | None = None,
    objects: ObjectTable | None = None,
) -> Split:
    """Read a split by its full name, such as r2r/val_unseen.

    Instructions are cut to `max_tokens`, by default the task's. In REVERIE, `visible` are the objects that agents will
    see, and `objects` all of the folder, where they are open already.
    """
    task, split = task_and_split(name)
    episodes, kind = read_episodes(folder, world, name, objects), TASKS[task]
    file = folder.word_labels if is_cut_from_train(folder, task, split) else kind.file(folder, split)
    tokens = tokenise(episodes, tokenizer, file, max_tokens or kind.max_tokens)
    target = None if visible is None or not kind.sees_objects else target_index(visible, episodes)
    return Split(episodes, tokens, target).to(world.device)


def choose_houses(folder: DataFolder, tasks: Sequence[str], count: int, seed: int) -> tuple[str, ...]:
    """Choose `count` houses of the train split, in alphabetical order.

    They are drawn from those that R2R and REVERIE both train in, if the folder holds these, else from those of `tasks`.
    Houses are ordered by a hash of their names: one more or less changes little.
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
        problem = f"{count} houses held out would leave none of the {len(known)} that {folder.root} trains in"
        raise UsageError(f"{problem}; choose fewer than {len(known)}: {setting('holdout')}")

    def digest(house: str) -> bytes:
        return hashlib.blake2b(f"{seed} {house}".encode(), digest_size=8).digest()

    return tuple(sorted(sorted(known, key=digest)[:count]))


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
    """The train split in some houses, as dev_unseen, with tokens."""
    part = train.select(_rows(world, train.episodes, houses))
    return replace(part, episodes=replace(part.episodes, split=DEV))


def without_houses(world: World, split: Split, houses: Sequence[str]) -> Split:
    """A split without its episodes in some houses; unchanged where it has none there."""
    rows = (~inside_houses(world, split.episodes, houses)).nonzero().flatten()
    if not len(rows):
        problem = f"{split.name} has no episodes outside of the houses that are held out"
        raise UsageError(f"{problem}; hold out fewer ({setting('holdout')}) or others ({setting('holdout_seed')})")
    return split if len(rows) == len(split.episodes) else split.select(rows)


def _rows(world: World, train: Episodes, houses: Sequence[str]) -> Tensor:
    rows = inside_houses(world, train, houses).nonzero().flatten()
    if not len(rows):
        problem = f"{train.task}/{train.split} has no episodes in the houses that are held out"
        raise UsageError(f"{problem} ({', '.join(houses)}); hold out others: {setting('holdout_seed')}")
    return rows


def inside_houses(world: World, episodes: Episodes, houses: Sequence[str]) -> Tensor:
    """[episode] whether it is in one of the houses, on the CPU."""
    for house in houses:
        if house not in world.scans:
            raise UnknownNameError("scan", house, world.scans)
    held_out = torch.tensor([world.scans.index(house) for house in houses], dtype=world.scan_of.dtype)
    return torch.isin(world.scan_of[episodes.start].cpu(), held_out)


@dataclass(frozen=True)
class TargetReport:
    """Where the targets of a split are visible, by instruction."""

    at_goal: int  # instructions whose goal shows their target
    elsewhere: tuple[str, ...]  # those whose target other viewpoints show
    nowhere: tuple[str, ...]  # those whose target no viewpoint shows: are annotations and boxes of one version?
    withheld: int  # those whose target is withheld, in a test split

    @property
    def complete(self) -> bool:
        """Whether every target is visible at its goal."""
        return not self.elsewhere and not self.nowhere

    def lines(self) -> list[str]:
        """A sentence for each kind that occurs."""
        lines = [f"{self.at_goal:,} targets are visible at the goal"] if self.at_goal else []
        if self.elsewhere:
            lines.append(f"{len(self.elsewhere):,} are visible elsewhere only: {listed(self.elsewhere, SHOWN)}")
        if self.nowhere:
            hint = "use annotations and boxes of one version"
            lines.append(f"{len(self.nowhere):,} are visible nowhere: {listed(self.nowhere, SHOWN)}; {hint}")
        return lines + ([f"{self.withheld:,} are withheld"] if self.withheld else [])


def target_index(objects: ObjectTable, episodes: Episodes, viewpoint: Tensor | None = None) -> Tensor:
    """[episode] the place of each target among the objects of its goal, or of `viewpoint`; NONE where not shown.

    The objects must be those of the bank that agents look at: another may leave some out.
    """
    where = episodes.goal if viewpoint is None else viewpoint
    places = [
        NONE if target is None else objects.index(place, target)
        for place, target in zip(where.tolist(), episodes.targets, strict=True)
    ]
    return torch.tensor(places, dtype=torch.long, device=where.device)


def report_targets(objects: ObjectTable, episodes: Episodes) -> TargetReport:
    """Count the targets that can be found at the goal, elsewhere only, or nowhere."""
    at_goal = (target_index(objects, episodes) != NONE).tolist()
    sightings = [[] for _ in at_goal] if episodes.sightings is None else episodes.sightings.tolist()
    elsewhere, nowhere = list[str](), list[str]()
    for row, target in enumerate(episodes.targets):
        if target is not None and not at_goal[row]:
            seen = any(objects.index(place, target) != NONE for place in sightings[row])
            (elsewhere if seen else nowhere).append(episodes.ids[row])
    return TargetReport(sum(at_goal), tuple(elsewhere), tuple(nowhere), episodes.targets.count(None))
