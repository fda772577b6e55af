"""Named experiments, one line of description each, and what data each of them needs."""

from dataclasses import dataclass

NEEDS = {
    "graphs": "connectivity/<scan>_connectivity.json",
    "vocabulary": "vocab.txt of an uncased BERT",
    "r2r": "r2r/R2R_{train,val_seen,val_unseen}.json",
    "augmented": "r2r/prevalent_aug.json",
    "reverie": "reverie/REVERIE_{train,val_seen,val_unseen}.json",
    "boxes": "reverie/BBox/<scan>_<viewpoint>.json",
    "features": "image features in features/, as .hdf5 or 36-view .tsv",
    "captions": "captions/<scan>.json",
}


@dataclass(frozen=True)
class Preset:
    """An experiment by name."""

    name: str
    description: str
    needs: tuple[str, ...]


_R2R = ("graphs", "vocabulary", "r2r")
_REVERIE = ("graphs", "vocabulary", "reverie", "boxes")

PRESETS = (
    Preset("demo", "a tiny navigator in a generated house, which it makes itself", ()),
    Preset(
        "r2r-one-stream",
        "the paper's R2R agent from OSCAR: ResNet features, augmented data",
        (*_R2R, "augmented", "features"),
    ),
    Preset(
        "r2r-two-stream",
        "the paper's R2R agent from PREVALENT: ResNet features, augmented data",
        (*_R2R, "augmented", "features"),
    ),
    Preset("r2r-open", "R2R with open data alone: captions and detections as features", (*_R2R, "captions")),
    Preset("reverie-one-stream", "the paper's REVERIE agent from OSCAR", (*_REVERIE, "features")),
    Preset("reverie-two-stream", "the paper's REVERIE agent from PREVALENT", (*_REVERIE, "features")),
    Preset(
        "reverie-open", "REVERIE with open data alone: captions and object names as features", (*_REVERIE, "captions")
    ),
)
