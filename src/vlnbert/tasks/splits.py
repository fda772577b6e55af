"""A split that is ready to be walked: its episodes and their tokens."""

from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from vlnbert.errors import UsageError
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.tasks.tokens import LIMIT, Tokens, tokenise
from vlnbert.world.world import World


@dataclass(frozen=True)
class Split:
    """Episodes with their tokens, on one device."""

    episodes: Episodes
    tokens: Tokens

    @property
    def name(self) -> str:
        return f"{self.episodes.task}/{self.episodes.split}"

    def to(self, device: torch.device | str) -> "Split":
        return Split(self.episodes.to(device), self.tokens.to(device))


def task_and_split(name: str) -> tuple[str, str]:
    """The two halves of a name such as r2r/val_unseen."""
    task, found, split = name.partition("/")
    if not found:
        raise UsageError(f"'{name}' does not name a task and a split; write it like r2r/val_unseen")
    return task, split


def open_split(folder: DataFolder, world: World, tokenizer: Tokenizer, name: str, limit: int = LIMIT) -> Split:
    """Read a split by its full name, such as r2r/val_unseen; instructions are cut to `limit` tokens."""
    task, split = task_and_split(name)
    episodes = load_episodes(folder, world, task, split)
    return Split(episodes, tokenise(episodes, tokenizer, folder.split(task, split), limit)).to(world.device)
