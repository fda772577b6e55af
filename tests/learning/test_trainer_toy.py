"""A toy that every learner must solve: a few episodes of a small house, learned by heart from both kinds of rows."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.learning.objectives import collected, navigation_objective
from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.features.views import open_features
from vlnbert.house import generate
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.rewards import RewardConfig, Rewards
from vlnbert.navigator import SIZES, Navigator
from vlnbert.rollout.mixed import SAMPLE, TEACHER, MixedAgent, keys
from vlnbert.rollout.policy import GreedyAgent
from vlnbert.sources.layout import open_folder
from vlnbert.tasks.batches import Tokens, load_tokenizer, take, tokenise
from vlnbert.tasks.episodes import load_episodes
from vlnbert.world.build import open_world

ROWS = 16


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["one-stream", "two-stream"])
def test_a_few_episodes_are_learned_by_heart(backbone: str, tmp_path: Path) -> None:
    generate(tmp_path / "house", scans=3, paths_per_scan=8)
    folder = open_folder(tmp_path / "house")
    world = open_world(folder)
    bank, tokenizer = open_features(world, folder.feature_files()[0]), load_tokenizer(folder.vocabulary)
    every = load_episodes(folder, world, "r2r", "train")
    episodes = every.select(torch.arange(ROWS // 2))
    tokens = tokenise(episodes, tokenizer, folder.vocabulary)
    torch.manual_seed(0)
    shape = {"feature_width": bank.width, "vocabulary": tokenizer.get_vocab_size(), "feature_dropout": 0.0}
    navigator = Navigator(replace(SIZES["tiny"][backbone], hidden=48, inner=96, critic_dropout=0.0, **shape))
    environment, rewards = Environment(world, bank), Rewards(world, RewardConfig())
    optimiser = torch.optim.AdamW(navigator.parameters(), lr=2e-3)
    both = torch.arange(ROWS // 2).repeat(2)  # each episode once with the teacher and once without
    how = torch.tensor([TEACHER] * (ROWS // 2) + [SAMPLE] * (ROWS // 2))
    batch = take(episodes, tokens, both, tokens.ids.shape[1])
    for iteration in range(80):
        agent = MixedAgent(
            navigator, environment, batch.tokens, how, keys(0, iteration, torch.arange(ROWS)), max_steps=8
        )
        rollout = collected(environment, agent, batch.start, batch.heading, batch.goal)
        reward = rewards(rollout.viewpoint, rollout.slot, batch.path, batch.path_length)
        loss = navigation_objective(rollout, how, reward, ObjectiveConfig(imitation=1.0))
        optimiser.zero_grad()
        loss.total.backward()
        torch.nn.utils.clip_grad_norm_(navigator.parameters(), 5.0)
        optimiser.step()
    result = evaluate_agent(environment, GreedyAgent(navigator.eval()), episodes, tokens, max_steps=8)
    assert result.scores.sr.mean() == 1.0
    blind = []
    for by in range(1, len(episodes)):  # instructions shuffled between episodes, in every way that shifts them
        rows = torch.arange(len(episodes)).roll(by)
        shuffled = Tokens(tokens.ids[rows], tokens.count[rows])
        found = evaluate_agent(environment, GreedyAgent(navigator), episodes, shuffled, max_steps=8).scores.sr
        blind.append(found[(episodes.path != episodes.path[rows]).any(dim=1)])  # the words of another path
    assert torch.cat(blind).mean() <= result.scores.sr.mean() - 0.3, "the words are read"
