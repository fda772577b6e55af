"""Everything that defines the training of a speaker, and the speakers that are trained by name.

A field's docstring is its help on the command line.
"""

from dataclasses import dataclass, field, replace

from vlnbert.features.spec import NAMES, FeatureSpec
from vlnbert.learning.experiment import ExperimentSettings, TrainingSettings
from vlnbert.learning.presets import Preset
from vlnbert.records import require_range
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.weights.options import MINILM

PERPLEXITY = "perplexity"


@dataclass(frozen=True)
class SpeakerTrainConfig(TrainingSettings):
    """The training of a speaker on people's instructions for paths, word by word."""

    iterations: int = 1500
    """Updates of the weights, at most: with patience, training stops when the validation loss no longer falls."""
    batch: int = 192
    """Instructions of an update."""
    learning_rate: float = 4e-4
    """Of the optimiser."""
    schedule: str = "cosine"
    """The learning rate over time: constant; cosine, down to a hundredth; or one by its name."""
    warmup: int = 100
    """Updates over which the learning rate rises from zero."""
    grad_clip: float = 1.0
    """Largest norm of the gradient."""
    validate_every: int = 100
    """Updates between validations, which are also when the run is saved."""
    patience: int = 4
    """Validations without a lower perplexity after which training stops; 0 for never."""
    label_smoothing: float = 0.05
    """The part of each word's label that is shared out over all word pieces."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range(self, 0.0, 0.9, "label_smoothing")


@dataclass(frozen=True)
class SpeakerExperiment(ExperimentSettings):
    """A training of a speaker, whole: with its data folder it makes the same speaker anywhere."""

    RECIPE = "speaker"

    best_on: str = "r2r/val_unseen"
    """The split whose perplexity says which weights are the best."""
    start: str | None = None
    """Words to start from: a BERT, whose word embeddings and vocabulary are taken (file, folder or hub name), or a
    speaker, of which all is. Without any, it starts from random weights and the data's vocabulary."""
    speaker: SpeakerConfig = field(default_factory=SpeakerConfig)
    """The speaker's shape. The widths of features and the vocabulary are read from the data or from the words to start
    from: another value is refused."""
    training: SpeakerTrainConfig = field(default_factory=SpeakerTrainConfig)
    """How it is taught."""

    @property
    def best_metric(self) -> str:
        """The score by which the best weights are chosen; lower is better."""
        return PERPLEXITY


# It stops where its perplexity no longer falls. Houses of train decide that: val_unseen is left to the navigators that
# learn from what it writes.
OPEN = SpeakerExperiment(
    validate_on=("r2r/dev_unseen",),
    best_on="r2r/dev_unseen",
    holdout=6,
    features=FeatureSpec(views="captions,observations"),
    start=MINILM,
    speaker=SpeakerConfig(dropout=0.3),
    training=SpeakerTrainConfig(precision="bfloat16", iterations=2500, ema=0.995),
)
DEMO = SpeakerExperiment(
    validate_on=("r2r/val_unseen",),
    speaker=SpeakerConfig(hidden=64, heads=4, inner=256, encoder_layers=1, decoder_layers=2, dropout=0.1, max_hops=12),
    training=SpeakerTrainConfig(iterations=400, batch=64, learning_rate=2e-3, warmup=20, validate_every=50),
)
# The same speaker for REVERIE: it is shown the object that it shall lead to.
REVERIE_OPEN = replace(
    OPEN,
    train_on=("reverie/train",),
    validate_on=("reverie/dev_unseen",),
    best_on="reverie/dev_unseen",
    features=replace(OPEN.features, objects=NAMES, max_objects=20),
)
PRESETS = (
    Preset("speaker-demo", "a tiny speaker, which describes paths of generated houses", DEMO),
    Preset("speaker-open", "a speaker with open data alone: it turns R2R's paths into instructions", OPEN),
    Preset(
        "speaker-reverie-open",
        "the same for REVERIE: it says where an object is, and which",
        REVERIE_OPEN,
    ),
)
