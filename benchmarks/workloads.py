"""What is measured: parts of worlds and splits, and instructions of any length."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from vlnbert.benchmarking import folder_or_house
from vlnbert.features.views import open_features, open_labels
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.splits import Split
from vlnbert.tasks.tokens import Tokens
from vlnbert.world.banks import FeatureBank
from vlnbert.world.build import open_world
from vlnbert.world.world import World

FIRST_WORD = 5  # the pieces below are special


@contextmanager
def opened_world(folder: Path | None) -> Iterator[tuple[DataFolder, World, FeatureBank]]:
    """A data folder, its world and its features."""
    with folder_or_house(folder) as opened:
        world = open_world(opened)
        files = opened.feature_files()
        bank = open_features(world, files[0]) if files else open_labels(world, opened.captions)[0]
        yield opened, world, bank


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
    return split.select((split.episodes.start < len(world)).nonzero().flatten().cpu())
