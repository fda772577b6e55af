"""Files and folders written beside their place and renamed, so that no reader sees half of one; locks on folders."""

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from vlnbert.errors import DataError

Read = TypeVar("Read")

TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}", re.DOTALL)  # a name that `temporary_name` made
EXCHANGE = 2  # RENAME_EXCHANGE of Linux' renameat2
HERE = -100  # AT_FDCWD: paths are those of this process
# From some network file systems, where a folder cannot be synced.
NEVER_SYNCED = (errno.EINVAL, errno.ENOTSUP)
READ_ATTEMPTS = 100  # at a folder that is replaced again and again
MAKE_FOLDER = partial(Path.mkdir, mode=0o700)
OTHER_FOLDER = "free some space or choose a folder that is new or empty"
LOCK = "lock"  # the file that keeps a folder to one process
LOCK_ATTEMPTS = 100  # at a lock that its former holders remove at the same moment
# Errors at a link, a pipe that nobody reads, and a folder.
NOT_FILES = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR)

_held: set[tuple[int, int, Path]] = set()  # locks: process, thread and folder


def require_new(path: Path) -> None:
    """Refuse to write over a file, before any work is done for it."""
    if path.exists():
        raise DataError(path, "is there already", "remove it, or write to another file")


def refuse_full(folder: Path, besides: Collection[str] = ()) -> None:
    """Refuse to write to a folder that is neither new nor empty; files with names of `besides` may lie in it."""
    if folder.is_dir():
        if any(path.name not in besides for path in folder.iterdir()):
            raise DataError(folder, "the folder is not empty", "choose a new folder, or empty this one first")
    elif folder.exists() or folder.is_symlink():
        raise DataError(folder, "is not a folder", "choose a new folder")


def require_writable(folder: Path) -> None:
    """Refuse, before long work, a folder in which files cannot be written; nothing is made."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise DataError(folder, "is a file" if existing == folder else f"lies in {existing}, a file", "choose a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise DataError(folder, "cannot be written (Permission denied)", "choose a folder you may write to")


def write_json(path: Path, document: Any, indent: int | None = None, lasting: bool = False) -> None:
    """Write a JSON document beside its place and rename it; with `lasting` it is on the disk by then."""
    with written_beside(path, lasting) as temporary:
        temporary.write_text(json.dumps(document, indent=indent) + "\n", encoding="utf-8")


@contextmanager
def written_beside(path: Path, lasting: bool = False, sweeping: bool = True) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it into place when the block succeeds, remove it when it fails.

    A reader, or another writer of the same file, never sees half of it. A `lasting` file survives a power cut too,
    which takes the disk's time. `sweeping` looks through the folder, which takes long where that holds thousands.
    """
    # A rename would also replace a device.
    if path.exists() and not path.is_file():
        raise DataError(path, "is not a regular file, so it cannot be replaced", "choose another name")
    make = partial(Path.touch, mode=0o600, exist_ok=False)
    with _begun_beside(path, make, "free some space or choose another folder", sweeping) as temporary:
        yield temporary
        _make_public(temporary)
        if lasting:
            sync(temporary)
        temporary.replace(path)
        if lasting:
            sync(path.parent)


@contextmanager
def built_beside(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside a new `folder`, renamed to it at the end; a failure leaves nothing behind."""
    refuse_full(folder)
    with _begun_beside(folder, MAKE_FOLDER, OTHER_FOLDER) as temporary:
        yield temporary
        _make_public(temporary)
        refuse_full(folder)
        # It replaces an empty folder, and fails where another writer was first.
        os.rename(temporary, folder)  # noqa: PTH104


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Give a temporary folder that replaces `folder`, if that exists: readers see the old one or the new, whole.

    The new one is on the disk before it takes its place, and the old one is then removed. Where the file system cannot
    exchange names (NFS, and systems other than Linux), the old one is called `.old` for a moment in between.
    """
    with _begun_beside(folder, MAKE_FOLDER, OTHER_FOLDER) as temporary:
        yield temporary
        _make_public(temporary)
        for path in (*temporary.rglob("*"), temporary):
            sync(path)
        if not folder.is_symlink() and not folder.exists():
            temporary.rename(folder)
        elif not exchange(temporary, folder):
            remove(aside(folder))
            folder.rename(aside(folder))
            temporary.rename(folder)
        sync(folder.parent)
        remove(aside(folder))


@contextmanager
def _begun_beside(path: Path, make: Callable[[Path], object], remedy: str, sweeping: bool = True) -> Iterator[Path]:
    """Give a temporary file or folder beside `path`, made by `make`; it is removed at the end unless it was renamed.

    It is locked meanwhile, so that files of killed writers differ from those of living ones: with `sweeping`,
    files of killed writers of `path` are removed first.
    """
    if sweeping:
        sweep(path.parent, re.compile(re.escape(path.name)))
    descriptor: int | None = None
    # Another process that sweeps may remove it before it is locked.
    while descriptor is None:
        temporary = temporary_name(path)
        # An interrupt may come as soon as it is there.
        try:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                make(temporary)
                descriptor = _locked(temporary, fcntl.LOCK_EX)
            except OSError as error:
                problem = f"cannot be written ({error.strerror})"
                raise DataError(path, problem, "choose a folder you may write to") from None
            if descriptor is not None:
                yield temporary
        except OSError as error:
            raise DataError(path, f"cannot be written ({error.strerror or error})", remedy) from None
        finally:
            remove(temporary)
            if descriptor is not None:
                os.close(descriptor)


def sweep(folder: Path, names: re.Pattern[str], alone: bool = False) -> None:
    """Remove temporary files of `names` that killed writers left in a folder; those being written stay.

    `alone` says that only this process writes such names there.
    """
    # The next writer there reports why that cannot be done.
    with suppress(OSError):
        for path in folder.iterdir() if folder.is_dir() else ():
            temporary = TEMPORARY.fullmatch(path.name)
            if not temporary or not names.fullmatch(temporary[1]):
                continue
            if alone:
                remove(path)
                continue
            # It fails where that is another writer's, or another kind of thing than we write.
            with suppress(OSError):
                descriptor = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if descriptor is not None:
                    remove(path)
                    os.close(descriptor)


def _locked(temporary: Path, how: int) -> int | None:
    """A descriptor that locks a temporary file or folder until it is closed, or the process ends.

    None where the file was swept meanwhile. Some network file systems lock no file that is not open for writing:
    nothing is swept there.
    """
    try:
        descriptor = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(descriptor, how)
        except OSError:
            if how & fcntl.LOCK_NB:
                raise
        if _is_at(descriptor, temporary):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def temporary_name(path: Path) -> Path:
    """A name beside `path` that no other process uses, for a file that shall be renamed to it."""
    return path.parent / f".{path.name}.{token_hex(8)}"


def _make_public(temporary: Path) -> None:
    """Give a file, or a folder and its contents, the modes that the user's umask allows."""
    mask = os.umask(0)
    os.umask(mask)
    for path in (*temporary.rglob("*"), temporary):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


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


def aside(folder: Path) -> Path:
    """The name of a folder while another takes its place in two moves."""
    return folder.with_name(f"{folder.name}.old")


def exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two paths in one move, if the system can do that here; whether it could."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return rename is not None and rename(HERE, os.fsencode(first), HERE, os.fsencode(second), EXCHANGE) == 0


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it is there and may be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read_whole(folder: Path, read: Callable[[Path], Read]) -> Read:
    """The result of `read` on a folder or file. Where it fails while another takes its place, that one is read."""
    for _ in range(READ_ATTEMPTS):
        before = _state(folder)
        try:
            return read(folder)
        except DataError:
            if _state(folder) == before:
                raise
    return read(folder)


def _state(folder: Path) -> tuple[int, ...] | None:
    """Numbers that differ between folders that had the same name at different times."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def open_regular(path: Path, flags: int) -> int:
    """Open a file to write to, made if need be and never cut; links, pipes, folders and devices are refused."""
    refused = DataError(path, "is a link, a pipe or a folder, where a file of the run's own belongs", "move it away")
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in NOT_FILES:
            raise refused from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refused
    return descriptor


def append_whole(path: Path, content: bytes, lines: bool = False) -> None:
    """Append all of `content` to a file, or nothing; of `lines`, one that a kill has cut is ended first."""
    descriptor = open_regular(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if lines and size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content
        try:
            while content:
                content = content[os.write(descriptor, content) :]
        # Half of it is worse than nothing: the next part would follow on it.
        except BaseException:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder to this process while the block lasts; the lock ends with the process, however that ends.

    Blocks may be nested. A folder that was made for the block, and its lock, are removed if it holds nothing else.
    """
    holder = os.getpid(), threading.get_ident(), folder.resolve()
    if holder in _held:
        yield
        return
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    descriptor = _taken(folder)
    _held.add(holder)
    try:
        yield
    finally:
        _held.remove(holder)
        # It fails where others' files are in it, or it is gone.
        with suppress(OSError):
            if [path.name for path in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink()
            for parent in made:
                parent.rmdir()
        os.close(descriptor)


def _taken(folder: Path) -> int:
    """The descriptor of the lock, which this process holds as long as it is open."""
    for attempt in range(LOCK_ATTEMPTS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = open_regular(folder / LOCK, os.O_RDWR)
        except OSError as error:
            # Its folder may have been removed just now.
            if isinstance(error, FileNotFoundError) and attempt < LOCK_ATTEMPTS - 1:
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
        # Its former holder removed it before it was ours.
        os.close(descriptor)
    raise DataError(folder, "is in use by another process", "wait for it to end, or choose another folder")
