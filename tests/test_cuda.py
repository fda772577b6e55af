"""On a GPU: the same numbers as on the CPU, and no moment in which the host waits for the device."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.conftest import TinyData
from tests.navigator.samples import CONFIGS, make, sight, words
from tests.world.samples import codes_of, furnished
from vlnbert.environment.environment import Environment, shortest_path_teacher
from vlnbert.world import ObjectBank, World

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),  # torch calls it a prototype
]


@contextmanager
def no_synchronisation() -> Iterator[None]:
    """Within the block, anything that makes the host wait for the GPU raises."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def moved(value: Any, device: str) -> Any:
    """A bundle of tensors on another device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{field.name: moved(getattr(value, field.name), device) for field in fields(value)})
    return value


def walk(environment: Environment, start: Tensor, heading: Tensor, goal: Tensor) -> list[Tensor]:
    state = environment.reset(start, heading)
    seen = []
    for _ in range(5):
        observation = environment.observe(state)
        seen += [state.viewpoint, state.view, observation.direction, observation.choosable]
        seen += vars(observation.objects).values() if observation.objects is not None else ()
        state = environment.step(state, shortest_path_teacher(environment.world, state, goal))
    return seen


def test_agents_walk_alike_and_nobody_waits(world: World) -> None:
    start, goal = torch.arange(6), torch.tensor([5, 4, 3, 2, 1, 0])
    heading = torch.linspace(-3, 9, 6, dtype=torch.float64)
    expected = walk(Environment(world), start, heading, goal)
    on_gpu = Environment(world.to("cuda"))
    given = [value.cuda() for value in (start, heading, goal)]
    with no_synchronisation():
        found = walk(on_gpu, *given)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other.cpu(), one)


def test_objects_look_alike_and_nobody_waits(tiny: TinyData, world: World) -> None:
    objects = furnished(tiny, world)
    bank = ObjectBank.from_codebook(objects, codes_of(objects))
    start, goal = torch.arange(6), torch.tensor([5, 4, 3, 2, 1, 0])
    heading = torch.linspace(-3, 9, 6, dtype=torch.float64)
    expected = walk(Environment(world, objects=replace(bank, fixed=True)), start, heading, goal)
    on_gpu = Environment(world.to("cuda"), objects=bank.to("cuda"))
    given = [value.cuda() for value in (start, heading, goal)]
    with no_synchronisation():
        found = walk(on_gpu, *given)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other.cpu(), one)


@pytest.mark.parametrize("name", CONFIGS)
def test_navigators_decide_alike_and_nobody_waits(name: str) -> None:
    navigator, (tokens, mask), seen = make(CONFIGS[name]), words(3, 9), sight(CONFIGS[name], 3)
    instruction = navigator.encode(tokens, mask)
    expected = navigator.step(instruction.state, instruction, seen)
    navigator, tokens, mask, seen = navigator.cuda(), tokens.cuda(), mask.cuda(), moved(seen, "cuda")
    with no_synchronisation():
        instruction = navigator.encode(tokens, mask)
        found = navigator.step(instruction.state, instruction, seen)
    torch.testing.assert_close(found.logits.cpu(), expected.logits)
    torch.testing.assert_close(found.state.cpu(), expected.state)
