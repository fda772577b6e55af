"""The speakers that are trained by name; `presets.py` lists them beside the navigators."""

from dataclasses import replace

from vlnbert.features.spec import NAMES, FeatureSpec
from vlnbert.learning.speaker_experiment import SpeakerExperiment, SpeakerTrainConfig
from vlnbert.speaker import SpeakerConfig
from vlnbert.weights.options import MINILM

# It stops where its perplexity no longer falls. Houses of train decide that: val_unseen is left to the navigators that
# learn from what it writes.
SPEAKER_OPEN = SpeakerExperiment(
    validate_on=("r2r/dev_unseen",),
    best_on="r2r/dev_unseen",
    holdout=6,
    features=FeatureSpec(views="captions,observations"),
    start=MINILM,
    speaker=SpeakerConfig(dropout=0.3),
    training=SpeakerTrainConfig(precision="bfloat16", iterations=2500, ema=0.995),
)
SPEAKER_DEMO = SpeakerExperiment(
    validate_on=("r2r/val_unseen",),
    speaker=SpeakerConfig(hidden=64, heads=4, inner=256, encoder_layers=1, decoder_layers=2, dropout=0.1, max_hops=12),
    training=SpeakerTrainConfig(iterations=400, batch=64, learning_rate=2e-3, warmup=20, validate_every=50),
)


def _speaker_reverie(experiment: SpeakerExperiment) -> SpeakerExperiment:
    """The same speaker for REVERIE: it is shown the object that it shall lead to."""
    return replace(
        experiment,
        train_on=("reverie/train",),
        validate_on=tuple(name.replace("r2r", "reverie") for name in experiment.validate_on),
        best_on=experiment.best_on.replace("r2r", "reverie"),
        features=replace(experiment.features, objects=NAMES, max_objects=20),
    )


SPEAKER_REVERIE_OPEN = _speaker_reverie(SPEAKER_OPEN)
