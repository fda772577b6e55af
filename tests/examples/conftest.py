"""A small house for the examples to run in, and trainings that take a second."""

from pathlib import Path

import pytest

import vlnbert as vln
from vlnbert.house import generate

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder


@pytest.fixture(scope="session")
def data(house: Path) -> vln.Data:
    return vln.open_data(house)
