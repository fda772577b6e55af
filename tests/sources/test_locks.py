"""A folder's lock: one holder at a time, taken and left without touching anything else."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from vlnbert.errors import DataError
from vlnbert.sources.writing import LOCK, locked, open_regular


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
