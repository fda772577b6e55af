"""Features that a network was trained with, as its config.json has them: plain values by names of a `FeatureSpec`.

Their meaning is for `vlnbert.features`; here they are checked, since a stranger may have written them, and described.
"""

from pathlib import Path, PurePosixPath
from typing import Any

from vlnbert.errors import DataError
from vlnbert.navigator.model.config import LARGEST

FEATURES = "features"  # the part of a config.json
WORDS, SIZES = ("views", "objects", "encoder"), ("view_width", "object_width", "max_objects")
LONGEST = 4096  # characters of a word, as of a path
NONE = "off"  # as objects: none are shown
ONLY = "of the only feature file"  # what is seen where no features are named

Shown = dict[str, str | int]  # by name; defaults are left out


def read_shown(path: Path, said: Any, whose: str, remedy: str) -> Shown:
    """Check the features in a config.json of `whose` network; names of other versions are left out."""
    if not isinstance(said, dict):
        raise DataError(path, f"does not say what the {whose} was shown", remedy, FEATURES)
    known = {name: said[name] for name in (*WORDS, *SIZES) if said.get(name) is not None}
    for name, value in known.items():
        if problem := _problem(name, value):
            place = f"{FEATURES}.{name}"
            raise DataError(path, f"does not say what the {whose} was shown, but {problem}", remedy, place)
    return known


def _problem(name: str, value: object) -> str:
    if name in SIZES:
        return "" if type(value) is int and 1 <= value <= LARGEST else f"{value!r:.60}"
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    if len(value) > LONGEST:
        return f"{len(value):,} characters"
    return "" if value and value.isprintable() else f"{value!r:.60}"


def require_no_path(path: Path, shown: Shown, remedy: str) -> None:
    """Refuse words that lead out of the folders in which features and encoders are looked for."""
    for name in WORDS:
        word = shown.get(name)
        if isinstance(word, str) and (word.startswith(("/", "~")) or ".." in PurePosixPath(word).parts):
            raise DataError(path, f"names a path, {word!r:.60}", remedy, f"{FEATURES}.{name}")


def describe_shown(shown: Shown) -> str:
    """In words: views captions,observations; objects names, at most 20; encoder all-MiniLM-L6-v2."""
    wide = {name: f", {shown[name]} wide" if name in shown else "" for name in SIZES}
    parts = [f"views {shown.get('views', ONLY)}{wide['view_width']}"]
    if shown.get("objects") != NONE:
        most = f", at most {shown['max_objects']}" if "max_objects" in shown else ""
        parts.append(f"objects {shown.get('objects', ONLY)}{wide['object_width']}{most}")
    if "encoder" in shown:
        parts.append(f"encoder {shown['encoder']}")
    return "; ".join(parts)
