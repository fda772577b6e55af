"""The paths of R2R's kind that the real train houses hold."""

import json
from collections.abc import Callable

import pytest

from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.made_paths import find_leaks, sample_paths
from vlnbert.world.world import World

EVALUATED = ("val_seen", "val_unseen", "test")


def test_counts(open_data: DataFolder, open_data_world: World) -> None:
    """339 of val_seen's 340 paths are of the kind; one has three hops, as have all of one train house's."""
    found = sample_paths(open_data, open_data_world, None, 0)
    assert (found.known, found.described) == (178_300, 339)
    assert len(open_data_world.scan_of[found.path[:, 0]].unique()) == 60


def test_no_evaluation_is_among_them(open_data: DataFolder, open_data_world: World) -> None:
    """Ids, paths and houses, by the files themselves."""
    files = {split: json.loads((open_data.root / f"r2r/R2R_{split}.json").read_text()) for split in EVALUATED}
    closed = {item["scan"] for split in ("val_unseen", "test") for item in files[split]}
    described = {(item["scan"], *item["path"]) for item in files["val_seen"]}
    ids = {str(item["path_id"]) for items in files.values() for item in items}
    assert len(closed) == 11 + 18
    for item in sample_paths(open_data, open_data_world, 20_000, 0).items(open_data_world, 0):
        assert item["scan"] not in closed
        assert (item["scan"], *item["path"]) not in described
        assert item["path_id"] not in ids


@pytest.mark.parametrize("task", ["r2r", "reverie"])
def test_what_no_training_may_learn_from(
    open_data: DataFolder, open_data_world: World, open_data_episodes: Callable[[str, str], Episodes], task: str
) -> None:
    for split in EVALUATED:
        episodes = open_data_episodes(task, split)
        assert bool(find_leaks(open_data, open_data_world, episodes).any.all())
