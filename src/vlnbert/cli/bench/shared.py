"""What the benches share: the data they take place in, and how a race with the plain way is shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

    from vlnbert.benchmarks.evaluation import EvaluationSpeed
    from vlnbert.benchmarks.training import TrainingSpeed
    from vlnbert.learning.experiment import TrainConfig
    from vlnbert.navigator import NavigatorConfig
    from vlnbert.sources.layout import DataFolder
    from vlnbert.tasks.splits import Split
    from vlnbert.world import FeatureBank, World

MOST = 1_000_000
RACED = ("times the plain way", "its spread")  # columns of a table


@contextmanager
def folder_or_house(folder: Path | None, scans: int = 6) -> Iterator["DataFolder"]:
    """A data folder; or that of a house of so many scans that lasts as long as the block."""
    from tempfile import TemporaryDirectory

    from vlnbert.house import generate
    from vlnbert.sources.layout import open_folder

    with TemporaryDirectory() as temporary:
        if folder is None:
            folder = Path(temporary) / "house"
            generate(folder, seed=0, scans=scans)
        yield open_folder(folder)


@contextmanager
def opened_world(folder: Path | None) -> Iterator[tuple["DataFolder", "World", "FeatureBank"]]:
    """A data folder, its world and its features."""
    from vlnbert.features.views import open_features, open_labels
    from vlnbert.world import open_world

    with folder_or_house(folder) as opened:
        world = open_world(opened)
        files = opened.feature_files()
        bank = open_features(world, files[0]) if files else open_labels(world, opened.captions)[0]
        yield opened, world, bank


@dataclass(frozen=True)
class BenchSetup:
    """A world, a split of R2R, its tokenizer, and a navigator whose vocabulary covers its words."""

    world: "World"
    split: "Split"
    tokenizer: "Tokenizer"
    shape: "NavigatorConfig"


def open_setup(
    folder: "DataFolder", split: str, shape: "NavigatorConfig", device: "torch.device | str", aligned: bool = False
) -> BenchSetup:
    """A split such as r2r/train, and the shape of a navigator that can read it.

    With `aligned` it has the words to attend to, where the folder has labels of them.
    """
    from dataclasses import replace

    from vlnbert.sources.instructions import read_word_labels
    from vlnbert.tasks.splits import open_split
    from vlnbert.tasks.tokens import load_tokenizer, piece_count
    from vlnbert.tasks.word_labels import align_words
    from vlnbert.world import open_world

    world, tokenizer = open_world(folder, device=device), load_tokenizer(folder.vocabulary)
    shape = replace(shape, vocabulary=max(piece_count(tokenizer), shape.vocabulary))
    opened = open_split(folder, world, tokenizer, split)
    if aligned and folder.word_labels.exists():
        opened, _ = align_words(opened, read_word_labels(folder.word_labels), tokenizer, world)
    return BenchSetup(world, opened, tokenizer, shape)


def in_one_split(training: "TrainConfig") -> "TrainConfig":
    """The same updates, all of them of one split."""
    from dataclasses import replace

    return replace(training, split_weights=(), final_split_weights=())


def against_plain(speed: "TrainingSpeed | EvaluationSpeed") -> tuple[str, ...]:
    """The cells of a race with the plain way, where there was one."""
    return () if speed.plain is None else (f"{speed.times_plain:.2f}", f"{speed.plain.spread:.0%}")
