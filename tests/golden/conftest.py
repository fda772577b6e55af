"""Where the reference's numbers and the open data are.

Some numbers travel with the repository: tests that need no others never skip. Tests that need all of them, or the open
data, skip where these are not at hand; under CI=true they fail instead.
"""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch

from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.world.build import open_world
from vlnbert.world.objects import ObjectTable, open_object_table
from vlnbert.world.world import World

REPOSITORY = Path(__file__).resolve().parents[2]
PARTS = ("vln_bert", "critic")  # of a checkpoint
EPOCH = 42  # of both of the reference's


def absent(what: str, folder: Path) -> NoReturn:
    """Skip a test whose numbers are not at hand; where CI=true promises that they are, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"no {what} at {folder}, and CI=true: parity is not proven without", pytrace=False)
    pytest.skip(f"no {what} at {folder}")


@pytest.fixture(scope="session")
def numbers() -> Path:
    """The folder of those numbers of the reference programs that are part of the repository."""
    return Path(__file__).parent / "numbers"


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of all numbers that the reference programs gave, beside the repository."""
    folder = REPOSITORY.parent / "shared" / "golden"
    if not folder.is_dir():
        absent("golden numbers", folder)
    return folder


@pytest.fixture(scope="session")
def checkpoint(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Checkpoints as the reference saves them, built from the committed weights; oscar or prevalent."""
    folder = tmp_path_factory.mktemp("checkpoints")

    def built(variant: str) -> Path:
        path = folder / f"checkpoint_{variant}.pt"
        if not path.exists():
            torch.save(rebuilt(numbers / f"model_{variant}_a_weights.npz"), path)
        return path

    return built


def rebuilt(weights: Path) -> dict[str, dict[str, object]]:
    """A checkpoint of weights that are named by part and key. Its optimisers are new: nobody reads their moments."""
    tensors = {name: torch.from_numpy(array) for name, array in np.load(weights).items()}
    checkpoint: dict[str, dict[str, object]] = {}
    for part in PARTS:
        state = {key.removeprefix(f"{part}/"): tensor for key, tensor in tensors.items() if key.startswith(f"{part}/")}
        optimiser = torch.optim.AdamW(state.values(), lr=1e-5)
        checkpoint[part] = {"epoch": EPOCH, "state_dict": state, "optimizer": optimiser.state_dict()}
    return checkpoint


@pytest.fixture(scope="session")
def open_data() -> DataFolder:
    """Real R2R, REVERIE, graphs, boxes and captions."""
    folder = REPOSITORY / "data"
    if not (folder / "connectivity").is_dir():
        absent("open data", folder)
    return DataFolder(folder)


@pytest.fixture(scope="session")
def open_data_world(open_data: DataFolder) -> World:
    """The world of all real scans."""
    return open_world(open_data)


@pytest.fixture(scope="session")
def open_data_objects(open_data: DataFolder, open_data_world: World) -> ObjectTable:
    """All objects of the real scans; 10,000 files of boxes are read once."""
    return open_object_table(open_data_world, open_data.boxes)


@pytest.fixture(scope="session")
def open_data_episodes(open_data: DataFolder, open_data_world: World) -> Callable[[str, str], Episodes]:
    """A real split by its task and name, which is read once."""
    return cache(lambda task, split: load_episodes(open_data, open_data_world, task, split))


@pytest.fixture
def one_house(open_data: DataFolder, tmp_path: Path) -> Path:
    """A data folder with the first house of the training split: to embed the captions of all takes minutes."""
    root, folder = open_data.root, tmp_path / "data"
    items = json.loads((root / "r2r/R2R_train.json").read_text())
    scan = items[0]["scan"]
    boxes = [str(path.relative_to(root)) for path in (root / "reverie/BBox").glob(f"{scan}_*.json")]
    of_the_scan = (f"connectivity/{scan}_connectivity.json", f"captions/{scan}.json", f"observations/{scan}.json")
    for name in (*of_the_scan, *boxes, "vocab.txt", "r2r/LAR2R_train.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to((root / name).resolve())
    kept = [item for item in items if item["scan"] == scan]
    (folder / "r2r/R2R_train.json").write_text(json.dumps(kept))
    return folder
