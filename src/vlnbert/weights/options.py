"""What one may ask of an import; what is not asked for is read from the weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Options:
    """The navigator that the weights shall become."""

    backbone: Literal["one-stream", "two-stream"] | None = None
    """The backbone to fill. A plain BERT serves either (one-stream unless asked); other weights bring their own."""
    heads: int | None = None
    """Attention heads. Weights do not tell; without a config.json beside them the usual number is assumed."""
    layers: int | None = None
    """Layers, or language layers of a two-stream navigator, to take from the bottom; all of them by default. Of a plain
    BERT for a two-stream navigator, as many as the named size of its width has: 9 of 12 in the paper's."""
    cross_layers: int | None = None
    """Cross-modal layers of a two-stream navigator. Of a plain BERT they are filled from its topmost layers: by default
    as many as the named size of its width has (4 in the paper's), else 3."""
    feature_width: int | None = None
    """Width of a view's feature: 2048 unless the weights say otherwise."""
    angle_width: int | None = None
    """Width of a direction: 128 unless the weights say otherwise."""
    object_width: int | None = None
    """Width of an object's feature, for a navigator that sees objects (REVERIE)."""
    matching: Literal["cross-modal", "visual", "off"] | None = None
    """What refines the state: attended words times views (R2R, the default), the views alone (REVERIE), or nothing."""
    language_attention: Literal["once", "embeddings", "initial", "previous"] | None = None
    """When words attend to each other: once (the default), or at every step. One-stream only."""
    vocabulary: Path | None = None
    """A vocab.txt or tokenizer.json to keep with the navigator; by default the one that lies beside the weights."""
    seed: int = 0
    """Chooses the values of whatever the weights do not hold."""
