"""Toys that a learner of REVERIE must solve, and cannot solve without the part that each is about."""

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from tests.learning.objectives import collected, navigation_objective
from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent
from vlnbert.features.objects import open_object_features
from vlnbert.features.views import facing_views, open_features
from vlnbert.house import generate
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.rewards import PaperReward, RewardConfig
from vlnbert.navigator import SIZES, Navigator
from vlnbert.rollout.mixed import TEACHER, MixedAgent, keys
from vlnbert.rollout.policy import GreedyAgent
from vlnbert.sources.annotations import BoxedObject, ViewpointObjects
from vlnbert.sources.connectivity import ScanGraph
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.sources.layout import open_folder
from vlnbert.tasks.batches import Tokens, load_tokenizer, take
from vlnbert.tasks.episodes import bind
from vlnbert.tasks.splits import Split, open_split, target_index
from vlnbert.world.banks import FeatureBank
from vlnbert.world.build import build_world, open_world
from vlnbert.world.objects import ObjectBank, build_object_table, find_sightings, open_object_table

LIMIT = 8
SEED = 0


@dataclass(frozen=True)
class Scene:
    """Somewhere to learn, and somewhere to be asked."""

    environment: Environment
    pieces: int  # of the vocabulary
    train: Split
    asked: Split

    def without_objects(self) -> "Scene":
        blind = Environment(self.environment.world, self.environment.view_bank)
        return replace(self, environment=blind, train=replace(self.train, target=None))


def learned(scene: Scene, updates: int, grounding: float = 1.0, seed: int = SEED) -> Evaluation:
    """What a tiny navigator does that followed the teacher through all episodes, some times over."""
    environment, train = scene.environment, scene.train
    torch.manual_seed(seed)
    widths = {"feature_width": environment.view_bank.width, "vocabulary": scene.pieces}
    widths["object_width"] = environment.object_bank.width if environment.object_bank is not None else 0
    shape = replace(SIZES["tiny"]["two-stream"], hidden=48, inner=96, matching="visual", **widths)
    navigator = Navigator(replace(shape, feature_dropout=0.0, critic_dropout=0.0))
    optimiser, rewards = (
        torch.optim.AdamW(navigator.parameters(), lr=2e-3),
        PaperReward(environment.world, RewardConfig()),
    )
    rows = torch.arange(len(train.episodes))
    how, weights = torch.full_like(rows, TEACHER), ObjectiveConfig(imitation=1.0, grounding=grounding)
    batch = take(train.episodes, train.tokens, rows, train.tokens.ids.shape[1], train.target)
    for update in range(updates):
        agent = MixedAgent(navigator, environment, batch.tokens, how, keys(seed, update, rows), LIMIT)
        rollout = collected(environment, agent, batch.start, batch.heading, batch.goal, target=batch.target)
        reward = rewards(rollout, batch)
        loss = navigation_objective(rollout, how, reward, weights)
        optimiser.zero_grad()
        loss.total.backward()
        torch.nn.utils.clip_grad_norm_(navigator.parameters(), 5.0)
        optimiser.step()
    return evaluate_agent(environment, GreedyAgent(navigator.eval()), scene.asked.episodes, scene.asked.tokens, LIMIT)


def house(folder: Path) -> Scene:
    """24 requests in a generated house, to be learned by heart: the words name the room, and the object in it."""
    generate(folder, scans=3, paths_per_scan=20)
    data = open_folder(folder)
    world, tokenizer = open_world(data), load_tokenizer(data.vocabulary)
    objects, _ = open_object_features(world, open_object_table(world, data.boxes), data.object_feature_files()[0])
    environment = Environment(world, open_features(world, data.feature_files()[0]), objects)
    whole = open_split(data, world, tokenizer, "reverie/train", visible=objects.object_table)
    rows = torch.arange(0, 48, 2)
    tokens = Tokens(whole.tokens.ids[rows], whole.tokens.count[rows])
    some = Split(whole.episodes.select(rows), tokens, whole.target[rows])
    return Scene(environment, tokenizer.get_vocab_size(), some, some)


ROOMS, KINDS, CORRIDORS, SEEN = 5, 8, 16, 12
CLS, SEP, FIRST = 1, 2, 3  # tokens; those of the kinds follow


def corridors() -> Scene:
    """Corridors of rooms that look alike but for the objects: one of each kind, two in every room after the first.

    Episodes start in the first room and ask for a kind: who sees no objects cannot know where to stop. Some of the
    corridors are walked only when all is learned.
    """
    rng, names = Random(0), tuple(f"r{room}" for room in range(ROOMS))
    near = np.abs(np.subtract.outer(range(ROOMS), range(ROOMS))) == 1
    places = np.array([[0, 3 * room, 0] for room in range(ROOMS)], dtype=np.float64)
    scans = [f"corridor{number:02}" for number in range(CORRIDORS)]
    world = build_world([ScanGraph(scan, names, places, near) for scan in scans])
    shown, records = list[ViewpointObjects](), list[EpisodeRecord]()
    for scan in scans:
        kinds = rng.sample(range(KINDS), KINDS)
        for room in range(1, ROOMS):
            here = [str(kind) for kind in kinds[2 * room - 2 : 2 * room]]
            things = tuple(BoxedObject(kind, kind, (rng.randrange(36),), ((9, 9, 90, 90),)) for kind in here)
            shown.append(ViewpointObjects(scan, names[room], things, Path()))
            records += [EpisodeRecord(f"{scan}_{kind}", scan, names[: room + 1], 0.0, kind, kind) for kind in here]
    objects = build_object_table(world, shown, Path())
    kind = torch.tensor([int(id) for id in objects.ids])
    views = facing_views(world)
    bank = FeatureBank(torch.ones(views.count + 1, 1), views.row)
    environment = Environment(world, bank, ObjectBank.from_codebook(objects, torch.eye(KINDS), kind))
    sightings, seen = find_sightings(world, objects), SEEN * KINDS

    def split(some: list[EpisodeRecord]) -> Split:
        episodes = bind(Path(), some, world, "reverie", "toy", sightings)
        words = [[CLS, FIRST + int(text), SEP] for text in episodes.texts]
        tokens = Tokens(torch.tensor(words), torch.full((len(words),), 3))
        return Split(episodes, tokens, target_index(objects, episodes))

    return Scene(environment, FIRST + KINDS, split(records[:seen]), split(records[seen:]))


def luck(scene: Scene) -> float:
    """How often a guess among the objects of the goal is right."""
    return float((1 / scene.environment.object_bank.count[scene.asked.episodes.goal]).mean())


@pytest.mark.slow
def test_objects_are_named_when_naming_them_is_taught(tmp_path: Path) -> None:
    """Of 24 requests learned by heart: the way is found without the grounding loss, the objects are not."""
    scene = house(tmp_path / "house")
    taught, untaught = learned(scene, 50).scores, learned(scene, 50, grounding=0.0).scores
    assert luck(scene) < 0.25
    assert taught.sr.mean() >= 0.95
    assert taught.rgs.mean() >= 0.9
    assert untaught.sr.mean() >= 0.95
    assert untaught.rgs.mean() <= 0.5


@pytest.mark.slow
def test_who_sees_objects_knows_where_to_stop() -> None:
    """In corridors never walked before, among rooms that nothing else tells apart."""
    scene = corridors()
    seeing, blind = learned(scene, 60).scores, learned(scene.without_objects(), 60).scores
    assert seeing.sr.mean() >= 0.9
    assert seeing.rgs.mean() >= 0.9
    assert blind.sr.mean() <= 0.5
    assert blind.rgs.mean() == 0.0
