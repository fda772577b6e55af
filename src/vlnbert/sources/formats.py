"""Formats carry a version: older ones are understood, newer ones refused with what to do about it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError
from vlnbert.sources.files import FETCH_AGAIN

FORMAT = "format"  # the key under which a document carries its version
FIRST = 1  # that of documents which carry none: they were written before versions were


class NewerFormatError(DataError):
    """A document is whole, and of a format that only a newer program reads."""


def format_of(path: Path, document: Mapping[str, Any], newest: int) -> int:
    """The version of a document's format, from 1 to the newest that this program reads."""
    found = document.get(FORMAT, FIRST)
    if type(found) is not int or found < FIRST:
        raise DataError(path, f"names its format {found!r}, which is no version", FETCH_AGAIN)
    if found > newest:
        problem = f"is of format {found}, made by a newer vlnbert; this one reads up to {newest}"
        raise NewerFormatError(path, problem, "upgrade with: pip install --upgrade vlnbert")
    return found
