"""The learning maths by hand: a line of four viewpoints a metre apart, a constant critic, known advantages."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vlnbert.learning.losses import actor_critic_loss, discounted_returns, teacher_cross_entropy
from vlnbert.learning.rewards import RewardConfig, Rewards, hop_distances
from vlnbert.sources.connectivity import ScanGraph
from vlnbert.world.build import build_world
from vlnbert.world.world import STOP, World

PROGRESS = RewardConfig(fidelity=False, departure=False)


@pytest.fixture
def line() -> World:
    """a - b - c - d, 0.5 m apart but for the last edge of 3 m."""
    position = np.array([[0, y, 0] for y in (0.0, 0.5, 1.0, 4.0)])
    near = np.abs(np.subtract.outer(range(4), range(4))) == 1
    return build_world([ScanGraph("line", tuple("abcd"), position, near)])


def earned(world: World, config: RewardConfig, walk: list[int], stop: bool, path: list[int]) -> list[float]:
    """The rewards of a walk along a path, with a stop at its end or without."""
    viewpoint = torch.tensor([*walk, walk[-1]] if stop else walk)[:, None]
    slot = torch.ones(len(viewpoint) - 1, 1, dtype=torch.long)
    if stop:
        slot[-1] = STOP
    reference = torch.tensor([path])
    return Rewards(world, config)(viewpoint, slot, reference, torch.tensor([len(path)])).flatten().tolist()


def test_approaching_earns_and_everything_else_costs(line: World) -> None:
    assert earned(line, PROGRESS, [0, 1, 0, 1, 2], stop=True, path=[0, 1, 2]) == [1, -1, 1, 1, 2]


def test_a_stop_counts_strictly_within_three_metres(line: World) -> None:
    assert earned(line, PROGRESS, [3], stop=True, path=[0, 1, 2]) == [-2]  # exactly 3 m away
    assert earned(line, PROGRESS, [0], stop=True, path=[0, 1, 2]) == [2]


def test_of_several_goals_the_nearest_counts(line: World) -> None:
    """From b, both c and d are goals: c is nearer; from d one need not go back."""
    viewpoint, slot = torch.tensor([1, 2, 3, 3])[:, None], torch.tensor([1, 1, STOP])[:, None]
    walked = (viewpoint, slot, torch.tensor([[0, 1, 2]]), torch.tensor([3]))
    rewards = Rewards(line, PROGRESS)
    assert rewards(*walked).flatten().tolist() == [1, -1, -2]
    assert rewards(*walked, goals=torch.tensor([[2, 3]])).flatten().tolist() == [1, -1, 2]
    assert rewards(*walked, goals=torch.tensor([[3, 3]])).flatten().tolist() == [1, 1, 2]


def test_leaving_the_goal_costs_what_was_reached(line: World) -> None:
    only = RewardConfig(progress=False, fidelity=False)
    assert earned(line, only, [2, 1, 0], stop=False, path=[0, 1, 2]) == pytest.approx([-2.0, -1.0])
    assert earned(line, only, [0, 1, 2], stop=False, path=[0, 1, 2]) == [0, 0]


def test_fidelity_is_the_change_of_ndtw(line: World) -> None:
    only = RewardConfig(progress=False, departure=False)
    start, middle = np.exp(-(0.5 + 1.0) / 9), np.exp(-0.5 / 9)
    expected = [middle - start, 1 - middle, 2.0]
    assert earned(line, only, [0, 1, 2], stop=True, path=[0, 1, 2]) == pytest.approx(expected)
    hops = replace(only, unit="hops")
    start, middle = np.exp(-(1 + 2) / 9), np.exp(-1 / 9)
    assert earned(line, hops, [0, 1, 2], stop=True, path=[0, 1, 2]) == pytest.approx([middle - start, 1 - middle, 2.0])


def test_hops_count_edges(line: World) -> None:
    assert hop_distances(line).view(4, 4)[0].tolist() == [0, 1, 2, 3]


def test_returns_are_discounted_and_bootstrapped() -> None:
    reward = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 9.0]])
    live = torch.tensor([[True, True], [True, True], [True, False]])  # the second row stopped at its second step
    last, ended = torch.tensor([10.0, 99.0]), torch.tensor([False, True])
    found = discounted_returns(reward, live, last, ended, discount=0.5)
    assert found[:, 0].tolist() == [1 + 0.5 * (1 + 0.5 * (1 + 0.5 * 10)), 1 + 0.5 * (1 + 0.5 * 10), 6.0]
    assert found[:2, 1].tolist() == [1.5, 1.0]


def test_a_constant_critic_gives_known_advantages() -> None:
    value = torch.full((2, 1), 0.5, requires_grad=True)
    log_probability = torch.tensor([[-1.0], [-2.0]], requires_grad=True)
    returns, live = torch.tensor([[2.5], [1.5]]), torch.ones(2, 1, dtype=torch.bool)
    entropy = torch.tensor([[1.0], [3.0]])
    loss = actor_critic_loss(log_probability, entropy, value, returns, live)
    assert float(loss.policy.detach()) == (2.0 * 1 + 1.0 * 2) / 2
    assert float(loss.value.detach()) == 0.5 * (4 + 1) / 2
    assert float(loss.entropy) == pytest.approx(0.01 * 2)
    assert float(loss.total.detach()) == pytest.approx(2.0 + 1.25 - 0.02)
    loss.total.backward()
    assert log_probability.grad.flatten().tolist() == [-1.0, -0.5]  # advantages carry no gradient to the critic
    assert value.grad.flatten().tolist() == [-1.0, -0.5]


def test_steps_after_a_stop_do_not_count() -> None:
    live = torch.tensor([[True, True], [True, False]])
    parts = [torch.tensor([[1.0, 2.0], [3.0, extra]]) for extra in (4.0, 400.0)]
    losses = [actor_critic_loss(part, part, part, 2 * part, live).total for part in parts]
    assert losses[0] == losses[1]


def test_imitation_is_summed_over_steps_and_averaged_over_rows() -> None:
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.9, 0.1], [0.5, 0.5]]]))
    teacher = torch.tensor([[0, 1], [0, 0]])
    live = torch.tensor([[True, True], [True, False]])
    expected = -(np.log(0.5) + np.log(0.75) + np.log(0.9)) / 2
    assert float((teacher_cross_entropy(logits, teacher) * live).sum() / 2) == pytest.approx(expected)
