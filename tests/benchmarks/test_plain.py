"""The plain way is slower, and never different: it walks, earns and learns what ours does."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks.plain.agents import walk_plainly
from benchmarks.plain.loop import AgentState
from benchmarks.plain.observations import PlainObserver
from benchmarks.plain.rewards import PlainRewards
from benchmarks.plain.training import PlainTraining
from tests.learning.samples import CONFIG, NO_DROPOUT, SHAPE, trainer
from vlnbert.benchmarking import first_episodes
from vlnbert.environment.environment import Observation, State
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.rewards import RewardConfig, Rewards
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import SIZES, Instruction, Navigator, Step, fast
from vlnbert.rollout.policy import GreedyAgent
from vlnbert.world.world import STOP, VIEWS, World

STEADY = replace(SHAPE, **NO_DROPOUT)
SETTINGS = {
    "the paper's": TrainConfig(batch=6, learning_rate=1e-3, max_steps=8, grad_clip=0.5),
    "guided, in hops": TrainConfig(
        batch=6,
        learning_rate=1e-3,
        max_steps=3,
        objective=ObjectiveConfig(student_forcing=0.7),
        rewards=RewardConfig(unit="hops"),
    ),
    "two batches": TrainConfig(batch=4, learning_rate=1e-3, max_steps=5, accumulate=2),
}


def twin(ours: Trainer) -> PlainTraining:
    """The plain way with the same weights, world and batches."""
    navigator = Navigator(ours.model.config).to(ours.model.critic[0].weight.dtype)
    navigator.load_state_dict(ours.model.state_dict())
    return PlainTraining(
        navigator, ours.environment.world, ours.environment.view_bank, ours.batches.splits[0], ours.config
    )


@pytest.mark.parametrize("backbone", ["one-stream", "two-stream"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_it_learns_the_same(house: Path, tmp_path: Path, setting: str, backbone: str) -> None:
    shape = replace(SIZES["tiny"][backbone], **{**NO_DROPOUT, "hidden": 24, "heads": 2, "inner": 32})
    ours = trainer(house, tmp_path, SETTINGS[setting], shape=shape, dtype=torch.float64)
    plain = twin(ours)
    for iteration in range(3):
        ours.advance(iteration)
        torch.testing.assert_close(plain.advance(iteration), ours.unreported[-1][0], rtol=1e-5, atol=1e-6)
    theirs = dict(plain.navigator.named_parameters())
    for name, weight in ours.model.named_parameters():
        torch.testing.assert_close(theirs[name], weight, rtol=1e-3, atol=1e-5, msg=name)


def test_it_is_plain(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves read 80 tokens; every row goes along to the end; nothing is kept; no pass is on."""
    plain = twin(trainer(house, tmp_path, SETTINGS["the paper's"], shape=STEADY))
    read, seen, encode, step = list[tuple[int, ...]](), list[int](), plain.navigator.encode, plain.navigator.step

    def encoded(tokens: Tensor, mask: Tensor) -> Instruction:
        read.append(tuple(tokens.shape))
        return encode(tokens, mask)

    def stepped(state: Tensor, instruction: Instruction, observation: Observation) -> Step:
        assert instruction.language.kv_cache is None
        assert fast.current() is None
        seen.append(len(state))
        return step(state, instruction, observation)

    monkeypatch.setattr(plain.navigator, "encode", encoded)
    monkeypatch.setattr(plain.navigator, "step", stepped)
    plain.advance(0)
    assert read == [(3, 80), (3, 80)]
    assert set(seen) == {3}
    assert len(seen) > 8, "the teacher's steps, those of exploring, and one more look"


def test_another_batch_is_another_loss(house: Path, tmp_path: Path) -> None:
    plain = twin(trainer(house, tmp_path, SETTINGS["the paper's"], shape=STEADY, dtype=torch.float64))
    assert abs(plain.loss(0) - plain.loss(1)) > 1e-2


@pytest.mark.parametrize("limit", [5, 9])
def test_it_walks_the_same(house: Path, tmp_path: Path, limit: int) -> None:
    ours = trainer(house, tmp_path, replace(CONFIG, seed=4))  # some of its rows stop
    world, split = ours.environment.world, first_episodes(ours.batches.splits[0], 11)
    navigator = ours.model.eval()
    expected = evaluate_agent(
        ours.environment, GreedyAgent(navigator), split.episodes, split.tokens, limit, batch=4
    ).trajectories
    observer = PlainObserver(world, ours.environment.view_bank, navigator.config.angle_width)
    found = walk_plainly(navigator, observer, split.episodes, split.tokens, limit)
    assert torch.equal(found.viewpoint, expected.viewpoint)
    assert torch.equal(found.length, expected.length)
    assert found.length.unique().numel() > 1, "some stop earlier than others"


def test_it_sees_the_same(house: Path, tmp_path: Path) -> None:
    environment = trainer(house, tmp_path).environment
    world = environment.world
    observer = PlainObserver(world, environment.view_bank, angle_width=8)
    viewpoint = torch.arange(len(world)).repeat(2)
    view = torch.arange(len(viewpoint)) * 7 % VIEWS
    rows = zip(viewpoint.tolist(), view.tolist(), strict=True)
    observations = [observer.observe(AgentState(here, facing, ended=False)) for here, facing in rows]
    found = observer.batch(observations)
    expected = environment.observe(State(viewpoint, view, torch.zeros_like(view, dtype=torch.bool)))
    for name in ("choosable", "direction", "facing", "features"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-6, msg=name)
    assert all(each.panorama.shape == (VIEWS, environment.view_bank.width + 8) for each in observations)
    narrow = observer.batch(observations[:1])
    assert narrow.choosable.shape == (1, int(world.choices[0])), "as wide as its widest row"


@pytest.mark.parametrize("config", [RewardConfig(), RewardConfig(unit="hops"), RewardConfig(departure=False)])
def test_it_earns_the_same(world: World, config: RewardConfig) -> None:
    """Every way of two steps, or of one and a stop, from every viewpoint of a ring with a tail."""
    path = torch.tensor([0, 3, 4])
    walks = [(start, first, second) for start in range(6) for first in ways(world, start) for second in range(3)]
    for start, first, second in walks:
        between = int(world.neighbour[start, first])
        second = min(second, int(world.choices[between]) - 1)
        end = int(world.neighbour[between, second])
        expected = Rewards(world, config)(
            column(start, between, end), column(first, second), path[None], torch.tensor([3])
        )
        rewards = PlainRewards(world, config).begin(start, path.tolist())
        earned = [rewards.step(first, between), rewards.step(second, end)]
        assert earned == pytest.approx(expected.flatten().tolist())


def ways(world: World, viewpoint: int) -> range:
    return range(STOP + 1, int(world.choices[viewpoint]))


def column(*numbers: int) -> Tensor:
    return torch.tensor(numbers)[:, None]
