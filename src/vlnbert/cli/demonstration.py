"""What the demo is made of: a house as tensors, a training in it, agents to compare with."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent, evaluate_navigator
from vlnbert.learning.checkpoints import POINTER
from vlnbert.learning.config import TrainConfig
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.trainer import Split, Trainer
from vlnbert.navigator import Navigator
from vlnbert.navigator.config import named_size
from vlnbert.rollout.baselines import baseline
from vlnbert.sources.house import generate
from vlnbert.sources.layout import open_folder
from vlnbert.tasks import Episodes, load_episodes
from vlnbert.tasks.tokens import Tokens, load_tokenizer, tokenise
from vlnbert.world import World, open_features, open_world

LIMIT = 12  # steps; the longest shortest path of a generated house has six
SPLITS = ("train", "val_unseen")


@dataclass(frozen=True)
class Scene:
    """A generated house, ready to walk."""

    world: World
    environment: Environment
    tokenizer: Tokenizer
    episodes: dict[str, Episodes]
    tokens: dict[str, Tokens]
    width: int  # of the features
    split: str = "val_unseen"

    def evaluate(self, navigator: Navigator) -> Evaluation:
        return evaluate_navigator(
            self.environment, navigator.eval(), self.episodes[self.split], self.tokens[self.split], LIMIT, batch=256
        )

    def pieces(self, row: int) -> list[str]:
        """The word pieces of an instruction after [CLS]."""
        ids = self.tokens[self.split].ids[row, 1 : int(self.tokens[self.split].count[row])]
        return [self.tokenizer.id_to_token(piece) or "" for piece in ids.tolist()]


def open_scene(folder: Path, seed: int, scans: int) -> Scene:
    """Make the house unless it is there already, and open it."""
    if not folder.exists():
        generate(folder, seed=seed, scans=scans)
    data = open_folder(folder)
    world = open_world(data)
    bank, tokenizer = open_features(world, data.feature_files()[0]), load_tokenizer(data.vocabulary)
    episodes = {split: load_episodes(data, world, "r2r", split) for split in SPLITS}
    tokens = {split: tokenise(found, tokenizer, data.split("r2r", split)) for split, found in episodes.items()}
    return Scene(world, Environment(world, bank), tokenizer, episodes, tokens, bank.width)


def start_training(scene: Scene, run: Path, seed: int, iterations: int) -> Trainer:
    """A tiny navigator at the start of its training, or where an earlier demo left it."""
    torch.manual_seed(seed)
    size = named_size("tiny", "two-stream")
    pieces = 1 + max(scene.tokenizer.get_vocab().values())
    navigator = Navigator(replace(size, hidden=64, inner=256, feature_width=scene.width, vocabulary=pieces))
    navigator.tokenizer = scene.tokenizer
    config = TrainConfig(
        iterations=iterations,
        batch=64,
        rate=1e-3,
        schedule="cosine",
        warmup=min(50, iterations),
        clip=5.0,
        limit=LIMIT,
        validate_every=max(1, iterations // 4),
        seed=seed,
        objective=ObjectiveConfig(imitation=1.0, guidance=1.0, value=0.1),
    )
    splits = {name: Split(scene.episodes[name], scene.tokens[name]) for name in SPLITS}
    trainer = Trainer(
        run, navigator, scene.environment, splits["train"], {scene.split: splits[scene.split]}, config, scene.split
    )
    if (run / POINTER).exists():
        trainer.resume()
    return trainer


def random_and_shortest(scene: Scene, seed: int) -> dict[str, Evaluation]:
    """What a navigator must beat, and what nobody can."""
    agents = {name: baseline(name, scene.world, seed) for name in ("random", "shortest")}
    split = scene.episodes[scene.split]
    return {name: evaluate_agent(scene.environment, agent, split, LIMIT) for name, agent in agents.items()}
