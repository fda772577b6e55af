"""Rollouts: each row chooses in its own way, the record is what happened, and noise is keyed by its purpose."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.learning.objectives import Costed, collected
from tests.navigator.samples import TWO, make
from vlnbert.environment.environment import Environment, State
from vlnbert.features.views import facing_views
from vlnbert.rollout.agents import EpisodeBatch
from vlnbert.rollout.mixed import GREEDY, SAMPLE, TEACHER, MixedAgent, TeacherRows, gumbel, keys, mix
from vlnbert.tasks.task import TASKS
from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import STOP, World

LIMIT = 6


def teacher_steps(world: World, start: torch.Tensor, goal: torch.Tensor) -> int:
    """R2R's teacher, who needs to know the goals alone."""
    return TASKS["r2r"].teacher_steps(world, start, SimpleNamespace(goal=goal, goals=None))


@pytest.fixture
def scene(world: World) -> tuple[Environment, torch.Tensor, torch.Tensor]:
    """A ring with a tail to walk, in double precision, and starts and goals in it."""
    views = facing_views(world)
    table = torch.randn(views.count + 1, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table[0] = 0
    return Environment(world, FeatureBank(table, views.row)), torch.tensor([0, 1, 5, 3]), torch.tensor([5, 4, 0, 3])


def roll(scene: tuple, how: list[int], seed: int = 0) -> tuple[Costed, MixedAgent]:
    environment, start, goal = scene
    navigator = make(replace(TWO, feature_width=7))
    tokens = torch.randint(4, 50, (4, 6), generator=torch.Generator().manual_seed(1))
    agent = MixedAgent(
        navigator, environment, tokens, torch.tensor(how), keys(seed, 0, torch.arange(4)), max_steps=LIMIT
    )
    return collected(environment, agent, start, torch.zeros(4), goal), agent


def test_the_teachers_rows_follow_the_teacher(scene: tuple) -> None:
    rollout, _ = roll(scene, [TEACHER] * 4)
    assert torch.equal(rollout.slot[rollout.live], rollout.teacher[rollout.live])
    assert torch.equal(rollout.viewpoint[-1], scene[2])
    assert rollout.ended.all()
    assert rollout.live[:, 3].tolist() == [True] + [False] * (len(rollout.live) - 1)  # it starts at its goal


def test_greedy_rows_take_the_best_and_sampled_ones_what_the_noise_says(scene: tuple) -> None:
    rollout, agent = roll(scene, [GREEDY, SAMPLE, GREEDY, SAMPLE])
    for time, logits in enumerate(rollout.logits):
        noise, live = gumbel(agent.key, LIMIT, logits.shape[1])[time], rollout.live[time]
        expected = torch.where(agent.row_mode == SAMPLE, (logits + noise).argmax(1), logits.argmax(1))
        assert torch.equal(rollout.slot[time][live], expected[live])


def test_the_record_is_what_happened(scene: tuple) -> None:
    environment = scene[0]
    rollout, _ = roll(scene, [SAMPLE, TEACHER, SAMPLE, GREEDY])
    state = environment.reset(scene[1], torch.zeros(4))
    for time, slot in enumerate(rollout.slot):
        assert torch.equal(rollout.viewpoint[time], state.viewpoint)
        assert torch.equal(rollout.view[time], state.view)
        assert torch.equal(rollout.live[time], ~state.ended)
        state = environment.step(state, slot)
    assert torch.equal(rollout.viewpoint[-1], state.viewpoint)
    assert torch.equal(rollout.ended, state.ended)


def test_who_goes_on_expects_what_the_next_step_would_show(scene: tuple) -> None:
    rollout, agent = roll(scene, [SAMPLE] * 4, seed=5)
    assert 0 < rollout.ended.sum() < 4
    navigator, environment = agent.policy.navigator, agent.environment
    state = State(*rollout.viewpoint[:1], rollout.view[0], rollout.ended)
    memory = agent.begin(EpisodeBatch(state, agent.tokens, torch.arange(4), goal=scene[2]))
    hidden, instruction = memory.memory.state, memory.memory.instruction
    for viewpoint, view in zip(rollout.viewpoint, rollout.view, strict=True):
        step = navigator.step(hidden, instruction, environment.observe(State(viewpoint, view, rollout.ended)))
        hidden, instruction = step.state, step.instruction
    torch.testing.assert_close(rollout.last_value[~rollout.ended], navigator.value(hidden)[~rollout.ended])
    assert not rollout.last_value.requires_grad
    assert rollout.value.requires_grad


def test_a_walk_ends_when_all_have_stopped(scene: tuple) -> None:
    rollout, _ = roll(scene, [TEACHER] * 4)
    longest = int(rollout.live.sum(dim=0).max())
    assert len(rollout.slot) == longest < LIMIT
    assert (rollout.slot[-1][rollout.live[-1]] == STOP).all()


@pytest.mark.parametrize("steps", [4, 5, LIMIT, 99])
def test_rows_that_leave_change_nothing(scene: tuple, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether nobody leaves, the taught leave together (as on a GPU) or who stops leaves: the same is learned."""
    _, start, goal = scene
    how = [TEACHER, TEACHER, SAMPLE, SAMPLE]
    assert teacher_steps(scene[0].world, start[:2], goal[:2]) == 4
    stopped_leave = roll_with(scene, how, start, goal, None)
    monkeypatch.setattr("vlnbert.rollout.mixed.active_rows", lambda state, rows: None)
    whole, taught_leave = (
        roll_with(scene, how, start, goal, teacher_rows) for teacher_rows in (None, TeacherRows(2, steps))
    )
    assert len(whole.live) == LIMIT, "somebody walks on when the taught have left"
    for kept in (stopped_leave, taught_leave):
        assert torch.equal(whole.live, kept.live)
        for name in ("slot", "teacher", "logits", "value", "grounding_loss"):
            one, other = getattr(whole, name)[whole.live], getattr(kept, name)[whole.live]
            torch.testing.assert_close(one, other)
        assert torch.equal(whole.viewpoint, kept.viewpoint)
        assert torch.equal(whole.ended, kept.ended)
        torch.testing.assert_close(whole.last_value[~whole.ended], kept.last_value[~whole.ended])
    gone = int(stopped_leave.logits[stopped_leave.live.logical_not()].count_nonzero())
    assert gone == 0, "who stopped is computed no more"


def roll_with(
    scene: tuple, how: list[int], start: torch.Tensor, goal: torch.Tensor, teacher_rows: TeacherRows | None
) -> Costed:
    navigator = make(replace(TWO, feature_width=7))
    tokens = torch.randint(4, 50, (4, 6), generator=torch.Generator().manual_seed(1))
    key = keys(5, 0, torch.arange(4))
    agent = MixedAgent(navigator, scene[0], tokens, torch.tensor(how), key, LIMIT, teacher_rows)
    return collected(scene[0], agent, start, torch.zeros(4), goal)


def test_the_teachers_steps_are_counted(scene: tuple) -> None:
    environment, start, goal = scene
    rollout, _ = roll(scene, [TEACHER] * 4)
    assert teacher_steps(environment.world, start, goal) == int(rollout.live.sum(dim=0).max())


def splitmix(value: int) -> int:
    """The published algorithm, on Python's whole numbers."""
    mask = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


@given(st.integers(-(2**63), 2**63 - 1))
def test_it_mixes_as_splitmix64_does(number: int) -> None:
    assert int(mix(torch.tensor(number))) % 2**64 == splitmix(number % 2**64)


def test_a_row_has_its_noise_whatever_the_batch() -> None:
    episodes = torch.tensor([5, 9, 2])
    together = gumbel(keys(1, 7, episodes), steps=3, slots=6)
    for row, episode in enumerate(episodes):
        assert torch.equal(gumbel(keys(1, 7, episode[None]), 3, 6)[:, 0], together[:, row])


def test_seeds_iterations_episodes_and_steps_differ() -> None:
    episodes = torch.arange(4)
    noises = [gumbel(keys(seed, iteration, episodes), 2, 5) for seed in (0, 1) for iteration in (0, 1)]
    assert len(torch.stack(noises).flatten().unique()) == 8 * 4 * 5


def test_any_seed_serves() -> None:
    assert gumbel(keys(10**30, 10**9, torch.arange(2)), 1, 3).isfinite().all()


def test_its_argmax_samples_the_softmax() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, -torch.inf])
    drawn = (logits + gumbel(keys(0, 0, torch.arange(40_000)), 1, 4)[0]).argmax(dim=1)
    shares = drawn.bincount(minlength=4) / len(drawn)
    torch.testing.assert_close(shares, logits.softmax(dim=0), atol=0.01, rtol=0)
