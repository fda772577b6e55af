"""A split that is ready to be walked: its episodes and their tokens."""

from dataclasses import dataclass, replace

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.errors import UsageError
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.tasks.sub_instructions import cut_train_instructions, is_cut_from_train
from vlnbert.tasks.targets import target_index
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import Tokens, tokenise
from vlnbert.world.objects import ObjectTable
from vlnbert.world.world import World


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


def read_episodes(folder: DataFolder, world: World, name: str, objects: ObjectTable | None = None) -> Episodes:
    """The episodes of a split by its full name: those of its file, or cut from train where there is none."""
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
    episodes, asked = read_episodes(folder, world, name, objects), TASKS[task]
    file = folder.word_labels if is_cut_from_train(folder, task, split) else asked.file(folder, split)
    tokens = tokenise(episodes, tokenizer, file, max_tokens or asked.max_tokens)
    target = None if visible is None or not asked.sees_objects else target_index(visible, episodes)
    return Split(episodes, tokens, target).to(world.device)
