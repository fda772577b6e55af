"""A run that learned in a small house."""

import shutil
from pathlib import Path

import pytest

from tests.learning.samples import EXPERIMENT, write_labels
from vlnbert.data.data import open_data
from vlnbert.learning.run_folder import last_checkpoint, remove_surplus
from vlnbert.learning.runs import begin_run


@pytest.fixture(scope="session")
def labelled_house(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same house, where words of the instructions have labels."""
    return write_labels(shutil.copytree(house, tmp_path_factory.mktemp("labelled") / "house"))


@pytest.fixture(scope="session")
def finished(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that came to its end."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    begin_run("mine", EXPERIMENT, open_data(house), run).train()
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it with one checkpoint, to be broken: with two it would go on from the one before."""
    copy = shutil.copytree(finished, tmp_path / "run")
    remove_surplus(copy, last_checkpoint(copy), keep=1)
    return copy
