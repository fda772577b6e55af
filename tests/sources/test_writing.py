"""Files and folders written beside their place: old or new, never half; locks; and special files, never replaced."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from vlnbert.errors import DataError
from vlnbert.sources import writing
from vlnbert.sources.files import read_json
from vlnbert.sources.writing import (
    LOCK,
    aside,
    exchange,
    locked,
    open_regular,
    read_whole,
    replaced,
    require_writable,
    sweep,
    temporary_name,
    write_json,
    written_beside,
)


def test_what_can_be_written_is_not_made(tmp_path):
    require_writable(tmp_path)
    require_writable(tmp_path / "new" / "deep")
    assert list(tmp_path.glob("new")) == []


def test_what_lies_in_a_file_cannot(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DataError, match=f"{file}: is a file; choose a folder"):
        require_writable(file)
    with pytest.raises(DataError, match=f"{file}/deep: lies in {file}, a file; choose a folder"):
        require_writable(file / "deep")


def test_what_others_own_cannot(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(DataError, match=r"cannot be written \(Permission denied\); choose a folder you may write to"):
        require_writable(tmp_path / "new")


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


def elsewhere(work: Callable[[], object]) -> list[str]:
    """What a block says in another thread, which is no holder of this one's locks."""
    said = list[str]()

    def run() -> None:
        try:
            work()
        except DataError as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    return said


def take(folder: Path) -> None:
    with locked(folder):
        (folder / "file").write_text("mine")


def test_one_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path):
        (tmp_path / "file").touch()
        with locked(tmp_path):  # as often as one likes
            refused = elsewhere(lambda: take(tmp_path))
        assert refused == elsewhere(lambda: take(tmp_path))
    assert refused == [f"{tmp_path}: is in use by another process; wait for it to end, or choose another folder"]
    assert elsewhere(lambda: take(tmp_path)) == []


def test_what_was_made_for_the_lock_goes_with_it(tmp_path: Path) -> None:
    with locked(tmp_path / "new" / "deep"):
        assert (tmp_path / "new" / "deep" / LOCK).is_file()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), locked(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == [], "a folder that was there stays"
    take(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["file", LOCK]


def test_a_lock_that_is_removed_while_it_is_taken_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have opened it before: it would hold a file that nobody sees any more."""
    opened = list[int]()

    def open_then_lose(path: Path, flags: int) -> int:
        opened.append(open_regular(path, flags))
        if len(opened) < 3:
            path.unlink()
        return opened[-1]

    monkeypatch.setattr("vlnbert.sources.writing.open_regular", open_then_lose)
    with locked(tmp_path):
        assert os.path.samestat(os.fstat(opened[2]), (tmp_path / LOCK).stat())
    assert len(opened) == 3


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_is_no_file_is_refused_untouched(tmp_path: Path, kind: str) -> None:
    """A link would empty its target, a pipe would wait for a reader."""
    precious, run = tmp_path / "thesis.txt", tmp_path / "run"
    precious.write_text("keep")
    run.mkdir()
    if kind == "pipe":
        os.mkfifo(run / LOCK)
    elif kind == "folder":
        (run / LOCK).mkdir()
    else:
        (run / LOCK).symlink_to(precious if kind == "link" else tmp_path / "nothing")
    before = [path.name for path in run.iterdir()]
    expected = f"{run / LOCK}: is a link, a pipe or a folder, where a file of the run's own belongs; move it away"
    assert elsewhere(lambda: take(run)) == [expected]
    assert precious.read_text() == "keep"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "thesis.txt"]
    assert [path.name for path in run.iterdir()] == before


def test_a_lock_is_not_cut(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("somebody's notes")
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == "somebody's notes"


def test_nowhere_to_lock(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot be written \(.*\); choose a folder you may write to"):
        take(tmp_path / "file" / "run")


def test_where_no_folder_can_be_made_nobody_is_blamed() -> None:
    """In /proc, a folder cannot be made, and the system says that it is not there."""
    with pytest.raises(DataError, match=r"^/proc/run: cannot be written \(No such file or directory\); choose"):
        take(Path("/proc/run"))


def test_devices_pipes_and_folders_stay_what_they_are(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", Path("/dev/null")):
        with pytest.raises(DataError, match="not a regular file"), written_beside(path):
            raise AssertionError("nothing is begun")
    assert (tmp_path / "pipe").is_fifo()


def test_the_users_umask_holds(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with written_beside(tmp_path / "file") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_folder_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with replaced(tmp_path / "best") as beside:
            (beside / "file").write_text(text)
            assert text == "old" or (tmp_path / "best" / "file").read_text() == "old"
    assert (tmp_path / "best" / "file").read_text() == "new"
    with pytest.raises(KeyboardInterrupt), replaced(tmp_path / "best") as beside:
        raise KeyboardInterrupt
    assert (tmp_path / "best" / "file").read_text() == "new"
    with replaced(tmp_path / "best") as beside:
        (beside / "file").write_text("newer")
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
