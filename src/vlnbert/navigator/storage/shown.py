"""What a network was shown in its training, as its config.json says it: plain values by the names of a `FeatureSpec`.

What they mean is for `vlnbert.data` to know; here they are read with care and told in words.
"""

from pathlib import Path, PurePosixPath
from typing import Any

from vlnbert.errors import DataError
from vlnbert.navigator.model.config import LARGEST

FEATURES = "features"  # the part of a config.json
WORDS, SIZES = ("views", "objects", "encoder"), ("view_width", "object_width", "max_objects")
LONGEST = 4096  # characters of a word, as of a path
NONE = "off"  # the word for objects that are not shown
ONLY = "of the only feature file"  # what is seen where nothing was said

Shown = dict[str, str | int]  # by name; where nothing was said there is none


def read_shown(path: Path, said: Any, whose: str, remedy: str) -> Shown:
    """The values that a config.json has for what `whose` network was shown; names of other versions are left out."""
    if not isinstance(said, dict):
        raise DataError(path, f"does not say what the {whose} was shown", remedy, FEATURES)
    known = {name: said[name] for name in (*WORDS, *SIZES) if said.get(name) is not None}
    for name, value in known.items():
        if problem := _word_problem(value) if name in WORDS else _size_problem(value):
            place = f"{FEATURES}.{name}"
            raise DataError(path, f"does not say what the {whose} was shown, but {problem}", remedy, place)
    return known


def require_no_path(path: Path, shown: Shown, remedy: str) -> None:
    """Refuse words that lead out of the folders in which features and encoders are looked for."""
    for name in WORDS:
        word = shown.get(name)
        if isinstance(word, str) and (word.startswith(("/", "~")) or ".." in PurePosixPath(word).parts):
            raise DataError(path, f"names a path, {word!r:.60}", remedy, f"{FEATURES}.{name}")


def describe_shown(shown: Shown) -> str:
    """In words: views captions,observations; objects names, at most 20; encoder all-MiniLM-L6-v2."""
    parts = [f"views {shown.get('views', ONLY)}{_cut(shown, 'view_width')}"]
    if shown.get("objects") != NONE:
        most = f", at most {shown['max_objects']}" if "max_objects" in shown else ""
        parts.append(f"objects {shown.get('objects', ONLY)}{_cut(shown, 'object_width')}{most}")
    if "encoder" in shown:
        parts.append(f"encoder {shown['encoder']}")
    return "; ".join(parts)


def _cut(shown: Shown, width: str) -> str:
    return f", {shown[width]} wide" if width in shown else ""


def _word_problem(value: object) -> str:
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    if len(value) > LONGEST:
        return f"{len(value):,} characters"
    return "" if value and value.isprintable() else f"{value!r:.60}"


def _size_problem(value: object) -> str:
    return "" if type(value) is int and 1 <= value <= LARGEST else f"{value!r:.60}"
