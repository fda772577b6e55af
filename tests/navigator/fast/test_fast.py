"""Inside of `fast.enabled` a navigator computes the same, and learns the same, as the textbook's network."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.navigator.samples import CONFIGS, make, sight, words
from vlnbert.navigator import Navigator, fast

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
    with fast.enabled():
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
        with fast.enabled():
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
    with fast.enabled():
        outs = [fast.linear(torch.randn(4, 3), layer) for _ in range(5)]
    torch.stack(outs).sum().backward()
    assert len(arrived) == 1


def test_maps_of_one_input_are_one_product() -> None:
    layers = nn.Linear(3, 2), nn.Linear(3, 5)
    tokens = torch.randn(4, 3)
    with fast.enabled():
        together = fast.linear(tokens, *layers)
    torch.testing.assert_close(together, torch.cat([layer(tokens) for layer in layers], dim=1))


def test_tokens_are_of_the_precision_that_was_asked_for_and_gradients_of_the_weights() -> None:
    navigator = make(replace(CONFIGS["two-stream"])).float()
    seen = sight(navigator.config, ROWS)
    with fast.enabled(torch.bfloat16):
        instruction = navigator.encode(*words(ROWS, LENGTH))
        step = navigator.step(instruction.state, instruction, seen)
    assert instruction.state.dtype == step.state.dtype == step.logits.dtype == torch.bfloat16
    step.state.float().sum().backward()
    assert {one.grad.dtype for one in navigator.parameters() if one.grad is not None} == {torch.float32}


def test_weights_without_a_gradient_get_none() -> None:
    navigator = make(CONFIGS["two-stream"]).requires_grad_(False)
    navigator.backbone.pooler.requires_grad_(True)
    with fast.enabled():
        given = walked(navigator)
    assert gradients(navigator, given).keys() == {"backbone.pooler.dense.weight", "backbone.pooler.dense.bias"}


def test_nothing_is_kept_where_nothing_is_learned() -> None:
    navigator = make(CONFIGS["two-stream"])
    with torch.inference_mode(), fast.enabled():
        assert not any(one.requires_grad for one in walked(navigator))


def test_real_tokens_lie_side_by_side_and_come_back_to_their_places() -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    block = torch.arange(6.0).view(2, 3, 1) + 1
    assert fast.Packing(mask).pack(block) is block, "outside of a pass nothing is packed"
    with fast.enabled():
        packing, whole = fast.Packing(mask), fast.Packing(mask, padded=True)
    assert packing.pack(block).flatten().tolist() == [1, 2, 4]
    assert packing.first(packing.pack(block)).flatten().tolist() == [1, 4]
    assert packing.unpack(packing.pack(block)).flatten().tolist() == [1, 2, 0, 4, 0, 0]
    assert whole.pack(block) is block


def test_a_pass_that_does_not_ask_for_the_weights_leaves_nothing_to_the_next() -> None:
    layer, tokens = nn.Linear(3, 2).double(), torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    expected = torch.autograd.grad(layer(tokens).square().sum() + layer(2 * tokens).sum(), layer.weight)[0]
    with fast.enabled():
        loss = fast.linear(tokens, layer).square().sum() + fast.linear(2 * tokens, layer).sum()
    torch.autograd.grad(loss, tokens, retain_graph=True)
    loss.backward()
    torch.testing.assert_close(layer.weight.grad, expected)


def test_what_was_first_used_without_gradients_learns_all_the_same() -> None:
    layer, tokens = nn.Linear(3, 2), torch.randn(4, 3)
    with fast.enabled():
        with torch.no_grad():
            fast.linear(tokens, layer)
        fast.linear(tokens, layer).sum().backward()
    torch.testing.assert_close(layer.weight.grad, tokens.sum(dim=0).expand(2, 3))


def test_an_adapter_keeps_its_way() -> None:
    class Louder(nn.Linear):
        def forward(self, tokens: Tensor) -> Tensor:
            return 2 * super().forward(tokens)

    layer, tokens = Louder(3, 2), torch.randn(4, 3)
    with fast.enabled():
        assert torch.equal(fast.linear(tokens, layer), layer(tokens))


def test_a_pass_ends_with_its_block() -> None:
    with fast.enabled(torch.bfloat16):
        with fast.enabled():
            assert fast.current().dtype is None
        assert fast.current().dtype is torch.bfloat16
        with pytest.raises(ZeroDivisionError), fast.enabled():
            raise ZeroDivisionError
        assert fast.current().dtype is torch.bfloat16
    assert fast.current() is None
