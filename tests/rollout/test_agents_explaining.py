"""Agents that explain their choices: what they tell is recorded beside the walk, for all rows, and checked."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import vlnbert as vln
from tests.navigator.samples import TWO, make
from vlnbert.environment.environment import Environment, Observation
from vlnbert.errors import UsageError
from vlnbert.features.views import facing_views
from vlnbert.rollout.agents import Agent, EpisodeBatch, Explanation, as_agent
from vlnbert.rollout.baselines import Stop
from vlnbert.rollout.episodes import run_episodes
from vlnbert.rollout.policy import GreedyAgent
from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import World


@pytest.fixture
def seen(world: World) -> Environment:
    views = facing_views(world)
    table = torch.randn(views.count + 1, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return Environment(world, FeatureBank(table, views.row))


def starting(environment: Environment, tokens: Tensor) -> EpisodeBatch:
    state = environment.reset(torch.arange(len(tokens)), torch.zeros(len(tokens)))
    return EpisodeBatch(state, tokens, torch.arange(len(tokens)))


def test_a_navigator_tells_what_it_decided_by(seen: Environment) -> None:
    agent = GreedyAgent(make(replace(TWO, feature_width=7)))
    batch = starting(seen, torch.randint(4, 20, (6, 5), generator=torch.Generator().manual_seed(1)))
    plain = run_episodes(seen, agent, batch, max_steps=5)
    walked = run_episodes(seen, agent, batch, max_steps=5, record=True)
    assert plain.explanations == ()
    assert torch.equal(plain.viewpoint, walked.viewpoint)
    for time, told in enumerate(walked.explanations):
        assert told is not None
        assert told.language_weights is not None
        assert told.object_probability is None
        here = walked.viewpoint[:, time]
        slot = (seen.world.neighbour[here] == walked.viewpoint[:, time + 1, None]).int().argmax(dim=1)
        walking = walked.length > time
        assert torch.equal(told.probability.argmax(dim=1)[walking], slot[walking])
        for part in (told.probability, told.language_weights):
            total = part.sum(dim=1).float()
            assert torch.allclose(total, walking.float()), "those who have stopped tell nothing"


class Surest(Agent):
    """Stops at once, and is sure of it."""

    reads_tokens = sees_features = False

    def __init__(self, told: Any) -> None:
        self.told = told

    def act(self, observation: Observation, memory: None) -> tuple[Tensor, None]:
        return torch.zeros_like(observation.state.viewpoint), memory

    def explain(self, observation: Observation, memory: None) -> Any:
        return self.told(observation) if callable(self.told) else self.told


class Stranger:
    """Keeps the contract, and knows nothing of us but how to explain."""

    def begin(self, batch: EpisodeBatch) -> None: ...

    def act(self, observation: Observation, memory: None) -> tuple[Tensor, None]:
        return torch.zeros_like(observation.state.viewpoint), memory

    def explain(self, observation: Observation, memory: None) -> Explanation:
        return vln.Explanation(observation.choosable.double())


def test_who_has_nothing_to_tell(environment: Environment) -> None:
    batch = starting(environment, torch.zeros(3, 0, dtype=torch.long))
    assert run_episodes(environment, Stop(), batch, record=True).explanations == (None,)


def test_an_agent_from_elsewhere_tells_too(environment: Environment) -> None:
    batch = starting(environment, torch.zeros(3, 0, dtype=torch.long))
    (told,) = run_episodes(environment, as_agent(Stranger()), batch, record=True).explanations
    assert told is not None
    assert torch.equal(told.probability, environment.observe(batch.state).choosable.double())


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (3, "^Surest.explain gave a int; it must give a vln.Explanation, or None$"),
        (lambda seen: vln.Explanation(seen.choosable[0]), "^Surest.explain gave probability of another shape; "),
        (lambda seen: vln.Explanation(seen.choosable[:, :2]), r"it must be a tensor \[3, \d+\], a row for each"),
        (lambda seen: vln.Explanation(seen.choosable, [0.5]), "gave language_weights of another shape; "),
        (lambda seen: vln.Explanation(seen.choosable, None, seen.choosable[:2]), "gave object_probability of "),
    ],
)
def test_what_is_told_must_fit(environment: Environment, told: Any, line: str) -> None:
    batch = starting(environment, torch.zeros(3, 0, dtype=torch.long))
    with pytest.raises(UsageError, match=line):
        run_episodes(environment, Surest(told), batch, record=True)
    run_episodes(environment, Surest(told), batch)  # nobody asks
