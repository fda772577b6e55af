"""Smaller worlds and splits, and instructions of any length: what benchmarks vary."""

from dataclasses import replace

import torch
from torch import Tensor

from vlnbert.tasks.splits import Split
from vlnbert.tasks.tokens import Tokens
from vlnbert.world import World

FIRST_WORD = 5  # the pieces below are special


def chosen_episodes(split: Split, rows: Tensor) -> Split:
    """Some episodes of a split, in the order of `rows`."""
    device = split.tokens.ids.device
    tokens = Tokens(split.tokens.ids[rows.to(device)], split.tokens.count[rows.to(device)])
    return Split(split.episodes.select(rows), tokens)


def first_episodes(split: Split, count: int) -> Split:
    """The first so many episodes of a split."""
    return chosen_episodes(split, torch.arange(min(count, len(split.episodes))))


def equal_instructions(split: Split, length: int, vocabulary: int) -> Split:
    """The same episodes with random words, exactly so many tokens in each."""
    device = split.tokens.ids.device
    words = torch.randint(FIRST_WORD, vocabulary, (len(split.episodes), length), device=device)
    return replace(split, tokens=Tokens(words, torch.full_like(split.tokens.count, length)))


def first_scans(world: World, count: int) -> World:
    """The first so many scans of a world. Their viewpoints keep their numbers, so that episodes there stay true."""
    viewpoints = int((world.scan_of < count).sum())
    pairs = int(world.scan_of[:viewpoints].bincount().square().sum())
    sizes = {"distance": pairs, "next_slot": pairs}  # every other table has a row a viewpoint
    tensors = {name: tensor[: sizes.get(name, viewpoints)] for name, tensor in world.tensors().items()}
    names = {"scans": world.scans[:count], "viewpoints": world.viewpoints[:viewpoints]}
    return replace(world, **names, **tensors)  # type: ignore[arg-type]  # fields by name


def episodes_within(split: Split, world: World) -> Split:
    """Those episodes of a split that take place in the first scans of its world."""
    return chosen_episodes(split, (split.episodes.start < len(world)).nonzero().flatten().cpu())
