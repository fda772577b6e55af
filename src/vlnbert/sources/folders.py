"""Folders written beside their place and renamed, so that no reader ever sees half of one."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vlnbert.errors import DataError
from vlnbert.sources.files import masked, temporary_name

LOCK = "lock"  # the file that keeps a folder to one process


def refuse_full(folder: Path) -> None:
    """Only a new or an empty folder may be written to."""
    if folder.is_dir():
        if any(folder.iterdir()):
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
    temporary = temporary_name(folder)
    try:  # an interrupt may come as soon as it is there
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            temporary.mkdir(mode=0o700)
        except OSError as error:
            remedy = "choose a folder you may write to"
            raise DataError(folder, f"cannot be written ({error.strerror})", remedy) from None
        yield temporary
        for path in temporary.rglob("*"):
            path.chmod(masked(0o777 if path.is_dir() else 0o666))  # some writers leave private files
        temporary.chmod(masked(0o777))
        refuse_full(folder)
        os.rename(temporary, folder)  # noqa: PTH104  # replaces an empty folder, and fails where another writer was first
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise DataError(folder, problem, "free some space or choose a folder that is new or empty") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """The same for a folder that may be there already: the old one stays until the new one is whole."""
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)  # left by a kill
    with built_beside(new) as temporary:
        yield temporary
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder to this process while the block lasts; the lock goes with the process, however that ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise DataError(folder, f"cannot be written ({error.strerror})", "choose a folder you may write to") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            remedy = "wait for it to end, or choose another folder"
            raise DataError(folder, "is in use by another process", remedy) from None
        yield
