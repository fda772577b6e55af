"""Agents that do not learn, against what one agent would do step by step."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vlnbert.environment.environment import Environment, Observation
from vlnbert.errors import UnknownNameError
from vlnbert.rollout.agents import EpisodeBatch, find_agent
from vlnbert.rollout.baselines import Random, RandomReverie
from vlnbert.rollout.episodes import run_episodes
from vlnbert.world.build import build_world
from vlnbert.world.world import STOP


@pytest.fixture
def pairs(world):
    """Every start and goal of one scan that a path joins."""
    everyone = torch.arange(len(world))
    start, goal = (grid.flatten() for grid in torch.meshgrid(everyone, everyone, indexing="ij"))
    together = world.scan_of[start] == world.scan_of[goal]
    start, goal = start[together], goal[together]
    joined = torch.isfinite(world.metres(start, goal))
    return start[joined], goal[joined]


def starting(environment, start, heading, goal=None):
    tokens = torch.zeros(len(start), 0, dtype=torch.long)
    return EpisodeBatch(environment.reset(start, heading), tokens, torch.arange(len(start)), goal=goal)


def walked(environment, name, start, heading=None, goal=None, seed=0, **how):
    """What a baseline does from these starts."""
    batch = starting(environment, start, torch.zeros(len(start)) if heading is None else heading, goal)
    return run_episodes(environment, find_agent(name)(environment, seed), batch, **how)


def lengths(world, taken):
    """The metres of each walk."""
    hops = world.position[taken.viewpoint].diff(dim=1).norm(dim=-1)
    return hops.sum(dim=1)


def test_shortest_reaches_every_goal_in_its_distance(environment, pairs):
    world, (start, goal) = environment.world, pairs
    taken = walked(environment, "shortest", start, goal=goal)
    assert torch.equal(taken.viewpoint[:, 0], start)
    assert torch.equal(taken.viewpoint[:, -1], goal)
    torch.testing.assert_close(lengths(world, taken), world.metres(start, goal))
    hops = (taken.viewpoint.diff(dim=1) != 0).sum(dim=1)
    assert torch.equal(taken.length, hops + 1)


def test_shortest_stays_where_no_path_leads(environment):
    start, goal = (torch.tensor([environment.world.find("gamma", name)]) for name in ("g0", "g5"))
    taken = walked(environment, "shortest", start, goal=goal)
    assert (taken.viewpoint == start).all()


def test_stop_stays(environment, pairs):
    start, _ = pairs
    taken = walked(environment, "stop", start, torch.full((len(start),), 2.1))
    assert (taken.viewpoint == start[:, None]).all()
    assert (taken.view == 16).all()
    assert (taken.length == 1).all()


def test_a_limit_ends_the_walk(environment):
    start, goal = torch.tensor([0]), torch.tensor([5])
    taken = walked(environment, "shortest", start, goal=goal, max_steps=2)
    assert taken.viewpoint.tolist() == [[0, 3, 4]]
    assert taken.length.tolist() == [3]
    assert walked(environment, "stop", start, max_steps=0).viewpoint.shape == (1, 1)


def test_random_takes_five_steps(environment):
    world = environment.world
    start = torch.arange(len(world))
    taken = walked(environment, "random", start, seed=3)
    moved = taken.viewpoint.diff(dim=1) != 0
    lonely = world.choices == 1
    assert torch.equal(moved.sum(dim=1), torch.where(lonely, 0, 5))
    assert torch.equal(taken.length, torch.where(lonely, 1, 6))
    assert not moved[:, 5:].any()


def test_random_is_seeded(environment):
    start = torch.zeros(64, dtype=torch.long)

    def went(seed):
        return walked(environment, "random", start, seed=seed).viewpoint

    assert torch.equal(went(1), went(1))
    assert not torch.equal(went(1), went(2))


def slow_walker(world, viewpoint, turns):
    """R2R's random walker, an action at a time: turn right so often, then go forward, turning where that is blocked."""
    heading, steps, path = turns % 12, 0, [viewpoint]
    for _ in range(60):
        ahead = []
        for slot in range(1, int(world.choices[viewpoint])):
            aside = math.remainder(float(world.heading[viewpoint, slot]) - math.radians(30 * heading), 2 * math.pi)
            if abs(aside) <= math.radians(40):
                ahead.append((math.hypot(aside, float(world.elevation[viewpoint, slot])), slot))
        if steps == 5:
            break
        if ahead:
            viewpoint = int(world.neighbour[viewpoint, min(ahead)[1]])
            path.append(viewpoint)
            steps += 1
        else:
            heading = (heading + 1) % 12
    return path


@given(seed=st.integers(0, 10_000), count=st.integers(2, 14), extra=st.integers(0, 20))
def test_random_as_the_slow_walker(random_graph, seed, count, extra):
    world = build_world([random_graph(seed, count, extra)])
    environment = Environment(world)
    agent = Random(environment, seed=0)
    state = environment.reset(torch.arange(count).repeat_interleave(12), torch.zeros(12 * count))
    memory, path = (torch.arange(12).repeat(count), 0), [state.viewpoint]
    for _ in range(5):
        slot, memory = agent.act(environment.observe(state), memory)
        state = environment.step(state, slot)
        path.append(state.viewpoint)
    assert (agent.act(environment.observe(state), memory)[0] == STOP).all()
    expected = [slow_walker(world, viewpoint, turns) for viewpoint in range(count) for turns in range(12)]
    assert torch.stack(path, dim=1).tolist() == expected


def test_random_as_the_slow_walker_on_known_ground(world):
    environment = Environment(world)
    state = environment.reset(torch.zeros(12, dtype=torch.long), torch.zeros(12))
    slot, _ = Random(environment, seed=0).act(environment.observe(state), (torch.arange(12), 0))
    # a1 lies due north and a3 due east: up to 30 degrees go north, 60 to 120 east, the rest turns on to the north
    names = [world.viewpoints[there] for there in world.neighbour[0, slot]]
    assert names == ["a1"] * 2 + ["a3"] * 3 + ["a1"] * 7


def test_random_headings_are_even(environment):
    batch = starting(environment, torch.zeros(12_000, dtype=torch.long), torch.zeros(12_000))
    heading, taken = Random(environment, seed=0).begin(batch)
    assert taken == 0
    assert heading.bincount(minlength=12).sub(1000).abs().max() < 150
    assert len(heading.bincount()) == 12


def slow_reverie_walker(world, viewpoint, view, lot):
    """REVERIE's random walker, one choice at a time; `lot` is in [0, 1)."""
    path = [viewpoint]
    for step in range(9):
        aside = [
            (
                abs(
                    math.remainder(float(world.heading[viewpoint, slot]) - math.radians(30 * (view % 12)), 2 * math.pi)
                ),
                slot,
            )
            for slot in range(1, int(world.choices[viewpoint]))
        ]
        ranked = [0, *(slot for _, slot in sorted(aside))]
        slot = ranked[int(lot * len(aside))] if step == 0 else ranked[1]
        if slot == STOP:
            break
        viewpoint, view = int(world.neighbour[viewpoint, slot]), int(world.view[viewpoint, slot])
        path.append(viewpoint)
    return path


@given(seed=st.integers(0, 10_000), count=st.integers(2, 14), extra=st.integers(0, 20))
def test_reverie_s_random_as_the_slow_walker(random_graph, seed, count, extra):
    world = build_world([random_graph(seed, count, extra)])
    environment = Environment(world)
    start = torch.arange(count).repeat_interleave(24)
    heading = torch.linspace(0.2, 6.0, 24).repeat(count)
    batch = starting(environment, start, heading)
    agent = RandomReverie(seed)
    lots = agent.begin(batch)[0].tolist()
    taken = run_episodes(environment, agent, batch)
    for row, lot in enumerate(lots):
        expected = slow_reverie_walker(world, int(start[row]), int(batch.state.view[row]), lot)
        assert taken.viewpoint[row, : len(expected)].tolist() == expected
        assert taken.length[row] == len(expected)


def test_reverie_s_random_stays_as_often_as_it_takes_one_neighbour(world):
    """a0 has two, north and east. Facing east, the one that lies most aside is never taken first."""
    environment = Environment(world)
    start = torch.full((3000,), world.find("alpha", "a0"))
    assert world.choices[start[0]] == 3
    taken = walked(environment, "random-reverie", start, torch.full((3000,), math.pi / 2))
    first = [world.viewpoints[there] for there in taken.viewpoint[:, 1]]
    assert set(first) == {"a0", "a3"}
    assert 1400 < first.count("a0") < 1600
    assert taken.length.unique().tolist() == [1, 10]


def test_reverie_s_random_takes_neighbours_that_lie_alike_in_their_order():
    """So many that a sort which may change their order does."""
    choosable, direction = torch.ones(4, 41, dtype=torch.bool), torch.zeros(4, 41, 4)
    direction[:, 1:, 1] = 1.0  # the cosine of a heading: straight ahead
    observation = Observation(choosable, direction, direction[:, 0], None)
    agent, lot = RandomReverie(), torch.tensor([0.0, 0.01, 0.5, 0.99])
    slot, memory = agent.act(observation, (lot, 0))
    assert slot.tolist() == [0, 0, 20, 39], "shares of 40: none, less than one, half, all but one"
    slot, _ = agent.act(observation, memory)
    assert slot.tolist() == [1, 1, 1, 1]


def test_unknown_agents():
    with pytest.raises(UnknownNameError, match="no agent 'shortes'; did you mean shortest"):
        find_agent("shortes")
