"""Everything that defines an experiment: where it learns, what sees and decides, and how it is taught."""

from dataclasses import dataclass, field

from vlnbert.errors import UsageError
from vlnbert.learning.config import TrainConfig
from vlnbert.navigator import NavigatorConfig
from vlnbert.tasks.splits import task_and_split

CAPTIONS = "captions"  # where a feature file could be named
NAMES, OFF = "names", "off"  # where a file of object features could


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
    feature_width: int | None = None
    """How many numbers of an image feature to use, the first ones: some files append class scores. All by default."""
    objects: str | None = None
    """What REVERIE's objects look like: a feature file, the word names for their names and the captions of the views
    that show them, or off to see none. By default the only such file in the data folder's features/."""
    most_objects: int | None = None
    """Objects that a viewpoint shows at most, those with the largest boxes; all of them by default."""
    encoder: str = "all-MiniLM-L6-v2"
    """The BERT that turns captions and names into features: a folder or a hub name."""
    start: str | None = None
    """Weights to start from (a BERT, OSCAR, PREVALENT, LXMERT or an agent; file, folder or hub name), which then decide
    the navigator's size. Without any, it starts from random ones."""
    tokens: int | None = None
    """Longest instruction, in word pieces, [CLS] and [SEP] included; by default 80 in R2R and 50 in REVERIE."""
    navigator: NavigatorConfig = field(default_factory=NavigatorConfig)
    """The navigator's shape. The widths of features and the vocabulary are read from the data; with weights to start
    from, so are all sizes from those."""
    training: TrainConfig = field(default_factory=TrainConfig)
    """How it is taught."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it learns or is validated on, each once."""
        return tuple(dict.fromkeys((*self.train_on, *self.validate_on)))

    @property
    def tasks(self) -> tuple[str, ...]:
        """Their tasks."""
        return tuple(dict.fromkeys(task_and_split(name)[0] for name in self.splits))

    def __post_init__(self) -> None:
        if not self.train_on:
            raise UsageError("no split to learn from; for example --train-on r2r/train")
        if self.best_on not in self.validate_on:
            raise UsageError(f"the best weights are chosen on {self.best_on}, which is not validated; add it")
