"""The paths of R2R's kind that the real train houses hold."""

from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.sampled_paths import sample_paths
from vlnbert.world.world import World


def test_counts(open_data: DataFolder, open_data_world: World) -> None:
    """339 of val_seen's 340 paths are of the kind; one has three hops, as have all of one train house's."""
    found = sample_paths(open_data, open_data_world, None, 0)
    assert (found.known, found.described) == (178_300, 339)
    assert len(open_data_world.scan_of[found.path[:, 0]].unique()) == 60
