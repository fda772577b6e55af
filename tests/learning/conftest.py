"""A small house to learn in."""

from pathlib import Path

import pytest

from vlnbert.house import generate


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learning") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder
