"""Parity with the reference model: a language pass and four steps, the imitation loss and its gradients."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from vlnbert.environment.environment import Observation
from vlnbert.navigator import Navigator
from vlnbert.weights.importing import load_weights
from vlnbert.weights.tables import PUBLISHED, KeyTable

STEPS = 4
RELATIVE = 1e-4
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-9}


class Reference:
    """The reference's numbers for one variant, in one precision."""

    def __init__(self, numbers: Path, variant: str, dtype: torch.dtype) -> None:
        self.arrays = np.load(numbers / f"model_{variant}_a.npz")
        self.facts = json.loads((numbers / f"model_{variant}_a.json").read_text())
        self.dtype, self.prefix = dtype, "f32" if dtype == torch.float32 else "f64"

    def given(self, name: str) -> Tensor:
        return torch.from_numpy(self.arrays[f"in_{name}"])

    def expect(self, name: str, found: Tensor, mask: Tensor | None = None) -> None:
        expected = torch.from_numpy(self.arrays[f"{self.prefix}_{name}"])
        difference = (found.detach() - expected).abs()
        assert (difference if mask is None else difference[mask]).max() < TOLERANCE[self.dtype], name

    def observation(self, step: int) -> Observation:
        width, features = self.facts["feature_size"], self.given(f"cand_feats_t{step}").to(self.dtype)
        facing = self.given(f"action_feats_t{step}").to(self.dtype)[:, :4]
        choosable = self.given(f"vis_mask_t{step}").bool()
        return Observation(choosable, features[..., width : width + 4], facing, features[..., :width])


@pytest.fixture(params=["oscar", "prevalent"])
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def reference(request: pytest.FixtureRequest, numbers: Path, variant: str) -> Reference:
    return Reference(numbers, variant, request.param)


@pytest.fixture
def navigator(checkpoint: Callable[[str], Path], variant: str, reference: Reference) -> Navigator:
    """The reference's own checkpoint, imported."""
    return load_weights(checkpoint(variant)).navigator.to(reference.dtype)


def test_every_output_agrees(reference: Reference, navigator: Navigator) -> None:
    matched = []
    navigator.refinement.register_forward_pre_hook(lambda _, inputs: matched.append(inputs))
    words = reference.given("lang_mask").bool()
    instruction = navigator.encode(reference.given("input_ids"), words)
    after_cls = words & (torch.arange(words.shape[1]) > 0)
    reference.expect("lang_features", torch.nn.functional.pad(instruction.language.features, (0, 0, 1, 0)), after_cls)
    reference.expect("init_state", instruction.state)
    reference.expect("value_init", navigator.value(instruction.state))
    state = instruction.state
    for number in range(1, STEPS + 1):
        seen = reference.observation(number)
        step = navigator.step(state, instruction, seen)
        state, instruction = step.state, step.instruction
        reference.expect(f"logits_raw_t{number}", step.logits, seen.choosable)
        reference.expect(f"state_t{number}", state)
        reference.expect(f"value_t{number}", navigator.value(state))
        reference.expect(f"lang_att_probs_t{number}", step.language_weights)
        pooled, attended_words, attended_views = matched[-1]
        reference.expect(f"pooled_t{number}", pooled)
        if "f32_attended_language_t1" in reference.arrays:
            reference.expect(f"attended_language_t{number}", attended_words)
            reference.expect(f"attended_visual_t{number}", attended_views)
        else:
            reference.expect(f"vis_lang_product_t{number}", attended_words * attended_views)


@pytest.mark.parametrize("reference", [torch.float64], indirect=True, ids=["float64"])
def test_the_imitation_loss_and_its_gradients_agree(reference: Reference, navigator: Navigator) -> None:
    instruction = navigator.encode(reference.given("input_ids"), reference.given("lang_mask").bool())
    state, loss = instruction.state, torch.zeros((), dtype=torch.float64)
    for number, targets in enumerate(reference.facts["teacher_targets"], start=1):
        step = navigator.step(state, instruction, reference.observation(number))
        state, instruction = step.state, step.instruction
        loss = loss + cross_entropy(step.logits, torch.tensor(targets), reduction="sum") / len(targets)
    assert float(loss.detach()) == pytest.approx(reference.facts["il_loss_f64"], rel=RELATIVE)
    loss.backward()
    gradients = {name: weight.grad for name, weight in navigator.named_parameters()}
    norms = {name: 0.0 if grad is None else float(grad.norm()) for name, grad in gradients.items()}
    backbone = navigator.config.backbone
    table = KeyTable(PUBLISHED[backbone], backbone)
    found = {table.source(name): norm for name, norm in norms.items() if not name.startswith("critic")}
    expected = {name: norm for name, norm in reference.facts["il_grad_l2_norm_f64"].items() if norm is not None}
    assert found == pytest.approx(expected, rel=RELATIVE, abs=1e-10)
