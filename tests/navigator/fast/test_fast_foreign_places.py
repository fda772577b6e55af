"""Somebody else's modules in the places of ours: they work, they learn, and what they do wrong is one line."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.navigator.samples import CONFIGS, LENGTH, ONE, ROWS, make, sight, step_of, words
from vlnbert.errors import UsageError
from vlnbert.navigator import Navigator, fast

OBJECTS = CONFIGS["one-stream objects"]
HIDDEN = OBJECTS.hidden


class Lora(nn.Module):
    """An adapter around a linear map, which says nothing of its widths."""

    def __init__(self, base: nn.Linear, cut: int = 0) -> None:
        super().__init__()
        self.base, self.cut = base, cut
        self.down, self.up = nn.Linear(base.in_features, 2, bias=False), nn.Linear(2, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.base(tokens) + self.up(self.down(tokens))
        return out[..., : out.shape[-1] - self.cut]


def linear_places(navigator: Navigator) -> list[str]:
    return [name for name, module in navigator.named_modules() if isinstance(module, nn.Linear)]


@pytest.mark.parametrize("name", ["one-stream objects", "two-stream objects", "one-stream"])
def test_an_adapter_that_says_nothing_of_its_widths_in_every_place(name: str) -> None:
    plain, navigator = make(CONFIGS[name]).float(), make(CONFIGS[name]).float()
    for place in linear_places(navigator):
        navigator.set_submodule(place, Lora(navigator.get_submodule(place)))
    for dtype, tolerance in ((None, 1e-4), (torch.bfloat16, 0.3)):
        (_, step), (_, expected) = step_of(navigator, dtype), step_of(plain, dtype)
        torch.testing.assert_close(step.state, expected.state, rtol=tolerance, atol=tolerance)
        with fast.enabled(dtype):
            one_step(navigator)
    (step.state.float().sum() + navigator.value(step.state.float()).sum()).backward()
    assert navigator.backbone.layers[0].attention.query.up.weight.grad.any()


def one_step(navigator: Navigator) -> None:
    instruction = navigator.encode(*words(ROWS, LENGTH))
    step = navigator.step(instruction.state, instruction, sight(navigator.config, ROWS), attention_maps=True)
    navigator.value(step.state)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", ["one-stream objects", "two-stream"])
def test_a_map_of_a_wrong_width_is_told_in_a_line_wherever_it_stands(name: str, inside: bool) -> None:
    navigator = make(CONFIGS[name]).float()
    for place in linear_places(navigator):
        base = navigator.get_submodule(place)
        navigator.set_submodule(place, Lora(base, cut=1))
        width, got = base.out_features, base.out_features - 1
        line = rf"^Lora gave \w+ \[.*\b{got}\] for its result; expected .*\b{width}\]$"
        with fast.enabled(torch.bfloat16) if inside else nullcontext(), pytest.raises(UsageError, match=line):
            one_step(navigator)
        navigator.set_submodule(place, base)


class Joined(nn.Module):
    """One linear map of whatever is given, side by side."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, out)

    def forward(self, *given: Any) -> Tensor:
        out: Tensor = self.map(torch.cat([one for one in given if isinstance(one, Tensor)], dim=-1))
        return out


class WithNoObject(Joined):
    def forward(self, *given: Any) -> Tensor:
        return nn.functional.pad(super().forward(*given), (0, 0, 0, 1))


PLACES: dict[str, Callable[[int], nn.Module]] = {
    "backbone.pooler": lambda out: nn.Linear(HIDDEN, out),
    "view_embedding": lambda out: Joined(OBJECTS.feature_width + OBJECTS.angle_width, out),
    "object_embedding": lambda out: WithNoObject(OBJECTS.object_width + 5 + OBJECTS.angle_width, out),
    "refinement": lambda out: Joined(3 * HIDDEN, out),
    "past_decision": lambda out: Joined(HIDDEN + OBJECTS.angle_width, out),
}


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("backbone", ["one-stream objects", "two-stream objects"])
@pytest.mark.parametrize("place", PLACES)
def test_a_foreign_module_in_a_place_of_ours(place: str, backbone: str, dtype: torch.dtype | None) -> None:
    torch.manual_seed(2)
    navigator = make(CONFIGS[backbone]).float()
    navigator.set_submodule(place, PLACES[place](HIDDEN))
    _, step = step_of(navigator, dtype)
    assert step.state.dtype == step.logits.dtype == (dtype or torch.float32)
    (step.logits[step.logits.isfinite()].float().sum() + step.state.float().sum()).backward()
    for weight in navigator.get_submodule(place).parameters():
        assert weight.grad.dtype == torch.float32
        assert weight.grad.any()
    navigator.set_submodule(place, PLACES[place](HIDDEN - 1))
    with pytest.raises(UsageError, match=rf" gave \w+ \[.*23\] for its result; expected is a floating .*{HIDDEN}\]$"):
        step_of(navigator, dtype)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("flat", [False, True])
def test_a_foreign_critic(flat: bool, dtype: torch.dtype | None) -> None:
    navigator = make(ONE).float()
    navigator.critic = nn.Sequential(nn.Linear(HIDDEN, 1), *([nn.Flatten(0)] if flat else []))
    states = torch.randn(ROWS, HIDDEN)
    with fast.enabled(dtype):
        value = navigator.value(states.to(dtype))
    assert value.dtype == (dtype or torch.float32)
    torch.testing.assert_close(value.float(), navigator.critic(states).view(ROWS), rtol=0.05, atol=0.05)
    value.float().sum().backward()
    assert navigator.critic[0].weight.grad.any()
    navigator.critic = nn.Linear(HIDDEN, 2)
    expected = r"^Linear gave \w+ \[4, 2\] for the value; expected is a floating tensor \[4, 1\]$"
    with fast.enabled(dtype), pytest.raises(UsageError, match=expected):
        navigator.value(states.to(dtype))


def test_our_critic_keeps_its_keys() -> None:
    keys = {"critic.0.weight", "critic.0.bias", "critic.3.weight", "critic.3.bias"}
    assert {key for key in make(ONE).state_dict() if key.startswith("critic")} == keys
