"""Folders that are replaced while others read them: old or new, never half or none, and on the disk by then."""

import os
import threading
from pathlib import Path

import pytest

from vlnbert.errors import DataError
from vlnbert.sources import writing
from vlnbert.sources.files import read_json
from vlnbert.sources.writing import aside, exchange, read_whole, replaced, sweep, temporary_name, write_json


def put(folder: Path, number: int) -> None:
    """A folder of two files that belong together."""
    with replaced(folder) as beside:
        for name in ("one.json", "two.json"):
            write_json(beside / name, number)


def test_names_are_exchanged(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not exchange(tmp_path / "one", tmp_path / "two"):
        pytest.skip("not on this file system")
    assert (tmp_path / "one" / "two").exists()
    assert (tmp_path / "two" / "one").exists()
    assert not exchange(tmp_path / "one", tmp_path / "three")


def test_readers_never_see_half_or_none(tmp_path: Path) -> None:
    """Each file is found at every moment, and none is older than what was read before."""
    folder, done, faults, reads = tmp_path / "best", threading.Event(), list[str](), [0, 0]
    put(folder, 0)

    def read(reader: int) -> None:
        last = 0
        while not done.is_set():
            try:
                for name in ("one.json", "two.json"):
                    found = read_json(folder / name, "file")
                    assert found >= last, "an old one again"
                    last = found
            except (DataError, AssertionError) as fault:
                faults.append(str(fault))
            reads[reader] += 1

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 121):
        put(folder, number)
    done.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert min(reads) > 20
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


@pytest.fixture
def two_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot exchange names."""
    monkeypatch.setattr(writing, "exchange", lambda one, other: False)


@pytest.mark.usefixtures("two_moves")
def test_without_an_exchange_it_takes_two_moves(tmp_path: Path) -> None:
    folder = tmp_path / "best"
    for number in range(3):
        put(folder, number)
        assert read_json(folder / "two.json", "file") == number
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    folder.rename(aside(folder))  # as a kill between the two would leave it
    put(folder, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_a_link_in_its_place_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    put(tmp_path / "there", 1)
    (tmp_path / "best").symlink_to("there")
    put(tmp_path / "best", 2)
    assert not (tmp_path / "best").is_symlink()
    assert read_json(tmp_path / "best" / "one.json", "file") == 2
    assert read_json(tmp_path / "there" / "one.json", "file") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "there"]


def test_a_reader_starts_again_with_the_folder_that_came(tmp_path: Path) -> None:
    """What it read of the old one does not fit what it reads of the new one."""
    folder = tmp_path / "best"
    put(folder, 0)
    left = [2]

    def read(folder: Path) -> int:
        one = read_json(folder / "one.json", "file")
        if left[0]:
            left[0] -= 1
            put(folder, one + 1)
        if one != (two := read_json(folder / "two.json", "file")):
            raise DataError(folder, "does not fit", "save it again")
        return two

    assert read_whole(folder, read) == 2
    write_json(folder / "two.json", 9)
    with pytest.raises(DataError, match="does not fit"):
        read_whole(folder, read)
    with pytest.raises(DataError, match="no such file"):
        read_whole(tmp_path / "none", read)


def test_what_takes_a_place_is_on_the_disk_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files before the folder that names them, all before the move, and the move before anything that follows."""
    done, real_sync, real_rename, real_replace = list[str](), os.fsync, Path.rename, Path.replace

    def sync(descriptor: int) -> None:
        done.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().name.split(".")[-1])
        real_sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", lambda one, other: (done.append("move"), real_rename(one, other))[1])
    monkeypatch.setattr(Path, "replace", lambda one, other: (done.append("move"), real_replace(one, other))[1])
    monkeypatch.setattr("vlnbert.sources.writing.token_hex", lambda count: "token")
    monkeypatch.setattr(writing, "exchange", lambda one, other: done.append("move") or exchange(one, other))
    for _ in range(2):
        done.clear()
        with replaced(tmp_path / "best") as beside:
            (beside / "config").touch()
        assert done == ["sync config", "sync token", "move", f"sync {tmp_path.name}"]
    done.clear()
    write_json(tmp_path / "last", 1, lasting=True)
    assert done == ["sync token", "move", f"sync {tmp_path.name}"]
    done.clear()
    write_json(tmp_path / "report", 1)
    assert done == ["move"], "what can be made again need not wait for the disk"


def test_only_what_was_left_of_some_names_is_swept(tmp_path: Path) -> None:
    import re

    left = [temporary_name(tmp_path / name) for name in ("last.json", "0000004", "best")]
    for path in left[1:]:
        path.mkdir()
        (path / "half").touch()
    left[0].touch()
    others = [temporary_name(tmp_path / "report.html"), tmp_path / "last.json", tmp_path / ".last.json.swp"]
    for path in others:
        path.touch()
    sweep(tmp_path, re.compile(r"last\.json|\d+|best"))
    assert sorted(tmp_path.iterdir()) == sorted(others)
    sweep(tmp_path / "nowhere", re.compile("x"))
