"""What the benches of presets share: where they take place, and how a race with the plain way is shown."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from vlnbert.benchmarks.evaluation import EvaluationSpeed
    from vlnbert.benchmarks.training import TrainingSpeed
    from vlnbert.navigator import NavigatorConfig
    from vlnbert.sources.layout import DataFolder
    from vlnbert.tasks.splits import Split
    from vlnbert.world import World


RACED = ("times the plain way", "its spread")  # columns of a table


@dataclass(frozen=True)
class Scene:
    """A world, a split of R2R, and a navigator whose vocabulary covers its words."""

    world: "World"
    split: "Split"
    shape: "NavigatorConfig"


def open_scene(folder: "DataFolder", split: str, shape: "NavigatorConfig", device: "torch.device | str") -> Scene:
    """A split such as r2r/train, and the shape of a navigator that can read it."""
    from dataclasses import replace

    from vlnbert.tasks.splits import open_split
    from vlnbert.tasks.tokens import load_tokenizer, piece_count
    from vlnbert.world import open_world

    world, tokenizer = open_world(folder, device=device), load_tokenizer(folder.vocabulary)
    shape = replace(shape, vocabulary=max(piece_count(tokenizer), shape.vocabulary))
    return Scene(world, open_split(folder, world, tokenizer, split), shape)


def against_plain(speed: "TrainingSpeed | EvaluationSpeed") -> tuple[str, ...]:
    """The cells of a race with the plain way, where there was one."""
    return () if speed.plain is None else (f"{speed.times_plain:.2f}", f"{speed.plain.spread:.0%}")
