"""The WordPiece vocabulary of the generated language: its words, and every character, so that nothing is unknown."""

import re
import string
from collections.abc import Iterator

from vlnbert.house import lexicon, phrases

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LEVELS = ("1", "2", "3")


def vocabulary() -> list[str]:
    """One piece a line, the same for every seed."""
    characters = [*string.ascii_lowercase, *string.digits, *".,;:!?'-"]
    pieces = [*SPECIALS, *characters, *(f"##{c}" for c in string.ascii_lowercase + string.digits)]
    return [*pieces, *sorted(words() - set(pieces))]


def words() -> set[str]:
    """Every word that an instruction or a caption can use."""
    names = [*lexicon.KINDS, *lexicon.FURNISHING, lexicon.HALLWAY, lexicon.STAIRS, *lexicon.COLOURS, *lexicon.ORDINALS]
    tables = [value for name, value in vars(phrases).items() if name.isupper()]
    texts = [re.sub(r"\{\w+\}", " ", text) for text in _texts([names, LEVELS, lexicon.SYNONYMS, tables])]
    return {*re.findall(r"[a-z0-9]+", " ".join(texts)), "an", "a", "the"}


def _texts(table: object) -> Iterator[str]:
    """The strings at the ends of nested tables."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, dict):
        yield from _texts(list(table.values()))
    elif isinstance(table, list | tuple):
        for item in table:
            yield from _texts(item)
