"""Many agents at once do what one agent would do in plain Python, and nobody waits for the device."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.world.samples import codes_of, furnished
from vlnbert.environment.environment import Environment, State, shortest_path_teacher
from vlnbert.features.views import open_features
from vlnbert.world.banks import FeatureBank
from vlnbert.world.build import build_world
from vlnbert.world.objects import ObjectBank
from vlnbert.world.world import STOP, angle_feature


def plain_step(world, viewpoint, view, ended, slot):
    """One agent."""
    if ended or slot == STOP:
        return viewpoint, view, True
    if slot >= world.choices[viewpoint]:
        return viewpoint, view, False
    return int(world.neighbour[viewpoint, slot]), int(world.view[viewpoint, slot]), False


def plain_directions(world, viewpoint, view):
    rows = []
    for slot in range(world.slots):
        heading = float(world.heading[viewpoint, slot]) - math.radians(30 * (view % 12))
        elevation = float(world.elevation[viewpoint, slot])
        real = 0 < slot < world.choices[viewpoint]
        parts = [math.sin(heading), math.cos(heading), math.sin(elevation), math.cos(elevation)]
        rows.append([number * real for number in parts])
    return torch.tensor(rows)


def test_reset_looks_level_along_the_nearest_heading(environment):
    state = environment.reset(torch.tensor([0, 5, 3]), torch.tensor([0.1, 6.2, 3.0], dtype=torch.float64))
    assert state.viewpoint.tolist() == [0, 5, 3]
    assert state.view.tolist() == [12, 12, 18]
    assert not state.ended.any()


@given(seed=st.integers(0, 10_000))
def test_walks_as_in_plain_python(environment, seed):
    world, generator = environment.world, torch.Generator().manual_seed(seed)
    start = torch.randint(len(world), (8,), generator=generator)
    state = environment.reset(start, torch.rand(8, generator=generator) * 7)
    agents = list(zip(state.viewpoint.tolist(), state.view.tolist(), state.ended.tolist(), strict=True))
    for _ in range(6):
        seen = environment.observe(state)
        for agent, (viewpoint, view, _) in enumerate(agents):
            assert seen.choosable[agent].tolist() == [slot < world.choices[viewpoint] for slot in range(world.slots)]
            torch.testing.assert_close(
                seen.direction[agent], plain_directions(world, viewpoint, view), atol=1e-6, rtol=0
            )
            facing = angle_feature(*torch.tensor([30 * (view % 12), 30 * (view // 12 - 1)]).deg2rad(), width=4)
            torch.testing.assert_close(seen.facing[agent], facing, atol=1e-6, rtol=0)
        slot = torch.randint(world.slots, (8,), generator=generator)
        state = environment.step(state, slot)
        agents = [plain_step(world, *agent, int(choice)) for agent, choice in zip(agents, slot, strict=True)]
        assert list(zip(state.viewpoint.tolist(), state.view.tolist(), state.ended.tolist(), strict=True)) == agents


def test_who_has_stopped_stays(environment):
    state = environment.reset(torch.tensor([3, 3]), torch.zeros(2))
    stopped = environment.step(state, torch.tensor([STOP, 1]))
    assert stopped.ended.tolist() == [True, False]
    after = environment.step(stopped, torch.tensor([2, 1]))
    assert (after.viewpoint[0], after.view[0], after.ended[0]) == (3, 12, True)
    assert after.viewpoint[1] != stopped.viewpoint[1]


def test_padding_leads_nowhere_and_does_not_end(environment):
    lonely = environment.world.find("beta", "b5")
    state = environment.reset(torch.tensor([lonely]), torch.ones(1))
    after = environment.step(state, torch.tensor([environment.world.slots - 1]))
    assert (after.viewpoint, after.view, after.ended) == (lonely, state.view, False)


def test_states_are_not_changed_in_place(environment):
    state = environment.reset(torch.tensor([0, 3]), torch.zeros(2))
    before = replace(state, **{name: value.clone() for name, value in vars(state).items()})
    slot = torch.tensor([1, STOP])
    environment.step(state, slot)
    environment.observe(state)
    assert all(torch.equal(getattr(state, name), getattr(before, name)) for name in vars(state))
    assert slot.tolist() == [1, STOP]


def test_features_come_with_the_bank(tiny, environment):
    bank = open_features(environment.world, tiny.path("features/tiny.hdf5"))
    state = environment.reset(torch.tensor([3, 8]), torch.zeros(2))
    assert environment.observe(state).features is None
    seen = Environment(environment.world, bank).observe(state)
    assert torch.equal(seen.features, bank.look(torch.tensor([3, 8])))


def test_objects_come_with_their_bank(tiny, environment):
    world = environment.world
    objects = furnished(tiny, world)
    bank = ObjectBank.from_codebook(objects, codes_of(objects))
    state = environment.reset(torch.tensor([1, 2]), torch.tensor([0.0, 3.0]))
    assert environment.observe(state).visible_objects is None
    seen, expected = (
        Environment(world, object_bank=bank).observe(state).visible_objects,
        bank.look(state.viewpoint, state.view),
    )
    assert all(torch.equal(getattr(seen, name), getattr(expected, name)) for name in vars(expected))


@given(seed=st.integers(0, 10_000), count=st.integers(2, 12), extra=st.integers(0, 10))
def test_the_teacher_walks_the_shortest_length(random_graph, seed, count, extra):
    world = build_world([random_graph(seed, count, extra), random_graph(seed + 1, 5, 2)])
    environment = Environment(world)
    start, goal = (grid.flatten() for grid in torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij"))
    state, walked = environment.reset(start, torch.zeros(len(start))), torch.zeros(len(start), dtype=torch.float64)
    for _ in range(count):
        after = environment.step(state, shortest_path_teacher(world, state, goal))
        walked += (world.position[after.viewpoint] - world.position[state.viewpoint]).norm(dim=-1)
        assert torch.equal(after.ended, state.viewpoint == goal)
        state = after
    assert torch.equal(state.viewpoint, goal)
    torch.testing.assert_close(walked, world.metres(start, goal))


def test_the_teacher_stops_where_no_path_leads(world):
    start, goal = (torch.tensor([world.find("gamma", name)]) for name in ("g0", "g4"))
    state = State(start, torch.tensor([12]), torch.tensor([False]))
    assert shortest_path_teacher(world, state, goal).tolist() == [STOP]


def test_nothing_waits_for_the_device(tiny, environment, no_waiting):
    world = environment.world
    objects = furnished(tiny, world)
    things = replace(ObjectBank.from_codebook(objects, codes_of(objects)), fixed=True)
    environment = Environment(world, open_features(world, tiny.path("features/tiny.hdf5")), things)
    start, heading, slot, goal = torch.tensor([0, 3]), torch.rand(2), torch.tensor([1, 2]), torch.tensor([5, 0])
    with no_waiting():
        state = environment.reset(start, heading)
        environment.observe(state)
        state = environment.step(state, slot)
        environment.step(state, shortest_path_teacher(world, state, goal))


WAYS_TO_WAIT = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "bool": lambda x: bool(x.any()),
    "mask": lambda x: x[x > 0],
    "where": lambda x: torch.where(x > 0),
    "cpu": lambda x: x.cpu(),
}


@pytest.mark.parametrize("wait", WAYS_TO_WAIT.values(), ids=WAYS_TO_WAIT)
def test_the_watch_notices_waiting(no_waiting, wait):
    with no_waiting(), pytest.raises(AssertionError):
        wait(torch.ones(3))


def test_shapes_alone_can_be_traced(world):
    """On the meta device there are no values to wait for."""
    bank = FeatureBank(torch.zeros(1, 2), torch.zeros(len(world), world.slots, dtype=torch.long))
    environment = Environment(world.to("meta"), bank.to("meta"))
    state = environment.reset(torch.zeros(7, dtype=torch.long, device="meta"), torch.zeros(7, device="meta"))
    seen = environment.observe(environment.step(state, torch.zeros(7, dtype=torch.long, device="meta")))
    assert seen.direction.shape == (7, world.slots, 4)
    assert seen.features.shape == (7, world.slots, 2)


def test_a_gpu_keeps_features_in_the_precision_they_are_used_in(tiny, world):
    """On the CPU they stay as they are; so do banks that have that precision already."""
    objects = furnished(tiny, world)
    things = ObjectBank.from_codebook(objects, codes_of(objects))
    environment = Environment(world, open_features(world, tiny.path("features/tiny.hdf5")), things)
    assert environment.in_dtype(torch.bfloat16) is environment
    environment.world = SimpleNamespace(device=torch.device("cuda"))  # its tables are not looked at
    assert environment.in_dtype(None) is environment
    assert environment.in_dtype(torch.float32) is environment
    half = environment.in_dtype(torch.bfloat16)
    assert (half.view_bank.table.dtype, half.object_bank.table.dtype) == (torch.bfloat16, torch.bfloat16)
    assert half.object_bank.position.dtype == torch.float32
    assert (environment.view_bank.table.dtype, environment.object_bank.table.dtype) == (torch.float32, torch.float32)
    assert half.in_dtype(torch.bfloat16) is half
