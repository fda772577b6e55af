"""Reading untrusted files and writing safe ones: clear errors on the way in, write-beside-and-rename on the way out."""

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from rich.console import Console
from rich.progress import track, wrap_file

from vlnbert.errors import DataError

Item = TypeVar("Item")

FETCH_AGAIN = "fetch the file again"
CHUNK = 1 << 20  # characters of a streamed file held at a time


@contextmanager
def opened(path: Path, what: str, remedy: str = "check the path") -> Iterator[IO[bytes]]:
    """A file open for reading, with a progress bar by bytes, or one line that says why it cannot be read."""
    try:
        with path.open("rb") as file:
            console = Console(stderr=True)
            if not console.is_terminal:
                yield file
                return
            size = path.stat().st_size
            with wrap_file(file, size, description=path.name, console=console, transient=True) as watched:
                yield watched
    except FileNotFoundError:
        raise DataError(path, f"no such {what}", remedy) from None
    except IsADirectoryError:
        raise DataError(path, f"a folder, where a {what} is expected", remedy) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file and its permissions") from None


def read_json(path: Path, what: str, remedy: str = "check the path") -> Any:
    """A JSON document; a truncated or damaged one is reported with its line and column."""
    try:
        with path.open("rb") as file:
            return json.loads(file.read())
    except FileNotFoundError:
        raise DataError(path, f"no such {what}", remedy) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file and its permissions") from None
    except UnicodeDecodeError as error:
        raise DataError(path, "is not UTF-8 text", FETCH_AGAIN, f"byte {error.start}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise DataError(path, f"is not whole JSON ({error.msg.lower()})", FETCH_AGAIN, place) from None
    except RecursionError:
        raise DataError(path, "is nested too deeply", FETCH_AGAIN) from None


def stream_json_list(path: Path, what: str, remedy: str = "check the path") -> Iterator[Any]:
    """The items of a JSON list, one at a time: a file of any length in the memory of its longest item."""
    decoder, blank = json.JSONDecoder(), re.compile(r"\s*")
    with opened(path, what, remedy) as file:
        characters = _decoded(path, file)
        text, at, count = next(characters, ""), 0, 0
        expected = "["  # before the first item; between items it is a comma
        while True:
            try:
                at = blank.match(text, at).end()  # type: ignore[union-attr]  # \s* matches anywhere
                if text[at : at + 1] == "]" and expected != "[":
                    return
                if text[at : at + 1] != expected:
                    raise json.JSONDecodeError(f"expecting '{expected}'", text, at)
                start = blank.match(text, at + 1).end()  # type: ignore[union-attr]
                if expected == "[" and text[start : start + 1] == "]":
                    return
                item, end = decoder.raw_decode(text, start)
                if end == len(text):  # a number might go on in the next chunk
                    raise json.JSONDecodeError("unterminated list", text, end)
            except (json.JSONDecodeError, RecursionError) as error:
                more = next(characters, "")
                if not more:
                    problem = f"is not a whole JSON list ({str(error).split(':')[0].lower()})"
                    raise DataError(path, problem, FETCH_AGAIN, f"after item {count}") from None
                text, at = text[at:] + more, 0
                continue
            yield item
            at, count, expected = end, count + 1, ","


def write_json(path: Path, document: Any, indent: int | None = None) -> None:
    with written_beside(path) as temporary:
        temporary.write_text(json.dumps(document, indent=indent) + "\n", encoding="utf-8")


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it into place when the block succeeds, remove it when it fails.

    A reader, or another writer of the same file, never sees half of it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise DataError(path, f"cannot be written ({error.strerror})", "choose a folder you may write to") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp is private by default; what we write is meant to be shared
        temporary.replace(path)
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise DataError(path, problem, "free some space or choose another folder") from None
    finally:
        temporary.unlink(missing_ok=True)


def progress(items: Iterable[Item], what: str, total: int | None = None) -> Iterable[Item]:
    """Show a bar on standard error while `items` are consumed; nothing where nobody is looking."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return items
    return track(items, description=what, total=total, console=console, transient=True)


def _decoded(path: Path, file: IO[bytes]) -> Iterator[str]:
    """The text of an open UTF-8 file in chunks that never split a character."""
    held = b""
    while chunk := file.read(CHUNK):
        held += chunk
        try:
            text = held.decode()
            held = b""
        except UnicodeDecodeError as error:
            if len(held) - error.start > 3:  # not merely a character cut by the chunk's end
                raise DataError(path, "is not UTF-8 text", FETCH_AGAIN) from None
            text, held = held[: error.start].decode(), held[error.start :]
        yield text
    if held:
        raise DataError(path, "ends inside a character", FETCH_AGAIN)
