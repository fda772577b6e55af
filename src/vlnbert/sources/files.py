"""Reading untrusted files with clear errors, and writing files beside their place and renaming them."""

import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, TypeVar

from vlnbert.errors import DataError, Faults
from vlnbert.progress import Bar, WatchedFile
from vlnbert.sources.moves import remove, sync

Panorama = TypeVar("Panorama")

FETCH_AGAIN = "fetch the file again"
MEGABYTE = 1 << 20
LARGEST_JSON = 64 * MEGABYTE  # of a document that is read as a whole; the largest of the open data has 4
MOST_MEMORY = 900 * MEGABYTE  # that one may become: three bytes of text may be two hundred of memory
BYTES_MADE = {b'"': 40, b",": 40, b"[": 64, b"{": 180}  # of memory, at most, by what a mark in the text tells of
TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}", re.DOTALL)  # what `temporary_name` makes of a name


class SpecialFileError(DataError):
    """A pipe or a device where a regular file is expected: the one may wait for ever, the other never end."""

    def __init__(self, path: Path, kind: str, what: str) -> None:
        super().__init__(
            path, f"is a {kind}, where a {what} is expected", "save what it gives to a file, and name that"
        )


def open_for_reading(path: Path, what: str, pipe: bool = False) -> IO[bytes]:
    """A regular file open for reading; nothing waits for a pipe that nobody writes to. `pipe` allows those too."""
    descriptor, _ = _opened_regular(path, what, pipe)
    try:
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _opened_regular(path: Path, what: str, pipe: bool = False) -> tuple[int, int]:
    """The descriptor of a regular file, and its size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        if pipe and stat.S_ISFIFO(state.st_mode):
            os.set_blocking(descriptor, True)
        elif stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        elif not stat.S_ISREG(state.st_mode):
            raise SpecialFileError(path, "pipe" if stat.S_ISFIFO(state.st_mode) else "device", what)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, state.st_size


def require_regular(path: Path, what: str) -> None:
    """Refuse a pipe or a device before a library opens it; what is not there is left to that library."""
    with suppress(OSError):
        open_for_reading(path, what).close()


@contextmanager
def opened(path: Path, what: str, remedy: str = "check the path", pipe: bool = False) -> Iterator[IO[bytes]]:
    """A file open for reading, with a progress bar by bytes, or one line that says why it cannot be read."""
    try:
        with open_for_reading(path, what, pipe) as file, Bar(path.name, os.fstat(file.fileno()).st_size) as bar:
            yield file if bar.shown is None else WatchedFile(file, bar)  # type: ignore[misc]  # it reads alike
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(path, f"no such {what}", remedy) from None
    except IsADirectoryError:
        raise DataError(path, f"a folder, where a {what} is expected", remedy) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file and its permissions") from None


def read_bytes(path: Path, what: str, most: int, remedy: str = "check the path") -> bytes:
    """The bytes of a file that has at most so many."""
    try:
        descriptor, size = _opened_regular(path, what)
        try:
            if size > most:
                problem = f"has {size / MEGABYTE:,.0f} MB, where a {what} has at most {most / MEGABYTE:,.0f}"
                raise DataError(path, problem, "give another file")
            parts = list(
                iter(lambda: os.read(descriptor, size + 1), b"")
            )  # two reads, of which the second finds the end
        finally:
            os.close(descriptor)
        return b"".join(parts)
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(path, f"no such {what}", remedy) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file and its permissions") from None


def read_json(
    path: Path, what: str, remedy: str = "check the path", damaged: str = FETCH_AGAIN, most: int = LARGEST_JSON
) -> Any:
    """A JSON document of at most so many bytes; a `damaged` one is reported with line, column and that remedy."""
    content = read_bytes(path, what, most, remedy)
    if len(content) > 4 * MEGABYTE and _memory_taken(content) > MOST_MEMORY:  # a smaller one cannot become as large
        raise DataError(path, f"would take {MOST_MEMORY // MEGABYTE} MB of memory or more, as no {what} does", damaged)
    try:
        return json.loads(content)
    except UnicodeDecodeError as error:
        raise DataError(path, "is not UTF-8 text", damaged, f"byte {error.start}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise DataError(path, f"is not whole JSON ({error.msg.lower()})", damaged, place) from None
    except ValueError:
        raise DataError(path, "holds a number too long to read", damaged) from None
    except RecursionError:
        raise DataError(path, "is nested too deeply", damaged) from None


def _memory_taken(content: bytes) -> int:
    """How many bytes a JSON text takes when it is read, at most: as characters, and as what it tells of."""
    characters = len(content) * (1 if content.isascii() else 4)
    return characters + sum(size * content.count(mark) for mark, size in BYTES_MADE.items())


def read_by_viewpoint(
    path: Path, what: str, remedy: str, panorama: Callable[[str, str, Any, Faults], Panorama]
) -> list[Panorama]:
    """What a scan's file says of each viewpoint, as `panorama` makes it of scan, viewpoint, entry and faults."""
    document = read_json(path, what, remedy)
    if not isinstance(document, dict):
        raise DataError(path, "does not hold an object with a key a viewpoint", FETCH_AGAIN)
    faults = Faults(path)
    found = [panorama(path.stem, viewpoint, entry, faults) for viewpoint, entry in document.items()]
    faults.raise_if_any()
    return found


def require_new(path: Path) -> None:
    """Refuse to write over a file, before any work is done for it."""
    if path.exists():
        raise DataError(path, "is there already", "remove it, or write to another file")


def write_json(path: Path, document: Any, indent: int | None = None, lasting: bool = False) -> None:
    """Write a JSON document beside its place and rename it; a `lasting` one is on the disk then."""
    with written_beside(path, lasting) as temporary:
        temporary.write_text(json.dumps(document, indent=indent) + "\n", encoding="utf-8")


@contextmanager
def written_beside(path: Path, lasting: bool = False, sweeping: bool = True) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it into place when the block succeeds, remove it when it fails.

    A reader, or another writer of the same file, never sees half of it. A `lasting` file survives a power cut too,
    which takes the disk's time. `sweeping` looks through the folder, which takes long where that holds thousands.
    """
    if path.exists() and not path.is_file():  # a folder, or a device that a rename would replace
        raise DataError(path, "is not a regular file, so it cannot be replaced", "choose another name")
    remedy = "choose a folder you may write to"
    try:
        with begun_beside(
            path, lambda temporary: temporary.touch(0o600, exist_ok=False), remedy, sweeping
        ) as temporary:
            yield temporary
            temporary.chmod(masked(0o666))  # a temporary file is private, what we write need not be
            if lasting:
                sync(temporary)
            temporary.replace(path)
            if lasting:
                sync(path.parent)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise DataError(path, problem, "free some space or choose another folder") from None


@contextmanager
def begun_beside(path: Path, make: Callable[[Path], object], remedy: str, sweeping: bool = True) -> Iterator[Path]:
    """A temporary file or folder beside `path`, as `make` makes it, which is gone at the end unless it was renamed.

    It is locked meanwhile, so that what killed writers of `path` left can be told from what others are writing: with
    `sweeping` the former is removed first.
    """
    if sweeping:
        sweep(path.parent, re.compile(re.escape(path.name)))
    descriptor: int | None = None
    while descriptor is None:  # who sweeps may meet one that is there and not locked yet
        temporary = temporary_name(path)
        try:  # an interrupt may come as soon as it is there
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                make(temporary)
                descriptor = _locked(temporary, fcntl.LOCK_EX)
            except OSError as error:
                raise DataError(path, f"cannot be written ({error.strerror})", remedy) from None
            if descriptor is not None:
                yield temporary
        finally:
            remove(temporary)
            if descriptor is not None:
                os.close(descriptor)


def sweep(folder: Path, names: re.Pattern[str], alone: bool = False) -> None:
    """Remove what writers of some names left in a folder when they were killed; what is being written stays.

    `alone` says that nobody but this process writes such names there.
    """
    with suppress(OSError):  # whoever writes there next says why that cannot be done
        for path in folder.iterdir() if folder.is_dir() else ():
            found = TEMPORARY.fullmatch(path.name)
            if not found or not names.fullmatch(found[1]):
                continue
            if alone:
                remove(path)
                continue
            with suppress(OSError):  # of another writer, or another kind of thing than we write
                descriptor = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if descriptor is not None:
                    remove(path)
                    os.close(descriptor)


def _locked(temporary: Path, how: int) -> int | None:
    """A descriptor of a temporary file or folder that locks it until it is closed, or the process ends; none where it
    was swept meanwhile. Some network file systems lock no file that is not open for writing: nothing is swept there."""
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
        if os.path.samestat(os.fstat(descriptor), temporary.lstat()):
            return descriptor
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def temporary_name(path: Path) -> Path:
    """A name beside `path` that no other process uses, for what shall be renamed to it."""
    return path.parent / f".{path.name}.{token_hex(8)}"


def masked(mode: int) -> int:
    """A file mode as the user's umask has it."""
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask
