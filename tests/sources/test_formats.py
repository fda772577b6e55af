"""Versions of formats: none means the first, a newer one is refused."""

from pathlib import Path
from typing import Any

import pytest

from vlnbert.sources.files import format_of

PATH = Path("run.json")


@pytest.mark.parametrize(("document", "version"), [({}, 1), ({"format": 1}, 1), ({"format": 3, "more": 0}, 3)])
def test_known_versions(document: dict[str, Any], version: int) -> None:
    assert format_of(PATH, document, newest=3) == version


def test_a_newer_one_says_what_to_do(refuses: Any) -> None:
    refuses(PATH, lambda: format_of(PATH, {"format": 4}, newest=3), "is of format 4, made by a newer vlnbert")


@pytest.mark.parametrize("found", [0, -1, "2", 1.0, None, True, [1]])
def test_what_is_no_version_is_refused(found: object, refuses: Any) -> None:
    refuses(PATH, lambda: format_of(PATH, {"format": found}, newest=3), "which is no version")
