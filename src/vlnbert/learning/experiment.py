"""Everything that defines an experiment: where it learns, what sees and decides, and how it is taught."""

from dataclasses import dataclass, field

from vlnbert.errors import UsageError
from vlnbert.learning.config import TrainConfig
from vlnbert.navigator import NavigatorConfig

CAPTIONS = "captions"  # where a feature file could be named


@dataclass(frozen=True)
class Experiment:
    """A training, whole: with its data folder it makes the same navigator anywhere."""

    train_on: tuple[str, ...] = ("r2r/train",)
    """Splits to learn from, as task/split; batches come from each in turn."""
    validate_on: tuple[str, ...] = ("r2r/val_seen", "r2r/val_unseen")
    """Splits to validate on."""
    best_on: str = "r2r/val_unseen"
    """The split whose SPL says which weights are the best."""
    features: str | None = None
    """What views look like: an image feature file, or the word captions for their captions and detected objects. By
    default the only file in the data folder's features/."""
    encoder: str = "all-MiniLM-L6-v2"
    """The BERT that turns captions into features: a folder or a hub name."""
    start: str | None = None
    """Weights to start from (a BERT, OSCAR, PREVALENT, LXMERT or an agent; file, folder or hub name), which then decide
    the navigator's size. Without any, it starts from random ones."""
    tokens: int = 80
    """Longest instruction, in word pieces, [CLS] and [SEP] included."""
    navigator: NavigatorConfig = field(default_factory=NavigatorConfig)
    """The navigator's shape. Feature width and vocabulary are read from the data."""
    training: TrainConfig = field(default_factory=TrainConfig)
    """How it is taught."""

    def __post_init__(self) -> None:
        if not self.train_on:
            raise UsageError("no split to learn from; for example --train-on r2r/train")
        if self.best_on not in self.validate_on:
            raise UsageError(f"the best weights are chosen on {self.best_on}, which is not validated; add it")
