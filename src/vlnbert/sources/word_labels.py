"""LAR2R's word labels, `r2r/LAR2R_train.json`: which words of an instruction lead to each viewpoint of its path.

`{path_id: {viewpoint: {"0": {"action": [0, 1], "landmark": [2, 3]}}}}`: words are counted as `split_words` finds them.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vlnbert.errors import Faults
from vlnbert.sources.checks import is_list_of, is_text
from vlnbert.sources.files import FETCH_AGAIN, read_json

KINDS = ("action", "landmark")
OWN_NAME = "id"  # a path's key beside its viewpoints
MOST_WORDS = 10_000  # of an instruction

WordLabels = Mapping[str, Mapping[str, tuple[int, ...]]]  # instruction id -> viewpoint -> places of words


class LabelledWords(NamedTuple):
    """The words that lead to a viewpoint, by their places in the instruction."""

    action: tuple[int, ...]
    landmark: tuple[int, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Of both kinds, in order, each once."""
        return tuple(sorted({*self.action, *self.landmark}))

    def before(self, end: int) -> "LabelledWords":
        """Those of its words that lie before a place."""
        return LabelledWords(*(tuple(place for place in places if place < end) for places in self))


def read_word_labels(path: Path) -> WordLabels:
    """Read and check word labels, by instruction ids such as 4332_0, and in them by viewpoint."""
    found = read_labelled_words(path).items()
    return {name: {viewpoint: words.places for viewpoint, words in said.items()} for name, said in found}


def read_labelled_words(path: Path) -> Mapping[str, Mapping[str, LabelledWords]]:
    """The same, with words of action and of landmark told apart."""
    paths: Any = read_json(path, "file of word labels", "get it with: vlnbert data fetch DIR --only landmarks")
    faults, found = Faults(path), dict[str, dict[str, LabelledWords]]()
    if not isinstance(paths, dict):
        faults.add("", "is no table of paths", FETCH_AGAIN)
        paths = {}
    for name, viewpoints in paths.items():
        if not isinstance(viewpoints, dict):
            faults.add(f"path {name}", "is no table of viewpoints", FETCH_AGAIN)
            continue
        for viewpoint, labels in viewpoints.items():
            if viewpoint == OWN_NAME:
                continue
            if not isinstance(labels, dict) or not all(map(_is_label, labels.values())):
                kinds = " and ".join(KINDS)
                faults.add(f"path {name} viewpoint {viewpoint}", f"has no lists of words for {kinds}", FETCH_AGAIN)
                continue
            for number, label in labels.items():
                words = LabelledWords(*(tuple(label.get(kind, ())) for kind in KINDS))
                found.setdefault(f"{name}_{number}", {})[viewpoint] = words
    faults.raise_if_any()
    return found


def split_words(text: str) -> Iterator[tuple[int, int]]:
    """Where each word of an instruction begins and ends, in characters; a punctuation mark is a word."""
    return (match.span() for match in re.finditer(r"\w+|[^\w\s]", text))


def _is_label(label: Any) -> bool:
    return (
        isinstance(label, dict)
        and all(is_text(kind) and kind in KINDS for kind in label)
        and all(is_list_of(words, int) and all(0 <= word < MOST_WORDS for word in words) for words in label.values())
    )
