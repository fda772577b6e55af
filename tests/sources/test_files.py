"""Streams of JSON against json.loads, files written whole or not at all, kinds of values, versions of formats."""

import errno
import fcntl
import json
import math
import re
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vlnbert.errors import DataError
from vlnbert.sources import files
from vlnbert.sources.files import (
    format_of,
    is_list_of,
    is_name,
    is_number,
    is_numbers,
    is_text,
    is_texts,
    read_json,
    stream_json_list,
)
from vlnbert.sources.writing import built_beside, replaced, sweep, temporary_name, write_json, written_beside

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
SMALL = '[ {"é": [1.5e3, -2]} ,\n "😀 \\"]" , -1.25e+10,[ ],null]'


@pytest.fixture
def streamed(tmp_path, monkeypatch):
    """The items that a document gives when it is read `chunk` bytes at a time."""

    def read(document, chunk=1 << 20):
        path = tmp_path / "list.json"
        path.write_bytes(document if isinstance(document, bytes) else document.encode())
        monkeypatch.setattr(files, "CHUNK", chunk)
        return list(stream_json_list(path, "list"))

    return read


@given(st.lists(VALUES, max_size=6), st.integers(1, 9), st.sampled_from([None, 0, 3]), st.booleans())
@example([1.5, 2e30, -0.001], 5, None, True)
@example(["é", "😀"], 1, None, False)
@settings(max_examples=200)
def test_a_stream_gives_what_loads_gives(streamed, items, chunk, indent, ascii_only):
    assert streamed(json.dumps(items, indent=indent, ensure_ascii=ascii_only), chunk) == items


@pytest.mark.parametrize("chunk", range(1, len(SMALL.encode()) + 1))
def test_chunks_may_end_anywhere(streamed, chunk):
    assert streamed(SMALL, chunk) == json.loads(SMALL)


@pytest.mark.parametrize("document", ["[]", " [ ] \n", "[\t]\r\n"])
def test_an_empty_list(streamed, document):
    assert streamed(document) == []


@pytest.mark.parametrize("chunk", [1, 4, 7, 1 << 20])
def test_truncation_at_any_byte_is_a_fault(streamed, chunk):
    document = SMALL.encode()
    for size in range(len(document)):
        with pytest.raises(DataError, match="fetch the file again"):
            streamed(document[:size], chunk)


@pytest.mark.parametrize(
    "document",
    [
        "{}",
        "3",
        "null",
        "[1 2]",
        "[1,]",
        "[,1]",
        "[1}",
        "nonsense",
        "",
        "[" * 100_000,
        "[1] [2]",
        "[1]]",
        "[1,\u00a02]",
    ],
)
def test_what_loads_refuses_a_stream_refuses(streamed, document):
    with pytest.raises(DataError, match=r"list\.json.*; fetch the file again"):
        streamed(document)


@pytest.mark.parametrize("content", [b'["\xff"]', b'["ab\xc3"]', b'["\xf0\x9f\x98"]', b'\xfe["a"]'])
@pytest.mark.parametrize("chunk", [1, 4, 1 << 20])
def test_other_encodings_are_named(streamed, content, chunk):
    with pytest.raises(DataError, match=r"UTF-8|character"):
        streamed(content, chunk)


def test_a_number_too_long_for_python_is_a_fault(streamed, tmp_path):
    with pytest.raises(DataError):
        streamed("[" + "1" * 5000 + "]")
    with pytest.raises(DataError):
        read_json(tmp_path / "list.json", "list")


def test_both_readers_take_a_byte_order_mark(streamed, tmp_path):
    assert streamed("\ufeff[1]") == read_json(tmp_path / "list.json", "list") == [1]


def test_a_fault_says_after_which_item(streamed):
    with pytest.raises(DataError, match="after item 2"):
        streamed('[{"a": 1}, [2], oops]')


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1', "line 1 column 8: is not whole JSON"),
        (b'{"a":\n\n', "line 3 column 1"),
        (b"\xff\xfe\xff", "byte 2: is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_read_json_says_where(tmp_path, refuses, content, words):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    refuses(path, lambda: read_json(path, "thing"), words)


@pytest.mark.parametrize("read", [read_json, lambda *given: list(stream_json_list(*given))])
def test_missing_files_and_folders(tmp_path, refuses, read):
    refuses(tmp_path / "no.json", lambda: read(tmp_path / "no.json", "thing", "make one"), "no such thing; make one")
    refuses(tmp_path, lambda: read(tmp_path, "thing"), "")
    inside_a_file = tmp_path / "file" / "a.json"
    (tmp_path / "file").touch()
    refuses(inside_a_file, lambda: read(inside_a_file, "thing"), "")


@pytest.mark.parametrize("content", [b"[1", b"\xff", b"[" * 100_000, b"9" * 5000])
def test_what_helps_with_a_damaged_file_is_told(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"; fetch the file again$"):
        read_json(path, "thing", "make one")
    with pytest.raises(DataError, match=r"; write it again$"):
        read_json(path, "thing", "make one", damaged="write it again")


def test_memory_is_bounded_by_items_and_not_by_the_file(tmp_path):
    path, item = tmp_path / "large.json", json.dumps({"text": "x" * 900, "numbers": list(range(30))})
    with path.open("w") as file:
        file.write("[" + item + f",\n{item}" * 19_999 + "]")
    assert path.stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        count = sum(1 for _ in stream_json_list(path, "list"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert peak < 8_000_000


@pytest.mark.parametrize("start", ['{"text": "', '[1, oops, "', "[1 ", '[{"a" 1}, "'])
def test_a_fault_is_told_without_reading_to_the_end(tmp_path, start):
    path = tmp_path / "large.json"
    path.write_text(start + "x" * 20_000_000 + '"]')
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            list(stream_json_list(path, "list"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def test_written_beside_replaces_at_once(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    for content in ("old", "new"):
        with written_beside(path) as temporary:
            temporary.write_text(content)
            assert not path.exists() if content == "old" else path.read_text() == "old"
    assert [(entry.name, entry.read_text()) for entry in path.parent.iterdir()] == [("file.txt", "new")]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("fault", [RuntimeError("broken"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, fault):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail():
        with written_beside(path) as temporary:
            temporary.write_text("half")
            raise fault

    with pytest.raises(DataError if isinstance(fault, OSError) else type(fault)) as caught:
        fail()
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("file.txt", "old")]
    if isinstance(fault, OSError):
        assert str(caught.value).startswith(f"{path}: cannot be written (No space left on device); ")


@pytest.mark.parametrize("kind", [written_beside, built_beside, replaced])
def test_what_a_killed_writer_left_is_swept_and_what_is_being_written_stays(tmp_path, kind):
    path = tmp_path / "new"
    left, folder, link = (temporary_name(path) for _ in range(3))
    left.write_text("half")
    folder.mkdir()
    (folder / "half").write_text("half")
    link.symlink_to(tmp_path / "elsewhere")
    others = [tmp_path / "file", tmp_path / ".new.swp", tmp_path / ".new.0123456789abcdeg", temporary_name(left)]
    for other in others:
        other.write_text("of others")
    with kind(path) as first:
        assert sorted(tmp_path.iterdir()) == sorted([first, link, *others]), "a link is not what we write"
        with suppress(DataError), kind(path) as second:
            assert first.exists()
            raise DataError(second, "is enough", "stop")
        assert first.exists()
        assert not second.exists()
    assert sorted(tmp_path.iterdir()) == sorted([path, link, *others])


def test_a_writer_whose_file_is_swept_as_it_begins_takes_another(tmp_path, monkeypatch):
    """In the moment between making and locking it."""
    real, swept = Path.touch, []

    def touch(path, *words, **options):
        real(path, *words, **options)
        if not swept:
            swept.append(path)
            sweep(tmp_path, re.compile(r"file\.json"))

    monkeypatch.setattr(Path, "touch", touch)
    write_json(tmp_path / "file.json", [1])
    assert swept
    assert not swept[0].exists()
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


def test_where_no_lock_can_be_had_nothing_is_swept(tmp_path, monkeypatch):
    left = temporary_name(tmp_path / "file.json")
    left.write_text("half")

    def refuse(*_):
        raise OSError(errno.ENOTSUP, "not on this file system")

    monkeypatch.setattr(fcntl, "flock", refuse)
    write_json(tmp_path / "file.json", [1])
    assert sorted(tmp_path.iterdir()) == sorted([left, tmp_path / "file.json"])
    sweep(tmp_path, re.compile(r"file\.json"), alone=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


def test_an_interrupt_may_come_at_once(tmp_path, monkeypatch):
    """In the very moment in which the temporary file, or folder, is there."""
    made = []

    def interrupted(real):
        def make(path, *words, **options):
            real(path, *words, **options)
            made.append(path)
            raise KeyboardInterrupt

        return make

    monkeypatch.setattr(Path, "touch", interrupted(Path.touch))
    with pytest.raises(KeyboardInterrupt):
        write_json(tmp_path / "file.json", [1])
    monkeypatch.setattr(Path, "mkdir", interrupted(Path.mkdir))
    with pytest.raises(KeyboardInterrupt), built_beside(tmp_path / "folder"):
        pass
    monkeypatch.undo()
    assert len(made) == 2
    assert list(tmp_path.iterdir()) == []


def test_nowhere_to_write(tmp_path, refuses):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    places = {tmp_path / "file" / "a.json": "cannot be written", tmp_path / "folder": "is not a regular file"}
    for path, problem in places.items():
        refuses(path, lambda path=path: write_json(path, [1]), problem)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


@given(VALUES)
def test_what_is_written_is_read(tmp_path, document):
    write_json(tmp_path / "a.json", document)
    assert read_json(tmp_path / "a.json", "thing") == document


@pytest.mark.parametrize("value", [0, -1, 2.5, 10**17, -1e17])
def test_numbers(value):
    assert is_number(value)
    assert is_numbers([value] * 3, 3)
    assert not is_numbers([value] * 3, 4)


@pytest.mark.parametrize("value", [True, None, "1", [], math.nan, math.inf, -math.inf, 1e300, 10**400, -(10**400)])
def test_what_is_no_number(value):
    assert not is_number(value)
    assert not is_numbers([0, value], 2)


@pytest.mark.parametrize("value", ["", "plain", "café", "\U0001f600", "\0"])
def test_texts(value):
    assert is_text(value)
    assert is_name(value)
    assert is_texts([value])


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", 3.5, None, True, ["a"], {"a": 1}])
def test_what_is_no_text(value):
    assert not is_text(value)
    assert not is_name(value)
    assert not is_texts(["a", value])


def test_lists_of_one_kind():
    assert is_list_of([], int)
    assert is_list_of([1, 2], int)
    assert not is_list_of([1, True], int)
    assert not is_list_of((1, 2), int)
    assert not is_texts([])
    assert is_name(10**400)


PATH = Path("run.json")


@pytest.mark.parametrize(("document", "version"), [({}, 1), ({"format": 1}, 1), ({"format": 3, "more": 0}, 3)])
def test_known_versions(document: dict[str, Any], version: int) -> None:
    assert format_of(PATH, document, newest=3) == version


def test_a_newer_one_says_what_to_do(refuses: Any) -> None:
    refuses(PATH, lambda: format_of(PATH, {"format": 4}, newest=3), "is of format 4, made by a newer vlnbert")


@pytest.mark.parametrize("found", [0, -1, "2", 1.0, None, True, [1]])
def test_what_is_no_version_is_refused(found: object, refuses: Any) -> None:
    refuses(PATH, lambda: format_of(PATH, {"format": found}, newest=3), "which is no version")
