"""Reading files from strangers: within bounds, and with one clear error for each fault."""

import codecs
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EISDIR
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeGuard, TypeVar

from vlnbert.errors import DataError, Faults
from vlnbert.progress import Bar, WatchedFile

Panorama = TypeVar("Panorama")

FETCH_AGAIN = "fetch the file again"
MEGABYTE = 1 << 20
LARGEST_JSON = 64 * MEGABYTE  # of a document that is read as a whole; the largest of the open data has 4
# That a document may become: three bytes of text may become two hundred of memory.
MOST_MEMORY = 900 * MEGABYTE
# Bytes of memory, at most, for each of these marks in the text.
BYTES_MADE = {b'"': 40, b",": 40, b"[": 64, b"{": 180}

LARGEST = 1e18  # of a number; single precision holds its square
LONGEST_NAME = 1000  # characters

FORMAT = "format"  # the key under which a document carries its version
FIRST = 1  # version of documents without the key, which are older than versions

CHUNK = 1 << 20  # bytes of a stream that are read at a time
LONGEST_ITEM = 8 << 20  # characters; the longest of the open data has a few thousand
LONGEST_PIPE = 1 << 30  # bytes from another program, which might never end
DECODER = json.JSONDecoder()
BLANK = re.compile(r"[ \t\n\r]*")  # white space between JSON's marks

Entry = tuple[str | None, Any]  # a value with its key, where it has one


class NewerFormatError(DataError):
    """A whole document, in a format that only a newer program reads."""


class _TooLongError(ValueError):
    """A part of a file is longer than in any honest file."""


def open_for_reading(path: Path, what: str, pipe: bool = False) -> IO[bytes]:
    """Open a regular file, and with `pipe` also a pipe; opening never waits for a pipe without a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if pipe and stat.S_ISFIFO(mode):
            os.set_blocking(descriptor, True)
        elif stat.S_ISDIR(mode):
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        elif not stat.S_ISREG(mode):
            # A pipe may wait for ever, a device may never end.
            kind = "pipe" if stat.S_ISFIFO(mode) else "device"
            problem = f"is a {kind}, where a {what} is expected"
            raise DataError(path, problem, "save what it gives to a file, and name that")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def require_regular(path: Path, what: str) -> None:
    """Refuse a pipe or a device before a library opens it; the library reports a missing file."""
    with suppress(OSError):
        open_for_reading(path, what).close()


@contextmanager
def _read_errors(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Turn the system's errors into one line that says why a file cannot be read."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(path, f"no such {what}", remedy) from None
    except IsADirectoryError:
        raise DataError(path, f"a folder, where a {what} is expected", remedy) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file and its permissions") from None


@contextmanager
def opened(path: Path, what: str, remedy: str = "check the path", pipe: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for reading, with a progress bar by bytes; DataError where it cannot be read."""
    with (
        _read_errors(path, what, remedy),
        open_for_reading(path, what, pipe) as file,
        Bar(path.name, os.fstat(file.fileno()).st_size) as bar,
    ):
        yield file if bar.shown is None else WatchedFile(file, bar)  # type: ignore[misc]  # it reads alike


def read_bytes(path: Path, what: str, most: int, remedy: str = "check the path") -> bytes:
    """The bytes of a file that has at most `most`."""
    with _read_errors(path, what, remedy), open_for_reading(path, what) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            problem = f"has {size / MEGABYTE:,.0f} MB, where a {what} has at most {most / MEGABYTE:,.0f}"
            raise DataError(path, problem, "give another file")
        return file.read()


def read_json(
    path: Path, what: str, remedy: str = "check the path", damaged: str = FETCH_AGAIN, most: int = LARGEST_JSON
) -> Any:
    """A JSON document of at most `most` bytes; a fault in it is reported with line, column and the remedy `damaged`."""
    content = read_bytes(path, what, most, remedy)
    # A smaller one cannot become too large.
    if len(content) > 4 * MEGABYTE:
        memory = len(content) * (1 if content.isascii() else 4)
        if memory + sum(size * content.count(mark) for mark, size in BYTES_MADE.items()) > MOST_MEMORY:
            problem = f"would take {MOST_MEMORY // MEGABYTE} MB of memory or more, as no {what} does"
            raise DataError(path, problem, damaged)
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


def read_by_viewpoint(
    path: Path, what: str, remedy: str, panorama: Callable[[str, str, Any, Faults], Panorama]
) -> list[Panorama]:
    """The viewpoints of a scan's file, each made by `panorama` of scan, viewpoint, entry and faults."""
    document = read_json(path, what, remedy)
    if not isinstance(document, dict):
        raise DataError(path, "does not hold an object with a key a viewpoint", FETCH_AGAIN)
    faults = Faults(path)
    panoramas = [panorama(path.stem, viewpoint, entry, faults) for viewpoint, entry in document.items()]
    faults.raise_if_any()
    return panoramas


def format_of(path: Path, document: Mapping[str, Any], newest: int) -> int:
    """The version of a document's format, from 1 to the newest that this program reads."""
    version = document.get(FORMAT, FIRST)
    if type(version) is not int or version < FIRST:
        raise DataError(path, f"names its format {version!r}, which is no version", FETCH_AGAIN)
    if version > newest:
        problem = f"is of format {version}, made by a newer vlnbert; this one reads up to {newest}"
        raise NewerFormatError(path, problem, "upgrade with: pip install --upgrade vlnbert")
    return version


def stream_json_list(path: Path, what: str, remedy: str = "check the path") -> Iterator[Any]:
    """The items of a JSON list, one at a time: a file of any length in the memory of its longest item."""
    return (item for _, item in stream_json_entries(path, what, FETCH_AGAIN, remedy, kinds="[", pipe=False))


def stream_json_entries(
    path: Path, what: str, damaged: str, remedy: str = "check the path", kinds: str = "[{", pipe: bool = True
) -> Iterator[Entry]:
    """The items of a JSON list, or the values of an object with their keys, which may occur twice; also from a pipe.

    `damaged` is the remedy for a file that is not whole, `remedy` for one that is not there.
    """
    count = 0
    with opened(path, what, remedy, pipe=pipe) as file:
        try:
            head = file.read(4)
            decoded = codecs.iterdecode(chain([head], _chunks(file, pipe)), json.detect_encoding(head))
            for entry in _entries(_JsonText(decoded), kinds):
                yield entry
                count += 1
        except UnicodeDecodeError:
            problem = "is not UTF-8 text"
        except RecursionError:
            problem = "is nested too deeply"
        except _TooLongError as error:
            problem = str(error)
        except ValueError as error:
            whole = "list" if kinds == "[" else "list or object"
            problem = f"is not a whole JSON {whole} ({str(error).split(':')[0].lower()})"
        else:
            return
        raise DataError(path, problem, damaged, f"after item {count}")


def _chunks(file: IO[bytes], pipe: bool) -> Iterator[bytes]:
    count = 0
    while chunk := file.read(CHUNK):
        yield chunk
        count += len(chunk)
        if pipe and count > LONGEST_PIPE:
            raise _TooLongError(f"goes on after {LONGEST_PIPE // MEGABYTE:,} MB, more than is read of a pipe")


class _JsonText:
    """A text that comes in chunks, held from the place where it is being read."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self.chunks, self.held, self.at = chunks, "", 0

    def more(self, least: int = 1) -> bool:
        """Hold at least so many characters more, if there are any."""
        parts, count = [self.held[self.at :]], 0
        while count < least and (chunk := next(self.chunks, None)) is not None:
            parts.append(chunk)
            count += len(chunk)
        if count:
            self.held, self.at = "".join(parts), 0
        return count > 0

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            self.at = BLANK.match(self.held, self.at).end()  # type: ignore[union-attr]  # it matches anywhere
            if self.at < len(self.held) or not self.more():
                return self.held[self.at : self.at + 1]

    def take(self, *allowed: str) -> str:
        """Step over the next character that is not blank."""
        mark = self.peek()
        if mark not in allowed:
            raise ValueError(f"expecting {' or '.join(allowed)}")
        self.at += 1
        return mark

    def value(self) -> Any:
        """Step over the next value. One that may be cut by the end of a chunk is read again, with twice the text.

        So a value of many chunks is read a few times at most, not once for each of them.
        """
        self.peek()
        while True:
            held = len(self.held) - self.at
            try:
                value, end = DECODER.raw_decode(self.held, self.at)
                # A number may go on: 1 in "1e+".
                if len(self.held) - end > 2 or not self.more():
                    self.at = end
                    return value
            except json.JSONDecodeError as error:
                # More text may help a string without an end, or a fault in the last characters ("-Infinit").
                if not error.msg.startswith("Unterminated string") and len(error.doc) - error.pos >= 10:
                    raise
                if held > LONGEST_ITEM:
                    raise _TooLongError(f"has an item longer than {LONGEST_ITEM // MEGABYTE} MB, as none is") from None
                if not self.more(held):
                    raise


def _entries(text: _JsonText, kinds: str) -> Iterator[Entry]:
    begin = text.take(*kinds)
    end = "]" if begin == "[" else "}"
    mark = "," if text.peek() != end else text.take(end)
    while mark == ",":
        key = None
        if begin == "{":
            if text.peek() != '"':
                raise ValueError("expecting a name in double quotes")
            key = text.value()
            text.take(":")
        yield key, text.value()
        mark = text.take(",", end)
    if text.peek():
        raise ValueError("goes on after its end")


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a finite number that single precision can hold; true and false are none."""
    return type(value) in (int, float) and -LARGEST < value < LARGEST


def is_text(value: Any) -> TypeGuard[str]:
    """Whether a value is text that can be encoded: JSON can also spell unpaired surrogates."""
    try:
        return isinstance(value, str) and (value.isascii() or bool(value.encode()))
    except UnicodeEncodeError:
        return False


def is_name(value: Any) -> TypeGuard[int | str]:
    """Whether a value may name a path or an object: a whole number, or text that is not long."""
    return type(value) is int or (is_text(value) and len(value) <= LONGEST_NAME)


def is_list_of(value: Any, *kinds: type) -> TypeGuard[list[Any]]:
    """Whether a value is a list of nothing but exactly these types; quick on long lists."""
    return isinstance(value, list) and set(map(type, value)).issubset(kinds)


def is_numbers(value: Any, count: int) -> bool:
    """Whether a value is a list of `count` numbers."""
    return isinstance(value, list) and len(value) == count and all(map(is_number, value))


def is_texts(value: Any) -> TypeGuard[list[str]]:
    """Whether a value is a list of at least one text."""
    return isinstance(value, list) and bool(value) and all(map(is_text, value))
