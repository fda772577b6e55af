"""The reference's own checkpoints: in, through the model, and out again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.golden.conftest import PARTS
from vlnbert.environment.environment import Observation
from vlnbert.navigator import Navigator, named_size
from vlnbert.weights.exporting import export_weights, published_state_dicts
from vlnbert.weights.importing import import_weights, load_weights
from vlnbert.weights.options import ImportOptions

VARIANTS = {"oscar": "one-stream", "prevalent": "two-stream"}
STEPS = 4


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


def wrapped(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """As the reference saves it when it trained on several devices."""
    for part in PARTS:
        state = checkpoint[part]["state_dict"]
        checkpoint[part]["state_dict"] = {f"module.{name}": tensor for name, tensor in state.items()}
    return checkpoint


@pytest.mark.parametrize("change", [lambda checkpoint: checkpoint, wrapped], ids=["plain", "module."])
def test_every_tensor_comes_back(
    checkpoint: Callable[[str], Path], tmp_path: Path, variant: str, change: Callable[[Any], Any]
) -> None:
    source = checkpoint(variant)
    expected = torch.load(source, weights_only=True)
    torch.save(change(torch.load(source, weights_only=True)), tmp_path / "source.pt")
    report = import_weights(tmp_path / "source.pt", tmp_path / "folder")
    assert (report.new, report.unused) == ([], {})
    export_weights(tmp_path / "folder", tmp_path / "back.pt")
    found = torch.load(tmp_path / "back.pt", weights_only=True)
    for part in PARTS:
        ours, theirs = found[part]["state_dict"], expected[part]["state_dict"]
        assert list(ours) == list(theirs)
        for name, tensor in theirs.items():
            assert ours[name].dtype == tensor.dtype
            assert torch.equal(ours[name].view(torch.uint8), tensor.view(torch.uint8)), name
        assert found[part]["epoch"] == expected[part]["epoch"]


def test_the_imported_navigator_thinks_as_the_reference(
    numbers: Path, checkpoint: Callable[[str], Path], tmp_path: Path, variant: str
) -> None:
    facts = json.loads((numbers / f"model_{variant}_a.json").read_text())
    import_weights(checkpoint(variant), tmp_path / "folder", ImportOptions(heads=4))
    navigator = Navigator.from_pretrained(tmp_path / "folder").double()
    arrays = {name: torch.from_numpy(array) for name, array in np.load(numbers / f"model_{variant}_a.npz").items()}
    instruction = navigator.encode(arrays["in_input_ids"], arrays["in_lang_mask"].bool())
    assert (instruction.state - arrays["f64_init_state"]).abs().max() < 1e-9
    state, width = instruction.state, facts["feature_size"]
    for number in range(1, STEPS + 1):
        seen, mask = arrays[f"in_cand_feats_t{number}"].double(), arrays[f"in_vis_mask_t{number}"].bool()
        facing = arrays[f"in_action_feats_t{number}"].double()[:, :4]
        step = navigator.step(
            state, instruction, Observation(mask, seen[..., width : width + 4], facing, seen[..., :width])
        )
        state = step.state
        assert (step.logits - arrays[f"f64_logits_raw_t{number}"])[mask].abs().max() < 1e-9
        assert (state - arrays[f"f64_state_t{number}"]).abs().max() < 1e-9
        assert (navigator.value(state) - arrays[f"f64_value_t{number}"]).abs().max() < 1e-9


def test_the_kept_tensors_are_those_without_a_gradient(
    numbers: Path, checkpoint: Callable[[str], Path], variant: str
) -> None:
    norms = json.loads((numbers / f"model_{variant}_a.json").read_text())["il_grad_l2_norm_f64"]
    kept = load_weights(checkpoint(variant)).kept
    assert set(kept) == {name for name, norm in norms.items() if norm is None}


def test_full_size_models_have_exactly_the_reference_keys(numbers: Path, variant: str) -> None:
    expected = json.loads((numbers / f"keys_{variant}.json").read_text())
    config = named_size("base", VARIANTS[variant])
    with torch.device("meta"):
        navigator = Navigator(config)
    model, critic, _ = published_state_dicts(config, navigator.state_dict(), {})
    for part, state in zip(PARTS, (model, critic), strict=True):
        shapes = {name: list(tensor.shape) for name, tensor in state.items()}
        assert shapes == expected[part]["state_dict"]
        assert list(shapes) == list(expected[part]["state_dict"])
