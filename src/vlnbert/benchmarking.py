"""How fast this machine trains a preset's navigator and walks a split: `vlnbert bench`.

The weights are random and the features are noise: speed does not depend on them.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import pad

from vlnbert.data.data import Data
from vlnbert.environment.environment import Environment, Observation
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.features.views import facing_views
from vlnbert.house import generate
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.navigator_recipe import NAVIGATOR
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Instruction, Navigator, NavigatorConfig, Step, fast
from vlnbert.rollout.episodes import MAX_STEPS
from vlnbert.rollout.policy import GreedyAgent
from vlnbert.sources.instructions import read_word_labels
from vlnbert.sources.layout import DataFolder, open_folder
from vlnbert.tasks.splits import Split
from vlnbert.tasks.tokens import piece_count
from vlnbert.tasks.word_labels import align_words
from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import World

NEVER = -1e4  # the logit of stopping: never the best nor ever sampled, and yet a number, so that losses are numbers
WARM_UP = 40  # updates before any is timed, on a GPU: most shapes of a batch have then been met twice

Rates = dict[str, float | None]  # by the keys of --json; peak_bytes is None where torch does not count them


@contextmanager
def folder_or_house(folder: Path | None, scans: int = 6) -> Iterator[DataFolder]:
    """A data folder; or that of a generated house of so many scans that lasts as long as the block."""
    with TemporaryDirectory() as temporary:
        if folder is None:
            folder = Path(temporary) / "house"
            generate(folder, seed=0, scans=scans)
        yield open_folder(folder)


@dataclass(frozen=True)
class BenchSetup:
    """A world, a split of R2R, its tokenizer, and the shape of a navigator whose vocabulary covers its words."""

    world: World
    split: Split
    tokenizer: Tokenizer
    shape: NavigatorConfig


def open_setup(
    folder: DataFolder, split: str, shape: NavigatorConfig, device: torch.device | str, aligned: bool = False
) -> BenchSetup:
    """Open a split such as r2r/train; with `aligned`, it has the words to attend to where the folder labels them."""
    data = Data(folder, device=device)
    opened, vocabulary = data.split(split), max(piece_count(data.tokenizer), shape.vocabulary)
    if aligned and folder.word_labels.exists():
        opened, _ = align_words(opened, read_word_labels(folder.word_labels), data.tokenizer, data.world)
    return BenchSetup(data.world, opened, data.tokenizer, replace(shape, vocabulary=vocabulary))


def first_episodes(split: Split, count: int) -> Split:
    """The first so many episodes of a split."""
    return split.select(torch.arange(min(count, len(split.episodes))))


def random_features(world: World, width: int) -> FeatureBank:
    """A bank of random features: speed does not depend on what they show."""
    views = facing_views(world)
    table = torch.randn(views.count + 1, width, device=world.device)
    table[0] = 0
    return FeatureBank(table, views.row)


def random_environment(world: World, width: int, precision: str) -> Environment:
    """A world of random features; a GPU keeps them in the precision that they are used in."""
    kept = torch.bfloat16 if precision == "bfloat16" and world.device.type == "cuda" else torch.float32
    return Environment(world, random_features(world, width).to(world.device, kept))


class NeverStops(Navigator):
    """A navigator that never stops: every walk is as long as its limit, so that the work is the same for all."""

    def step(
        self, state: Tensor, instruction: Instruction, observation: Observation, attention_maps: bool = False
    ) -> Step:
        step = super().step(state, instruction, observation, attention_maps)
        return replace(step, logits=pad(step.logits[:, 1:], (1, 0), value=NEVER))


def time_training(setup: BenchSetup, config: TrainConfig, rounds: int, updates: int) -> Rates:
    """Measure blocks of updates of one batch size, after a warm-up."""
    device, numbers = setup.world.device, count()
    environment = random_environment(setup.world, setup.shape.feature_width, config.precision)
    torch.manual_seed(0)
    navigator = Navigator(setup.shape).to(device)
    # Flips exchange words.
    navigator.tokenizer = setup.tokenizer
    trainer = Trainer(NAVIGATOR, Path(), navigator, environment, [setup.split], {}, config)

    def advance(updates: int) -> None:
        for number in islice(numbers, updates):
            trainer.advance(number)

    advance(WARM_UP if device.type == "cuda" else 1)
    seconds, costs = measure(lambda: advance(updates), rounds, device)
    rate = updates / seconds
    return {"batch": config.batch, "updates_per_second": rate, "episodes_per_second": config.batch * rate, **costs}


def time_evaluation(setup: BenchSetup, batch: int, precision: str, rounds: int) -> Rates:
    """Measure walking and scoring a split by a navigator that never stops before the limit."""
    device, split = setup.world.device, setup.split
    environment = random_environment(setup.world, setup.shape.feature_width, precision)
    torch.manual_seed(0)
    agent = GreedyAgent(NeverStops(setup.shape).to(device).eval())

    def walk() -> None:
        dtype = fast.dtype_of(precision)
        evaluate_agent(environment, agent, split.episodes, split.tokens, MAX_STEPS, batch, dtype=dtype)

    seconds, costs = measure(walk, rounds, device)
    rate = len(split.episodes) / seconds
    rates = {"batch": batch, "seconds": seconds, "episodes_per_second": rate, "steps_per_second": MAX_STEPS * rate}
    return {**rates, **costs}


def measure(run: Callable[[], object], rounds: int, device: torch.device) -> tuple[float, Rates]:
    """Median seconds of a call after one that does not count; half their interquartile range, and memory."""
    on_gpu, seconds = device.type == "cuda", list[float]()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(1 + rounds):
        begin = time.perf_counter()
        run()
        if on_gpu:
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - begin)
    low, median, high = statistics.quantiles(seconds[1:], n=4)
    peak = torch.cuda.max_memory_allocated(device) if on_gpu else None
    return median, {"spread": (high - low) / 2 / median, "peak_bytes": peak}
