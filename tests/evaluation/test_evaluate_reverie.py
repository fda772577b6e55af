"""What navigators name in REVERIE: the best real object in view where they stop, or where their steps are spent."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import evaluate_agent, score_file
from vlnbert.evaluation.results import write_results
from vlnbert.features.objects import open_object_features
from vlnbert.features.views import open_features
from vlnbert.house import generate
from vlnbert.navigator import SIZES, Navigator
from vlnbert.rollout.baselines import Shortest
from vlnbert.rollout.policy import GreedyAgent
from vlnbert.sources.layout import DataFolder, open_folder
from vlnbert.tasks.episodes import Episodes, load_episodes
from vlnbert.tasks.tokens import Tokens, load_tokenizer, tokenise
from vlnbert.world.build import open_world
from vlnbert.world.objects import open_object_table

LIMIT = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    root = tmp_path_factory.mktemp("reverie") / "house"
    generate(root, scans=3, paths_per_scan=8)
    return open_folder(root)


@dataclass(frozen=True)
class Scene:
    environment: Environment
    navigator: Navigator
    episodes: Episodes
    tokens: Tokens

    def named(self, limit: int = LIMIT, batch: int = 64) -> list[str | None]:
        return evaluate_agent(
            self.environment, GreedyAgent(self.navigator), self.episodes, self.tokens, limit, batch
        ).predicted_objects

    def select(self, rows: torch.Tensor) -> "Scene":
        tokens = Tokens(self.tokens.ids[rows], self.tokens.count[rows])
        return replace(self, episodes=self.episodes.select(rows), tokens=tokens)


@pytest.fixture
def scene(folder: DataFolder) -> Scene:
    world, tokenizer = open_world(folder), load_tokenizer(folder.vocabulary)
    bank = open_features(world, folder.feature_files()[0])
    objects, _ = open_object_features(world, open_object_table(world, folder.boxes), folder.object_feature_files()[0])
    torch.manual_seed(6)  # one that happens upon a target
    widths = {"feature_width": bank.width, "object_width": objects.width, "vocabulary": tokenizer.get_vocab_size()}
    navigator = Navigator(replace(SIZES["tiny"]["two-stream"], matching="visual", **widths)).eval().double()
    with torch.no_grad():
        for name, weight in navigator.named_parameters():
            if "norm" not in name:
                weight.mul_(4)  # decided, each in its own way
    episodes = load_episodes(folder, world, "reverie", "train")
    return Scene(
        Environment(world, bank, objects), navigator, episodes, tokenise(episodes, tokenizer, folder.vocabulary)
    )


@torch.inference_mode()
def plain_walk(scene: Scene, row: int, limit: int) -> tuple[str, str | None]:
    """How an episode ends and what is named in it, looking an object up by its row in the world's tables."""
    environment, episodes = scene.environment, scene.episodes
    objects = environment.object_bank.object_table
    tokens = scene.tokens.ids[row : row + 1, : int(scene.tokens.count[row])]
    instruction = scene.navigator.encode(tokens, tokens != 0)
    state, hidden = environment.reset(episodes.start[row : row + 1], episodes.heading[row : row + 1]), instruction.state
    ending = "limit"
    for time in range(limit + 1):
        step = scene.navigator.step(hidden, instruction, environment.observe(state))
        hidden, instruction = step.state, step.instruction
        here = (objects.viewpoint == state.viewpoint).nonzero().flatten().tolist()
        scores = {objects.ids[number]: float(step.object_logits[0, place]) for place, number in enumerate(here)}
        nothing = float(step.object_logits[0, -1])
        stops = max([nothing, *scores.values()]) >= float(step.logits[0, 1:].max())
        if stops or time == limit:
            ending = "stop" if stops and time < limit else "limit"
            break
        state = environment.step(state, step.logits.argmax(dim=1))
    best = max(scores, key=scores.__getitem__, default=None)
    kind = "none" if best is None else "object" if scores[best] > nothing else "no object above it"
    return f"{ending} {kind}", best


def test_they_name_the_best_real_object(scene: Scene) -> None:
    """Also where "no object" scores higher: a submission that names nothing could only lose."""
    kinds = set()
    for limit in (1, 2, LIMIT):
        found = scene.named(limit)
        for row in range(len(scene.episodes)):
            kind, name = plain_walk(scene, row, limit)
            assert found[row] == name, (row, kind)
            kinds.add(kind)
    endings, outcomes = ("stop", "limit"), ("none", "object", "no object above it")
    assert kinds == {f"{ending} {outcome}" for ending in endings for outcome in outcomes}, "all cases occur"


def test_a_result_file_scores_what_the_evaluation_says(scene: Scene, tmp_path: Path) -> None:
    """And names nothing, null, only where nothing is visible."""
    evaluated = evaluate_agent(scene.environment, GreedyAgent(scene.navigator), scene.episodes, scene.tokens, LIMIT)
    walked, world = evaluated.trajectories, scene.environment.world
    write_results(tmp_path / "results.json", scene.episodes, world, walked, evaluated.predicted_objects)
    scored = score_file(tmp_path / "results.json", scene.episodes, world)
    assert scored.summary == evaluated.scores.summary()
    assert scored.summary["rgs"] > 0
    shown = scene.environment.object_bank.object_table.count[walked.viewpoint[:, -1]].tolist()
    items = json.loads((tmp_path / "results.json").read_text())
    assert [item["predObjId"] is None for item in items] == [count == 0 for count in shown]
    assert 0 in shown


def test_what_is_named_is_visible_where_they_end(scene: Scene) -> None:
    result = evaluate_agent(scene.environment, GreedyAgent(scene.navigator), scene.episodes, scene.tokens, LIMIT)
    objects = scene.environment.object_bank.object_table
    for where, name in zip(result.trajectories.viewpoint[:, -1].tolist(), result.predicted_objects, strict=True):
        assert name is None or objects.index(where, name) >= 0


def test_grounding_is_to_name_the_target(scene: Scene) -> None:
    """Wherever one stops; nobody asks for nothing."""
    named = scene.named()
    asked = tuple(name if row % 2 else "none such" for row, name in enumerate(named))
    episodes = replace(scene.episodes, targets=asked)
    scores = evaluate_agent(scene.environment, GreedyAgent(scene.navigator), episodes, scene.tokens, LIMIT).scores
    expected = [row % 2 == 1 and name is not None for row, name in enumerate(named)]
    assert scores.rgs.tolist() == expected
    assert 0 < sum(expected) < len(named) // 2


@pytest.mark.parametrize("batch", [1, 7])
def test_batches_change_nothing(scene: Scene, batch: int) -> None:
    assert scene.named(batch=batch) == scene.named()


def test_their_order_changes_nothing(scene: Scene) -> None:
    order = torch.randperm(len(scene.episodes), generator=torch.Generator().manual_seed(0))
    found = scene.named()
    assert scene.select(order).named(batch=5) == [found[row] for row in order.tolist()]


def test_room_for_more_objects_changes_nothing(scene: Scene) -> None:
    wide = replace(scene.environment.object_bank, fixed=True)
    environment = Environment(scene.environment.world, scene.environment.view_bank, wide)
    assert replace(scene, environment=environment).named() == scene.named()


def test_success_is_to_see_the_target(scene: Scene) -> None:
    result = evaluate_agent(scene.environment, GreedyAgent(scene.navigator), scene.episodes, scene.tokens, LIMIT)
    seen = [
        int(where) in places
        for where, places in zip(result.trajectories.viewpoint[:, -1], scene.episodes.sightings.tolist(), strict=True)
    ]
    assert result.scores.sr.tolist() == seen
    assert 0 < sum(seen) < len(seen)


def test_who_names_no_object_grounds_nothing(scene: Scene) -> None:
    """Not even the first of those in view, which some were asked for."""
    result = evaluate_agent(scene.environment, Shortest(scene.environment), scene.episodes)
    objects, ends = scene.environment.object_bank.object_table, result.trajectories.viewpoint[:, -1]
    assert torch.equal(ends, scene.episodes.goal)
    first = objects.ids_at(ends, torch.zeros_like(ends))
    assert any(name == target for name, target in zip(first, scene.episodes.targets, strict=True))
    assert result.predicted_objects is None
    assert result.scores.rgs.tolist() == [0.0] * len(scene.episodes)


def test_in_r2r_nothing_is_named(scene: Scene, folder: DataFolder) -> None:
    """The same navigator in the same environment, asked to go somewhere."""
    episodes = load_episodes(folder, scene.environment.world, "r2r", "val_unseen")
    tokens = tokenise(episodes, load_tokenizer(folder.vocabulary), folder.vocabulary)
    result = evaluate_agent(scene.environment, GreedyAgent(scene.navigator), episodes, tokens, LIMIT)
    assert result.predicted_objects is None
    assert result.scores.summary()["rgs"] is None
    plain = Environment(scene.environment.world, scene.environment.view_bank)
    alone = evaluate_agent(plain, GreedyAgent(scene.navigator), episodes, tokens, LIMIT)
    assert torch.equal(result.trajectories.viewpoint, alone.trajectories.viewpoint)
