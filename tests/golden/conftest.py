"""Where the golden numbers and the open data are; tests that need them are skipped where they are not."""

from pathlib import Path

import pytest

from vlnbert.sources.layout import DataFolder
from vlnbert.world.build import open_world
from vlnbert.world.world import World

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of numbers that the reference programs gave."""
    folder = REPOSITORY.parent / "shared" / "golden"
    if not folder.is_dir():
        pytest.skip(f"no golden numbers at {folder}")
    return folder


@pytest.fixture(scope="session")
def open_data() -> DataFolder:
    """Real R2R, REVERIE, graphs, boxes and captions."""
    folder = REPOSITORY / "data"
    if not (folder / "connectivity").is_dir():
        pytest.skip(f"no open data at {folder}")
    return DataFolder(folder)


@pytest.fixture(scope="session")
def open_data_world(open_data: DataFolder) -> World:
    """The world of all real scans."""
    return open_world(open_data)
