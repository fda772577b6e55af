"""One process at a time in a folder, and files that are opened only where they are files."""

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vlnbert.errors import DataError

LOCK = "lock"  # the file that keeps a folder to one process
ATTEMPTS = 100  # to take a lock that others, who are done, remove at the same moment
NOT_FILES = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR)  # a link, a pipe that nobody reads, a folder

_held: set[tuple[int, int, Path]] = set()  # process, thread and folder


def open_regular(path: Path, flags: int) -> int:
    """Open a file to write to, made if need be and never cut; links, pipes, folders and devices are refused."""
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in NOT_FILES:
            raise _not_regular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def append_whole(path: Path, content: bytes, lines: bool = False) -> None:
    """Append to a file of one's own, all of it or nothing; of `lines`, one that a kill has cut is ended first."""
    descriptor = open_regular(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if lines and size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content
        try:
            while content:
                content = content[os.write(descriptor, content) :]
        except BaseException:  # half of it is worse than nothing: what comes next would follow on it
            with suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def _not_regular(path: Path) -> DataError:
    return DataError(path, "is a link, a pipe or a folder, where a file of the run's own belongs", "move it away")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder to this process while the block lasts; the lock goes with the process, however that ends.

    Blocks may be nested. A folder that was made for the block, and the lock in it, go again if nothing else came of it.
    """
    holder = os.getpid(), threading.get_ident(), folder.resolve()
    if holder in _held:
        yield
        return
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    descriptor = _taken(folder)
    _held.add(holder)
    try:
        yield
    finally:
        _held.remove(holder)
        with suppress(OSError):  # others' files are in it, or it is gone
            if [path.name for path in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink()
            for one in made:
                one.rmdir()
        os.close(descriptor)


def _taken(folder: Path) -> int:
    """The descriptor of the lock, which is ours as long as it is open."""
    for attempt in range(ATTEMPTS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = open_regular(folder / LOCK, os.O_RDWR)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and attempt < ATTEMPTS - 1:  # its folder was removed just now
                continue
            remedy = "choose a folder you may write to"
            raise DataError(folder, f"cannot be written ({error.strerror})", remedy) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, folder / LOCK):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            break
        except OSError as error:
            os.close(descriptor)
            remedy = "choose a folder on another disk"
            raise DataError(folder, f"cannot be locked ({error.strerror})", remedy) from None
        os.close(descriptor)  # whoever had it was done, and removed it before it was ours
    raise DataError(folder, "is in use by another process", "wait for it to end, or choose another folder")


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
