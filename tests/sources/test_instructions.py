"""R2R, both versions of REVERIE and augmented data as one kind of record, and what may be wrong with them."""

import json
from pathlib import Path
from typing import Any

import pytest

from vlnbert.errors import DataError
from vlnbert.sources.files import MEGABYTE
from vlnbert.sources.instructions import (
    EpisodeRecord,
    Provenance,
    provenance_file,
    read_augmented,
    read_provenance,
    read_r2r,
    read_reverie,
    write_provenance,
)
from vlnbert.tasks.task import TASKS

R2R, REVERIE, AUGMENTED = "r2r/R2R_train.json", "reverie/REVERIE_train.json", "r2r/prevalent_aug.json"


def test_r2r(tiny):
    records = list(read_r2r(tiny.path(R2R)))
    assert [record.id for record in records] == ["10_0", "10_1", "11_0", "12_0"]
    assert records[1] == EpisodeRecord("10_1", "alpha", ("a0", "a3", "a4"), 0.1, "Go up the stairs and stop")
    assert isinstance(records[3].heading, float)


def test_r2r_test_splits_hold_the_start_alone(tiny):
    assert [record.path for record in read_r2r(tiny.path("r2r/R2R_test.json"))][2:] == [("b3",), ("g5",)]


@pytest.mark.parametrize("split", ["train", "val_unseen"])  # version 1, then version 2 without id and instructions_l
def test_reverie(tiny, split):
    records = list(read_reverie(tiny.path(f"reverie/REVERIE_{split}.json")))
    first = EpisodeRecord("10_7_0", "alpha", ("a0", "a3", "a4"), 0.1, "find the blue chair", object_id="7")
    assert records[0] == first
    assert [(record.id, record.object_id) for record in records[1:]] == [("11_8_0", "8")]


def test_reverie_test_splits_have_no_target(tiny):
    records = list(read_reverie(tiny.path("reverie/REVERIE_test.json")))
    assert [(record.id, record.object_id, record.path) for record in records] == [
        ("77_0", None, ("b0",)),
        ("77_1", None, ("b0",)),
    ]


def test_reverie_version_2_tests_are_named_by_path(tiny):
    path = tiny.edit("reverie/REVERIE_test.json", lambda items: items[0].update(path_id=items[0].pop("id")))
    assert [record.id for record in read_reverie(path)] == ["77_0", "77_1"]


def test_augmented_tokens_lose_their_padding(tiny):
    (record,) = read_augmented(tiny.path(AUGMENTED))
    assert (record.id, record.tokens) == ("x_1", (2, 5, 6, 7, 8, 3))


def test_the_file_name_tells_the_kind(tiny):
    assert next(TASKS["r2r"].read(tiny.path(AUGMENTED))).tokens
    assert next(TASKS["r2r"].read(tiny.path(R2R))).id == "10_0"
    assert next(TASKS["reverie"].read(tiny.path(REVERIE))).id == "10_7_0"
    for name, augmented in {"R2R_my_AUG.json": True, "R2R_august.json": False, "augustus.json": False}.items():
        copy = tiny.write(f"r2r/{name}", tiny.read(AUGMENTED))
        assert bool(next(TASKS["r2r"].read(copy)).tokens) == augmented


COMMON = [
    ("scan", None, "'scan' is missing or not a name"),
    ("scan", ["alpha"], "'scan' is missing or not a name"),
    ("path", [], "'path' is not a list of viewpoints"),
    ("path", "a0", "'path' is not a list of viewpoints"),
    ("path", ["a0", 3], "'path' is not a list of viewpoints"),
    ("heading", "north", "'heading' is missing or not a number"),
    ("heading", float("nan"), "'heading' is missing or not a number"),
    ("heading", float("inf"), "'heading' is missing or not a number"),
    pytest.param("heading", 10**400, "'heading' is missing or not a number", id="heading-huge"),
    ("heading", True, "'heading' is missing or not a number"),
    ("instructions", [], "'instructions' is not a list of sentences"),
    ("instructions", "walk", "'instructions' is not a list of sentences"),
    ("instructions", ["walk", None], "'instructions' is not a list of sentences"),
    ("path_id", None, "'path_id' is missing or not a name"),
    ("path_id", 1.5, "'path_id' is missing or not a name"),
    ("path_id", True, "'path_id' is missing or not a name"),
]


@pytest.mark.parametrize(("read", "file"), [(read_r2r, R2R), (read_augmented, AUGMENTED)])
@pytest.mark.parametrize(("field", "value", "words"), COMMON)
def test_a_wrong_field(tiny, refuses, read, file, field, value, words):
    path = tiny.edit(file, lambda items: items[0].update({field: value}))
    refuses(path, lambda: list(read(path)), words)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("objId", None, "has a path but no 'objId'"),
        ("objId", [7], "'objId'"),
        ("objId", True, "'objId'"),
        ("id", None, "'id' is missing or not a name"),
    ],
)
def test_a_wrong_target(tiny, refuses, field, value, words):
    path = tiny.edit(REVERIE, lambda items: items[0].update({field: value}))
    refuses(path, lambda: list(read_reverie(path)), words)


def test_a_wrong_target_where_the_goal_is_withheld(tiny, refuses):
    path = tiny.edit("reverie/REVERIE_test.json", lambda items: items[0].update(objId=[7]))
    refuses(path, lambda: list(read_reverie(path)), "'objId'")


@pytest.mark.parametrize("tokens", [None, "101", [1.0], [-1], [None], [True]])
def test_wrong_tokens(tiny, refuses, tokens):
    path = tiny.edit(AUGMENTED, lambda items: items[0].update(instr_enc=tokens))
    refuses(path, lambda: list(read_augmented(path)), "item 0 (path x_1): 'instr_enc' is not a list of token ids")


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_an_instruction_of_no_words(tiny, refuses, text):
    path = tiny.edit(R2R, lambda items: items[0].update(instructions=["walk", text]))
    refuses(path, lambda: list(read_r2r(path)), "instruction 10_1: has no words; write an instruction or remove")


def test_the_same_instruction_twice(tiny, refuses):
    path = tiny.edit(R2R, lambda items: items[1].update(path_id=10))
    refuses(path, lambda: list(read_r2r(path)), "instruction 10_0: occurs twice; keep one of the two")


def test_ids_are_compared_as_they_are_written(tiny, refuses):
    path = tiny.edit(R2R, lambda items: items[1].update(path_id="10"))
    refuses(path, lambda: list(read_r2r(path)), "instruction 10_0: occurs twice")


def test_all_faults_of_a_file_at_once(tiny, refuses):
    def break_it(items):
        items[0] = 3
        items[1].update(heading=None, scan=None)
        items[2].update(instructions=[""])

    path = tiny.edit(R2R, break_it)
    expected = ["item 0: is not an object", "item 1 (path 11): 'scan'", "item 1 (path 11): 'heading'", "12_0: has no"]
    refuses(path, lambda: list(read_r2r(path)), *expected)


def test_a_missing_name_is_one_fault_and_not_two(tiny, refuses):
    path = tiny.edit(R2R, lambda items: [item.pop("path_id") for item in items[1:]])
    refuses(path, lambda: list(read_r2r(path)), "item 1 (path ?): 'path_id'", "item 2 (path ?): 'path_id'")


def test_no_instructions(tiny, refuses):
    path = tiny.write(R2R, [])
    refuses(path, lambda: list(read_r2r(path)), "holds no instructions")


def test_damaged_and_missing_files(tiny, refuses):
    path = tiny.cut(R2R, -20)
    refuses(path, lambda: list(read_r2r(path)), "after item 2: is not a whole JSON list")
    path.write_bytes(b'[{"scan": "\xe9\xe9\xe9\xe9"}]')
    refuses(path, lambda: list(read_r2r(path)), "is not UTF-8 text")
    path.unlink()
    refuses(path, lambda: list(read_r2r(path)), "no such R2R file; get the open data with: vlnbert data fetch")


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
