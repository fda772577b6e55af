"""The paper's rows stand beside the published splits, and beside no others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from vlnbert.analysis.report import DIGESTS, ROWS, paper_rows
from vlnbert.house import generate
from vlnbert.sources.layout import open_folder
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.world.build import open_world
from vlnbert.world.world import World


@pytest.mark.parametrize("split", sorted(ROWS))
def test_published_splits_are_recognised(
    split: str, open_data_world: World, open_data_episodes: Callable[[str, str], Episodes]
) -> None:
    rows = paper_rows(open_data_world, open_data_episodes(*split.split("/")))
    assert list(rows) == ["paper, from nothing", "paper, from OSCAR", "paper, from PREVALENT"]
    assert all(float(row["spl"]) <= float(row["sr"]) for row in rows.values())


def test_generated_splits_of_the_same_names_are_not(tmp_path: Path) -> None:
    generate(tmp_path / "house", scans=3, paths_per_scan=2)
    folder = open_folder(tmp_path / "house")
    world = open_world(folder)
    for split in DIGESTS:
        assert paper_rows(world, load_episodes(folder, world, *split.split("/"))) == {}
