"""Navigators on a split: batches, early ends and order change nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.features.views import open_features
from vlnbert.house import generate
from vlnbert.navigator import SIZES, Navigator
from vlnbert.rollout.policy import GreedyAgent
from vlnbert.sources.layout import DataFolder, open_folder
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.tasks.tokens import Tokens, load_tokenizer, tokenise
from vlnbert.world.build import open_world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    root = tmp_path_factory.mktemp("navigators") / "house"
    generate(root, scans=3, paths_per_scan=8)
    return open_folder(root)


@pytest.fixture
def scene(folder: DataFolder) -> tuple[Environment, Navigator, Episodes, Tokens]:
    world = open_world(folder)
    bank = open_features(world, folder.feature_files()[0])
    tokenizer = load_tokenizer(folder.vocabulary)
    torch.manual_seed(1)
    size = SIZES["tiny"]["two-stream"]
    config = replace(size, feature_width=bank.width, vocabulary=tokenizer.get_vocab_size())
    navigator = Navigator(config).eval()
    with torch.no_grad():
        for name, weight in navigator.named_parameters():
            if "norm" not in name:
                weight.mul_(4)  # decided enough that rounding cannot turn a choice
    episodes = load_episodes(folder, world, "r2r", "val_unseen")
    return Environment(world, bank), navigator, episodes, tokenise(episodes, tokenizer, folder.vocabulary)


def test_a_split_is_walked_as_its_episodes_one_by_one(scene: tuple) -> None:
    environment, navigator, episodes, tokens = scene
    together = evaluate_agent(environment, GreedyAgent(navigator), episodes, tokens, batch=7)
    assert len(set(together.trajectories.length.tolist())) > 1, "some stop early and some do not"
    for row in range(0, len(episodes), 5):
        rows = torch.tensor([row])
        alone = Tokens(tokens.ids[rows], tokens.count[rows])
        single = evaluate_agent(environment, GreedyAgent(navigator), episodes.select(rows), alone)
        assert torch.equal(single.trajectories.viewpoint[0], together.trajectories.viewpoint[row])
        assert single.trajectories.length[0] == together.trajectories.length[row]
        assert single.scores.spl[0] == together.scores.spl[row]


def test_it_does_what_its_logits_say(scene: tuple) -> None:
    environment, navigator, episodes, tokens = scene
    found = evaluate_agent(environment, GreedyAgent(navigator), episodes, tokens, max_steps=4).trajectories
    instruction = navigator.encode(tokens.ids, tokens.ids != 0)
    state, hidden = environment.reset(episodes.start, episodes.heading), instruction.state
    for time in range(4):
        assert torch.equal(found.viewpoint[:, time], state.viewpoint)
        assert torch.equal(found.view[:, time], state.view)
        step = navigator.step(hidden, instruction, environment.observe(state))
        hidden, instruction = step.state, step.instruction
        state = environment.step(state, step.logits.argmax(dim=1))


def test_saved_navigators_are_opened(scene: tuple, tmp_path: Path) -> None:
    from vlnbert.weights.importing import open_navigator

    environment, navigator, episodes, tokens = scene
    navigator.save_pretrained(tmp_path / "saved")
    opened = open_navigator(tmp_path / "saved")
    before, after = (evaluate_agent(environment, GreedyAgent(one), episodes, tokens) for one in (navigator, opened))
    assert torch.equal(before.trajectories.viewpoint, after.trajectories.viewpoint)


def test_modules_walk_in_evaluation_mode_and_are_left_as_they_were(scene: tuple) -> None:
    """Each of them: a part that was frozen in evaluation mode stays so."""
    environment, navigator, episodes, tokens = scene
    expected = evaluate_agent(environment, GreedyAgent(navigator), episodes, tokens)
    for part in navigator.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.9
    navigator.train()
    navigator.critic.eval()
    found = evaluate_agent(environment, GreedyAgent(navigator), episodes, tokens)
    assert torch.equal(found.trajectories.viewpoint, expected.trajectories.viewpoint)
    assert (navigator.training, navigator.backbone.training, navigator.critic.training) == (True, True, False)
