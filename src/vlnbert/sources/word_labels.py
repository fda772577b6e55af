"""LAR2R's word labels, `r2r/LAR2R_train.json`: which words of an instruction are due at each viewpoint of its path.

`{path_id: {viewpoint: {"0": {"action": [0, 1], "landmark": [2, 3]}}}}`: "0" is an instruction of the path, whose words
are counted as `split_words` finds them. At the start they are the first words of the instruction, at the last viewpoint
those that tell to stop; a turn that is labelled is made there (tests/golden/test_word_labels.py).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vlnbert.errors import Faults
from vlnbert.sources.checks import is_list_of
from vlnbert.sources.files import FETCH_AGAIN, opened, read_json
from vlnbert.sources.instructions import LONGEST_TEXT

GET_THEM = (
    "get it with: vlnbert data fetch DIR --only landmarks; a generated house has none: train demo or demo-reverie there"
)
WHAT = "file of word labels"
KINDS = ("action", "landmark")
OWN_NAME = "id"  # a path's key beside its viewpoints

WordLabels = Mapping[str, Mapping[str, tuple[int, ...]]]  # instruction id -> viewpoint -> places of words


class LabelledWords(NamedTuple):
    """The words that are due at a viewpoint, by their places in the instruction."""

    action: tuple[int, ...]
    landmark: tuple[int, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Of both kinds, in order, each once."""
        return tuple(sorted({*self.action, *self.landmark}))

    def before(self, end: int) -> "LabelledWords":
        """Those of its words that lie before a place."""
        return LabelledWords(*(tuple(place for place in places if place < end) for places in self))


def require_word_labels(path: Path) -> Path:
    """The file, which must be there: a training says so before it embeds features for minutes."""
    with opened(path, WHAT, GET_THEM):
        return path


def read_word_labels(path: Path) -> WordLabels:
    """Read and check word labels, by instruction ids such as 4332_0, and in them by viewpoint."""
    found = read_labelled_words(path).items()
    return {name: {viewpoint: words.places for viewpoint, words in said.items()} for name, said in found}


def read_labelled_words(path: Path) -> Mapping[str, Mapping[str, LabelledWords]]:
    """The same, with words of action and of landmark told apart."""
    paths: Any = read_json(path, WHAT, GET_THEM)
    faults, found = Faults(path), dict[str, dict[str, LabelledWords]]()
    for name, viewpoints in _table(paths, "", "paths", faults):
        for viewpoint, labels in _table(viewpoints, f"path {name}", "viewpoints", faults):
            if viewpoint == OWN_NAME:
                continue
            for number, label in _table(labels, f"path {name} viewpoint {viewpoint}", "instructions", faults):
                if _is_label(label):
                    words = LabelledWords(*(tuple(label.get(kind, ())) for kind in KINDS))
                    if words.places:
                        found.setdefault(f"{name}_{number}", {})[viewpoint] = words
                else:
                    problem = f"has no lists of words by {' and '.join(KINDS)}, each from 0 to {LONGEST_TEXT - 1:,}"
                    faults.add(f"path {name} viewpoint {viewpoint} instruction {number}", problem, FETCH_AGAIN)
    if not found and not faults.found:
        faults.add("", "holds no labels", FETCH_AGAIN)
    faults.raise_if_any()
    return found


def split_words(text: str) -> Iterator[tuple[int, int]]:
    """Where each word of an instruction begins and ends, in characters; a punctuation mark is a word."""
    return (match.span() for match in re.finditer(r"\w+|[^\w\s]", text))


def _table(entry: Any, place: str, what: str, faults: Faults) -> Iterator[tuple[str, Any]]:
    """The items of a JSON object; none, and a fault, where it is something else."""
    if isinstance(entry, dict):
        yield from entry.items()
    else:
        faults.add(place, f"is no table of {what}", FETCH_AGAIN)


def _is_label(label: Any) -> bool:
    return (
        isinstance(label, dict)
        and label.keys() <= set(KINDS)
        and all(is_list_of(words, int) for words in label.values())
        and all(0 <= place < LONGEST_TEXT for words in label.values() for place in words)
    )
