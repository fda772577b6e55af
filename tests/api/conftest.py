"""The data of a small house, and a small run in it that nobody changes."""

from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln

SPLIT = "r2r/val_unseen"
# Changes by name with which a training takes a second.
TINY: dict[str, Any] = {
    **{"batch": 4, "max_steps": 4, "iterations": 6, "validate_every": 3, "report_every": 1},
    **{"hidden": 16, "heads": 2, "inner": 32},
}
QUIETLY: dict[str, Any] = {"threads": 1, "bar": False, "tensorboard": False}


@pytest.fixture(scope="session")
def data(house: Path) -> vln.Data:
    return vln.open_data(house)


@pytest.fixture(scope="session")
def trained(data: vln.Data, tmp_path_factory: pytest.TempPathFactory) -> vln.Run:
    """A run that was trained to its end, with all its logs."""
    return vln.train("demo", data, tmp_path_factory.mktemp("api") / "trained", threads=1, bar=False, **TINY)
