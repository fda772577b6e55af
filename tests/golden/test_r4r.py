"""R4R on the real graphs: as many paths and instructions as the published rule gives, as long as they should be."""

import json
from itertools import pairwise

import pytest
import torch

from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.made_paths import joined_items
from vlnbert.world.world import World


@pytest.mark.parametrize(
    ("split", "paths", "instructions", "metres"),
    [("train", 25_921, 233_532, 20.59), ("val_seen", 115, 1_035, 20.36), ("val_unseen", 5_026, 45_234, 20.22)],
)
def test_counts_and_lengths(
    open_data: DataFolder, open_data_world: World, split: str, paths: int, instructions: int, metres: float
) -> None:
    """The published counts, 25,930 / 115 / 5,018, come from other versions of the graphs."""
    world = open_data_world
    r2r = json.loads((open_data.root / "r2r" / f"R2R_{split}.json").read_text())
    items = list(joined_items(r2r, world))
    assert (len(items), sum(len(item["instructions"]) for item in items)) == (paths, instructions)
    hops = [[world.numbers[item["scan"], name] for name in item["path"]] for item in items]
    edges = torch.tensor([edge for path in hops for edge in pairwise(path)])
    assert float(world.metres(edges[:, 0], edges[:, 1]).sum()) / paths == pytest.approx(metres, abs=0.005)
    twice = sum(len(set(path)) < len(path) for path in hops) / paths
    assert 0.7 < twice < 0.8, "most paths come by some viewpoint twice"
