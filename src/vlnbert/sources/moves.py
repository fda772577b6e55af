"""Moves that neither a kill nor a power cut can tear: what takes a place is on the disk before."""

import ctypes
import errno
import os
import shutil
from pathlib import Path

EXCHANGE = 2  # RENAME_EXCHANGE of Linux' renameat2
HERE = -100  # AT_FDCWD: paths are those of this process
NEVER_SYNCED = (errno.EINVAL, errno.ENOTSUP)  # what some network file systems say when a folder shall be synced


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NEVER_SYNCED:
            raise
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """The same for a folder and all that is in it."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def replace_folder(new: Path, folder: Path) -> None:
    """Put a new folder in place of another, if there is one, which has the new one's name then.

    Where the file system cannot exchange names (NFS, and systems other than Linux), the old folder is called `.old` for
    a moment in between.
    """
    if not folder.is_symlink() and not folder.exists():
        new.rename(folder)
    elif not exchange(new, folder):
        old = aside(folder)
        remove(old)
        folder.rename(old)
        new.rename(folder)
    sync(folder.parent)
    remove(aside(folder))


def aside(folder: Path) -> Path:
    """Where a folder is kept while another takes its place, if that takes two moves."""
    return folder.with_name(f"{folder.name}.old")


def exchange(one: Path, other: Path) -> bool:
    """Let two paths change their names in one move; whether the system can do that here."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    return bool(rename(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it is there and may be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            return
