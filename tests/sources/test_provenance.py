"""Who told an augmented file: written beside it, read again, and refused in one line where it is damaged."""

import json
from pathlib import Path
from typing import Any

import pytest

from vlnbert.errors import DataError
from vlnbert.sources.files import MEGABYTE
from vlnbert.sources.instructions import Provenance, provenance_file, read_provenance, write_provenance


@pytest.fixture
def told(tmp_path: Path) -> Path:
    file = tmp_path / "r2r.told_aug.json"
    file.write_text("[]\n")
    return file


def known(**changes: Any) -> Provenance:
    values: dict[str, Any] = {
        **{"speaker": "mine", "held_out": ("a", "b"), "decoding": {"method": "nucleus", "seed": 1}},
        **{"paths": 3, "tellings": 2, "instructions": 5, "keep_followed": None, "bytes": 3},
    }
    return Provenance(**(values | changes))


@pytest.mark.parametrize("houses", [("a", "b"), (), None])
def test_what_is_written_is_read(told: Path, houses: tuple[str, ...] | None) -> None:
    assert read_provenance(told) is None
    write_provenance(told, known(held_out=houses, keep_followed="people"))
    assert provenance_file(told).name == "r2r.told_aug.about.json"
    assert json.loads(provenance_file(told).read_text())["format"] == 1
    assert read_provenance(told) == known(held_out=houses, keep_followed="people")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"speaker": 7}, "says 7 of 'speaker'"),
        ({"speaker": "x" * 1001}, "of 'speaker'"),
        ({"speaker": None}, "says None of 'speaker'"),
        ({"held_out": "a"}, "says 'a' of 'held_out'"),
        ({"held_out": ["a", 7]}, "of 'held_out'"),
        ({"held_out": ["\ud800"]}, "of 'held_out'"),
        ({"decoding": []}, r"says \[\] of 'decoding'"),
        ({"tellings": True}, "says True of 'tellings'"),
        ({"paths": -1}, "says -1 of 'paths'"),
        ({"instructions": 10**30}, "of 'instructions'"),
        ({"keep_followed": {}}, "of 'keep_followed'"),
        ({"bytes": 4}, r"is about a file of 4 bytes, and r2r.told_aug.json has 3"),
        ({"format": 2}, "is of format 2, made by a newer vlnbert"),
        ({"format": "one"}, "names its format 'one'"),
    ],
)
def test_other_values_are_refused(told: Path, change: dict[str, Any], words: str) -> None:
    write_provenance(told, known())
    path = provenance_file(told)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(told, words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not whole JSON"),
        ('{"format": 1', "is not whole JSON"),
        ("[]", "is no description of an augmented file"),
        ("{}", "lacks 'speaker'"),
        ("[" * 100_000, "is nested too deeply"),
        ("1" * 10_000, "holds a number too long to read"),
        ('"' + "x" * MEGABYTE + '"', "has 1 MB, where a description of an augmented file has at most 1"),
    ],
    ids=["empty", "cut", "list", "nothing", "deep", "long", "large"],
)
def test_other_documents_are_refused(told: Path, content: str, words: str) -> None:
    provenance_file(told).write_text(content)
    refused(told, words)


def refused(told: Path, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_provenance(told)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(provenance_file(told)))
