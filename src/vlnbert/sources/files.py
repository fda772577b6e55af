"""Reading untrusted files with clear errors, and writing files beside their place and renaming them."""

import codecs
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, TypeVar

from vlnbert.errors import DataError, Faults
from vlnbert.progress import Bar, WatchedFile
from vlnbert.sources.moves import sync

Panorama = TypeVar("Panorama")

FETCH_AGAIN = "fetch the file again"
CHUNK = 1 << 20  # bytes of a streamed file that are read at a time
DECODER = json.JSONDecoder()
TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}", re.DOTALL)  # what `temporary_name` makes of a name
BLANK = re.compile(r"[ \t\n\r]*")  # what JSON allows between its marks


@contextmanager
def opened(path: Path, what: str, remedy: str = "check the path") -> Iterator[IO[bytes]]:
    """A file open for reading, with a progress bar by bytes, or one line that says why it cannot be read."""
    try:
        with path.open("rb") as file, Bar(path.name, path.stat().st_size) as bar:
            yield file if bar.shown is None else WatchedFile(file, bar)  # type: ignore[misc]  # it reads alike
    except FileNotFoundError:
        raise DataError(path, f"no such {what}", remedy) from None
    except IsADirectoryError:
        raise DataError(path, f"a folder, where a {what} is expected", remedy) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file and its permissions") from None


def read_json(path: Path, what: str, remedy: str = "check the path", damaged: str = FETCH_AGAIN) -> Any:
    """A JSON document; a truncated or `damaged` one is reported with its line and column, and with that remedy."""
    try:
        with path.open("rb") as file:
            return json.loads(file.read())
    except FileNotFoundError:
        raise DataError(path, f"no such {what}", remedy) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file and its permissions") from None
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
    """What a scan's file says of each viewpoint, as `panorama` makes it of scan, viewpoint, entry and faults."""
    document = read_json(path, what, remedy)
    if not isinstance(document, dict):
        raise DataError(path, "does not hold an object with a key a viewpoint", FETCH_AGAIN)
    faults = Faults(path)
    found = [panorama(path.stem, viewpoint, entry, faults) for viewpoint, entry in document.items()]
    faults.raise_if_any()
    return found


def stream_json_list(path: Path, what: str, remedy: str = "check the path") -> Iterator[Any]:
    """The items of a JSON list, one at a time: a file of any length in the memory of its longest item."""
    count = 0
    with opened(path, what, remedy) as file:
        chunks = iter(partial(file.read, CHUNK), b"")
        try:
            for item in _items(_JsonText(codecs.iterdecode(chunks, "utf-8-sig"))):
                yield item
                count += 1
        except UnicodeDecodeError:
            problem = "is not UTF-8 text"
        except RecursionError:
            problem = "is nested too deeply"
        except ValueError as error:
            problem = f"is not a whole JSON list ({str(error).split(':')[0].lower()})"
        else:
            return
        raise DataError(path, problem, FETCH_AGAIN, f"after item {count}")


def write_json(path: Path, document: Any, indent: int | None = None, lasting: bool = False) -> None:
    """Write a JSON document beside its place and rename it; a `lasting` one is on the disk then."""
    with written_beside(path, lasting) as temporary:
        temporary.write_text(json.dumps(document, indent=indent) + "\n", encoding="utf-8")


@contextmanager
def written_beside(path: Path, lasting: bool = False) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it into place when the block succeeds, remove it when it fails.

    A reader, or another writer of the same file, never sees half of it. A `lasting` file survives a power cut too,
    which takes the disk's time.
    """
    if path.exists() and not path.is_file():  # a folder, or a device that a rename would replace
        raise DataError(path, "is not a regular file, so it cannot be replaced", "choose another name")
    temporary = temporary_name(path)
    try:  # an interrupt may come as soon as it is there
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(mode=0o600, exist_ok=False)
        except OSError as error:
            raise DataError(path, f"cannot be written ({error.strerror})", "choose a folder you may write to") from None
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
    finally:
        with suppress(OSError):  # where its folder could not be made, it cannot be removed either
            temporary.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """A name beside `path` that no other process uses, for what shall be renamed to it."""
    return path.parent / f".{path.name}.{token_hex(8)}"


def masked(mode: int) -> int:
    """A file mode as the user's umask has it."""
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask


class _JsonText:
    """A text that comes in chunks, held from where it is being read."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self.chunks, self.held, self.at = chunks, "", 0

    def more(self) -> bool:
        """Hold another chunk, if there is one."""
        chunk = next(self.chunks, "")
        if chunk:
            self.held, self.at = self.held[self.at :] + chunk, 0
        return bool(chunk)

    def peek(self) -> str:
        """The next character that is not blank, nothing at the end."""
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
        """Step over the next value. What may be cut short by the chunk's end is read again with the next one."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self.held, self.at)
                if len(self.held) - end > 2 or not self.more():  # a number may go on: 1 in "1e+"
                    self.at = end
                    return value
            except json.JSONDecodeError as error:
                if not (_is_cut(error) and self.more()):
                    raise


def _items(text: _JsonText) -> Iterator[Any]:
    text.take("[")
    mark = "," if text.peek() != "]" else text.take("]")
    while mark == ",":
        yield text.value()
        mark = text.take(",", "]")
    if text.peek():
        raise ValueError("goes on after its end")


def _is_cut(error: json.JSONDecodeError) -> bool:
    """Whether more text might mend it: a string without an end, or a fault in the last characters ("-Infinit")."""
    return error.msg.startswith("Unterminated string") or len(error.doc) - error.pos < 10
