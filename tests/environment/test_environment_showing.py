"""What agents see only if they want it: the neighbours' numbers and all 36 views; free for all others."""

import math
import pydoc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.conftest import TinyData
from vlnbert.environment.environment import WANTS, Environment, Observation, Panorama, State
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.features.views import all_views, open_features
from vlnbert.world.banks import Bank
from vlnbert.world.objects import VisibleObjects
from vlnbert.world.world import VIEWS, World


class Operators(TorchDispatchMode):
    """The names of the operators that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.ran = list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ran.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def opened() -> list[str]:
    """A line for each time that panoramas were opened."""
    return []


@pytest.fixture
def environment(tiny: TinyData, world: World, opened: list[str]) -> Environment:
    file = tiny.path("features/tiny.hdf5")

    def open_panoramas() -> Bank:
        opened.append("opened")
        return open_features(world, file, views=all_views(world))

    return Environment(world, open_features(world, file), open_panoramas=open_panoramas)


def everywhere(world: World) -> State:
    """An agent at each viewpoint, each facing another view."""
    viewpoint = torch.arange(len(world))
    return State(viewpoint, 5 * viewpoint % VIEWS, torch.zeros(len(world), dtype=torch.bool))


def ran(environment: Environment, state: State) -> list[str]:
    with Operators() as operators:
        environment.observe(state)
    return operators.ran


def test_who_wants_nothing_is_shown_what_always_was(environment: Environment, world: World, opened: list[str]) -> None:
    """By the same operators, with nothing opened."""
    state, before = everywhere(world), Environment(world, environment.view_bank)
    seen = environment.observe(state)
    assert seen.neighbours is None
    assert seen.panorama is None
    assert environment.showing(()) is environment
    assert ran(environment.showing(()), state) == ran(before, state)
    assert ran(environment.showing(WANTS).showing(()), state) == ran(before, state)
    both = ran(environment.showing(WANTS), state)
    assert len(both) > len(ran(before, state)), "the count is of something"
    assert opened == ["opened"] * 2, "only by who wants the panorama"


def test_neighbours_are_where_slots_lead(environment: Environment, world: World) -> None:
    state = everywhere(world)
    seen = environment.showing("neighbours").observe(state)
    assert seen.panorama is None
    for slot in range(world.slots):
        choice = torch.full_like(state.viewpoint, slot)
        assert torch.equal(seen.neighbours[:, slot], environment.step(state, choice).viewpoint)


def test_a_panorama_shows_all_views(tiny: TinyData, environment: Environment, world: World) -> None:
    state = everywhere(world)
    seen = environment.showing(["panorama"]).observe(state)
    assert seen.neighbours is None
    for row, (here, facing) in enumerate(zip(state.viewpoint.tolist(), state.view.tolist(), strict=True)):
        name = world.scans[int(world.scan_of[here])], world.viewpoints[here]
        assert torch.equal(seen.panorama.features[row], torch.from_numpy(tiny.features[name]))
        for view in range(VIEWS):
            turn, rise = math.radians(30 * (view % 12 - facing % 12)), math.radians(30 * (view // 12 - 1))
            expected = torch.tensor([math.sin(turn), math.cos(turn), math.sin(rise), math.cos(rise)])
            torch.testing.assert_close(seen.panorama.direction[row, view], expected, atol=1e-6, rtol=0)
        for slot in range(1, int(world.choices[here])):
            assert torch.equal(seen.panorama.features[row, world.view[here, slot]], seen.features[row, slot])


def test_wishes_hold_for_copies_and_do_not_add_up(environment: Environment, world: World) -> None:
    state = everywhere(world)
    both = environment.showing(WANTS)
    assert both.showing(reversed(WANTS)) is both
    assert both.for_task("r2r").observe(state).panorama is not None
    assert both.showing("neighbours").observe(state).panorama is None
    assert environment.observe(state).neighbours is None, "the environment itself stays what it was"


def test_half_precision_holds_for_panoramas_in_any_order(environment: Environment, world: World) -> None:
    """Only a GPU keeps features so; the bank's own tables are what counts."""
    state = everywhere(world)
    environment.world = SimpleNamespace(device=torch.device("cuda"))  # its tables are not looked at
    for one in (
        environment.in_dtype(torch.bfloat16).showing("panorama"),
        environment.showing("panorama").in_dtype(torch.bfloat16),
    ):
        assert one.panorama_bank.look(state.viewpoint).dtype == torch.bfloat16
    assert environment.showing("panorama").panorama_bank.look(state.viewpoint).dtype == torch.float32


@pytest.mark.parametrize(
    ("wants", "said"),
    [
        (("neighbors",), "no field of an observation 'neighbors' in My.wants; did you mean neighbours?"),
        (("panorama", "sound"), "no field of an observation 'sound' in My.wants; known: neighbours, panorama"),
        ("panoramas", "no field of an observation 'panoramas' in My.wants; did you mean panorama?"),
        (True, "My.wants is True; give names, such as ('neighbours', 'panorama')"),
        ((1,), "My.wants is (1,); give names, such as ('neighbours', 'panorama')"),
    ],
)
def test_what_nobody_can_see_is_refused(environment: Environment, wants: Any, said: str) -> None:
    with pytest.raises((UnknownNameError, UsageError)) as caught:
        environment.showing(wants, "My.wants")
    assert str(caught.value) == said


def test_without_features_there_is_no_panorama(world: World) -> None:
    with pytest.raises(
        UsageError, match=r"^My.wants has panorama, and this environment shows no features; take that of"
    ):
        Environment(world).showing("panorama", "My.wants")
    assert Environment(world).showing("neighbours").observe(everywhere(world)).neighbours is not None


def test_nobody_waits(
    environment: Environment, world: World, no_waiting: Callable[[], AbstractContextManager[None]]
) -> None:
    shown, state = environment.showing(WANTS), everywhere(world)
    with no_waiting():
        shown.observe(state)


@pytest.mark.parametrize("kind", [Observation, Panorama, State, VisibleObjects])
def test_help_tells_every_field(kind: type) -> None:
    told = pydoc.plain(pydoc.render_doc(kind))
    for one in fields(kind):  # type: ignore[arg-type]
        assert f"- `{one.name}`" in told
        if one.type is Tensor:
            assert f"- `{one.name}` [row" in told, "with its shape"
