"""Small trainings in a small house, for the tests and for the processes that they start."""

import fcntl
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import torch

from vlnbert.data.data import open_data
from vlnbert.environment.environment import Environment
from vlnbert.evaluation.metrics import Summary
from vlnbert.features.views import open_features
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.navigator_recipe import NAVIGATOR
from vlnbert.learning.optimisers import AveragedWeights
from vlnbert.learning.run_folder import POINTER, TrainingState, last_checkpoint
from vlnbert.learning.runs import begin_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import SIZES, Navigator, NavigatorConfig
from vlnbert.ranks import ALONE, Ranks
from vlnbert.sources.instructions import read_word_labels, split_words
from vlnbert.sources.layout import open_folder
from vlnbert.sources.writing import LOCK
from vlnbert.tasks.splits import Split, open_split
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.tasks.word_labels import align_words
from vlnbert.world.build import open_world

CONFIG = TrainConfig(
    iterations=24,
    batch=4,
    learning_rate=1e-3,
    validate_every=2,
    max_steps=5,
    schedule="cosine",
    warmup=3,
    report_every=1,
)
SHAPE = replace(SIZES["tiny"]["two-stream"], hidden=24, heads=2, inner=32, hidden_dropout=0.1)
NO_DROPOUT = {name: 0.0 for name in vars(SHAPE) if name.endswith("dropout")}
SCORED = "r2r/val_unseen"
EXPERIMENT = Experiment(validate_on=(SCORED,), navigator=SHAPE, training=replace(CONFIG, iterations=4))


def trainer(
    house: Path,
    run: Path,
    config: TrainConfig = CONFIG,
    ranks: Ranks = ALONE,
    shape: NavigatorConfig = SHAPE,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    **more: Any,
) -> Trainer:
    """A small run on twelve episodes, validated on four; with dropout, so that what is random counts."""
    torch.set_num_threads(1)
    folder = open_folder(house)
    world = open_world(folder, device=device)
    bank, tokenizer = open_features(world, folder.feature_files()[0]), load_tokenizer(folder.vocabulary)

    def split(name: str, count: int) -> Split:
        whole, rows = open_split(folder, world, tokenizer, name), torch.arange(count)
        tokens = replace(whole.tokens, ids=whole.tokens.ids[:count], count=whole.tokens.count[:count])
        return Split(whole.episodes.select(rows), tokens)

    torch.manual_seed(config.seed)
    size = replace(shape, feature_width=bank.width, vocabulary=1 + max(tokenizer.get_vocab().values()))
    navigator = Navigator(size).to(world.device, dtype)
    navigator.tokenizer = tokenizer
    environment, validation = Environment(world, bank), {SCORED: split(SCORED, 4)}
    train = split("r2r/train", 12)
    if config.objective.alignment:
        train, _ = align_words(train, read_word_labels(folder.word_labels), tokenizer, world)
    return Trainer(NAVIGATOR, run, navigator, environment, [train], validation, config, SCORED, "spl", ranks, **more)


def write_labels(house: Path) -> Path:
    """Word labels for a house's r2r/train: each viewpoint has the next two words of an instruction."""
    paths = json.loads((house / "r2r" / "R2R_train.json").read_text())
    labels = {
        str(item["path_id"]): {
            viewpoint: {
                str(number): {"action": [2 * hop], "landmark": [2 * hop + 1]}
                for number, text in enumerate(item["instructions"])
                if len(list(split_words(text))) > 2 * hop + 1
            }
            for hop, viewpoint in enumerate(item["path"])
        }
        for item in paths
    }
    (house / "r2r" / "LAR2R_train.json").write_text(json.dumps(labels))
    return house


class Watcher:
    """Somebody who remembers the losses of every report and the scores of every validation."""

    def __init__(self) -> None:
        self.losses: dict[int, dict[str, float]] = {}
        self.scores: dict[int, Mapping[str, Summary]] = {}

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        self.losses[iteration] = parts

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
        self.scores[iteration] = scores


@contextmanager
def in_use(run: Path) -> Iterator[None]:
    """Another opening of a run's lock is another process's, as far as the lock can tell."""
    with (run / LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Those of a run's last checkpoint, which must be whole."""
    return Navigator.from_pretrained(last_checkpoint(run)).state_dict()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def state_of(navigator: Navigator) -> TrainingState:
    """What a checkpoint keeps of a training that nothing was done in yet."""
    optimiser = torch.optim.AdamW(navigator.parameters())
    return TrainingState(
        navigator, optimiser, list(dict(navigator.named_parameters())), AveragedWeights(navigator, 0.0), {}
    )


def go_on(house: Path, run: Path, ready: Event, config: TrainConfig = CONFIG) -> None:
    """Train to the end, from the last checkpoint if there is one; the body of a process that may be killed."""
    one = trainer(house, run, config)
    if (run / POINTER).exists():
        one.resume()
    ready.set()
    one.train()


def first_gradient_norm(experiment: Experiment, folder: Path, run: Path) -> float:
    """The norm of all gradients of the first update, before they are clipped."""
    torch.set_num_threads(1)
    first = begin_run("first", experiment, open_data(folder), run)
    seen = list[float]()
    first.eager.optimiser.step = lambda: seen.append(
        torch.nn.utils.get_total_norm([weight.grad for weight in first.model.parameters()]).item()
    )
    first.eager.grad_clip = math.inf
    first.advance(0)
    return seen[0]
