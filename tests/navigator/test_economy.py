"""In an economy a navigator computes the same, and learns the same, as the textbook's network."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.navigator.samples import CONFIGS, make, sight, words
from vlnbert.navigator import Navigator
from vlnbert.navigator.economy import current, economy
from vlnbert.navigator.layout import Layout
from vlnbert.navigator.linear import project

ROWS, LENGTH, STEPS = 4, 9, 3


def walked(navigator: Navigator) -> list[Tensor]:
    """What a few steps give: the same weights are used in each."""
    instruction = navigator.encode(*words(ROWS, LENGTH))
    state, given = instruction.state, list[Tensor]()
    for seed in range(STEPS):
        step = navigator.step(state, instruction, sight(navigator.config, ROWS, seed=seed))
        state, instruction = step.state, step.instruction
        scores = step.logits[torch.isfinite(step.logits)]
        given += [state, scores, step.language_weights, navigator.value(state)]
    return given


def gradients(navigator: Navigator, given: Sequence[Tensor]) -> dict[str, Tensor]:
    navigator.zero_grad(set_to_none=True)
    generator = torch.Generator().manual_seed(5)
    torch.stack([(one * torch.randn(one.shape, generator=generator)).sum() for one in given]).sum().backward()
    return {name: one.grad for name, one in navigator.named_parameters() if one.grad is not None}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_is_computed_and_learned(name: str) -> None:
    navigator = make(CONFIGS[name])
    expected = walked(navigator)
    taught = gradients(navigator, expected)
    with economy():
        found = walked(navigator)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    learned = gradients(navigator, found)
    assert learned.keys() == taught.keys()
    for weight, grad in taught.items():
        torch.testing.assert_close(learned[weight], grad, rtol=1e-7, atol=1e-9, msg=weight)


def test_gradients_add_up_over_passes() -> None:
    navigator = make(CONFIGS["two-stream"])
    once = gradients(navigator, walked(navigator))
    navigator.zero_grad()
    for _ in range(2):
        with economy():
            given = walked(navigator)
        generator = torch.Generator().manual_seed(5)
        torch.stack([(one * torch.randn(one.shape, generator=generator)).sum() for one in given]).sum().backward()
    grads = dict(navigator.named_parameters())
    for name, grad in once.items():
        torch.testing.assert_close(grads[name].grad, 2 * grad, rtol=1e-7, atol=1e-9, msg=name)


def test_a_weights_gradient_is_made_once() -> None:
    """However often a map is used, one gradient of its size arrives."""
    layer, arrived = nn.Linear(3, 2), list[Tensor]()
    layer.weight.register_hook(arrived.append)
    with economy():
        made = [project(torch.randn(4, 3), layer) for _ in range(5)]
    torch.stack(made).sum().backward()
    assert len(arrived) == 1


def test_maps_of_one_input_are_one_product() -> None:
    layers = nn.Linear(3, 2), nn.Linear(3, 5)
    tokens = torch.randn(4, 3)
    with economy():
        together = project(tokens, *layers)
    torch.testing.assert_close(together, torch.cat([layer(tokens) for layer in layers], dim=1))


def test_tokens_are_of_the_precision_that_was_asked_for_and_gradients_of_the_weights() -> None:
    navigator = make(replace(CONFIGS["two-stream"])).float()
    seen = sight(navigator.config, ROWS)
    with economy(torch.bfloat16):
        instruction = navigator.encode(*words(ROWS, LENGTH))
        step = navigator.step(instruction.state, instruction, seen)
    assert instruction.state.dtype == step.state.dtype == step.logits.dtype == torch.bfloat16
    step.state.float().sum().backward()
    assert {one.grad.dtype for one in navigator.parameters() if one.grad is not None} == {torch.float32}


def test_weights_without_a_gradient_get_none() -> None:
    navigator = make(CONFIGS["two-stream"]).requires_grad_(False)
    navigator.backbone.pooler.requires_grad_(True)
    with economy():
        given = walked(navigator)
    assert gradients(navigator, given).keys() == {"backbone.pooler.dense.weight", "backbone.pooler.dense.bias"}


def test_nothing_is_kept_where_nothing_is_learned() -> None:
    navigator = make(CONFIGS["two-stream"])
    with torch.inference_mode(), economy():
        assert not any(one.requires_grad for one in walked(navigator))


def test_real_tokens_lie_side_by_side_and_come_back_to_their_places() -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    block = torch.arange(6.0).view(2, 3, 1) + 1
    assert Layout(mask).pack(block) is block, "outside of an economy nothing is packed"
    with economy():
        layout, whole = Layout(mask), Layout(mask, padded=True)
    assert layout.pack(block).flatten().tolist() == [1, 2, 4]
    assert layout.first(layout.pack(block)).flatten().tolist() == [1, 4]
    assert layout.spread(layout.pack(block)).flatten().tolist() == [1, 2, 0, 4, 0, 0]
    assert whole.pack(block) is block


def test_a_pass_that_does_not_ask_for_the_weights_leaves_nothing_to_the_next() -> None:
    layer, tokens = nn.Linear(3, 2).double(), torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    expected = torch.autograd.grad(layer(tokens).square().sum() + layer(2 * tokens).sum(), layer.weight)[0]
    with economy():
        loss = project(tokens, layer).square().sum() + project(2 * tokens, layer).sum()
    torch.autograd.grad(loss, tokens, retain_graph=True)
    loss.backward()
    torch.testing.assert_close(layer.weight.grad, expected)


def test_what_was_first_used_without_gradients_learns_all_the_same() -> None:
    layer, tokens = nn.Linear(3, 2), torch.randn(4, 3)
    with economy():
        with torch.no_grad():
            project(tokens, layer)
        project(tokens, layer).sum().backward()
    torch.testing.assert_close(layer.weight.grad, tokens.sum(dim=0).expand(2, 3))


def test_an_adapter_keeps_its_way() -> None:
    class Louder(nn.Linear):
        def forward(self, tokens: Tensor) -> Tensor:
            return 2 * super().forward(tokens)

    layer, tokens = Louder(3, 2), torch.randn(4, 3)
    with economy():
        assert torch.equal(project(tokens, layer), layer(tokens))


def test_an_economy_ends_with_its_block() -> None:
    with economy(torch.bfloat16):
        with economy():
            assert current().precision is None
        assert current().precision is torch.bfloat16
        with pytest.raises(ZeroDivisionError), economy():
            raise ZeroDivisionError
        assert current().precision is torch.bfloat16
    assert current() is None
