"""Folders written beside their place and renamed, so that no reader ever sees half of one."""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from vlnbert.errors import DataError
from vlnbert.sources.files import begun_beside, masked
from vlnbert.sources.moves import replace_folder, sync_all

Read = TypeVar("Read")

ATTEMPTS = 100  # to read a folder that is replaced again and again


def refuse_full(folder: Path, besides: Collection[str] = ()) -> None:
    """Only a new or an empty folder may be written to; files called as in `besides` may lie in it."""
    if folder.is_dir():
        if any(path.name not in besides for path in folder.iterdir()):
            raise DataError(folder, "the folder is not empty", "choose a new folder, or empty this one first")
    elif folder.exists() or folder.is_symlink():
        raise DataError(folder, "is not a folder", "choose a new folder")


def require_writable(folder: Path) -> None:
    """Refuse, before long work, a folder in which files cannot be written; nothing is made."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not there.is_dir():
        raise DataError(folder, "is a file" if there == folder else f"lies in {there}, a file", "choose a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise DataError(folder, "cannot be written (Permission denied)", "choose a folder you may write to")


@contextmanager
def built_beside(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, renamed to it at the end; whatever happens before leaves nothing behind."""
    refuse_full(folder)
    with _beside(folder) as temporary:
        yield temporary
        _make_public(temporary)
        refuse_full(folder)
        os.rename(temporary, folder)  # noqa: PTH104  # replaces an empty folder, and fails where another writer was first


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """The same for a folder that may be there already: readers see the old one or the new, and either is whole.

    The new one is on the disk before it takes its place.
    """
    with _beside(folder) as temporary:
        yield temporary
        _make_public(temporary)
        sync_all(temporary)
        replace_folder(temporary, folder)


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    remedy = "choose a folder you may write to"
    try:
        with begun_beside(folder, lambda temporary: temporary.mkdir(0o700), remedy) as temporary:
            yield temporary
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise DataError(folder, problem, "free some space or choose a folder that is new or empty") from None


def _make_public(folder: Path) -> None:
    """Some writers leave private files; a folder and what is in it get the modes that the user's umask allows."""
    for path in folder.rglob("*"):
        path.chmod(masked(0o777 if path.is_dir() else 0o666))
    folder.chmod(masked(0o777))


def read_whole(folder: Path, read: Callable[[Path], Read]) -> Read:
    """What `read` makes of a folder, or a file. If that fails while another takes its place, the other one is read."""
    for _ in range(ATTEMPTS):
        before = _state(folder)
        try:
            return read(folder)
        except DataError:
            if _state(folder) == before:
                raise
    return read(folder)


def _state(folder: Path) -> tuple[int, ...] | None:
    """What tells a folder from others that had its name."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns
