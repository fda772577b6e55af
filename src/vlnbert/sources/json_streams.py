"""The items of a long JSON file, one at a time: a file of any length in the memory of its longest item."""

import codecs
import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

from vlnbert.errors import DataError
from vlnbert.sources.files import FETCH_AGAIN, MEGABYTE, opened

CHUNK = 1 << 20  # bytes that are read at a time
LONGEST_ITEM = 8 << 20  # characters; the longest of the open data has a few thousand
LONGEST_PIPE = 1 << 30  # bytes of what another program writes, which might never end
DECODER = json.JSONDecoder()
BLANK = re.compile(r"[ \t\n\r]*")  # what JSON allows between its marks


class _TooLongError(ValueError):
    """A part of a file is longer than any is."""


Entry = tuple[str | None, Any]  # the key of a value, where it has one


def stream_json_list(path: Path, what: str, remedy: str = "check the path") -> Iterator[Any]:
    """The items of a JSON list."""
    return (item for _, item in _entries_of(path, what, remedy, "["))


def stream_json_entries(path: Path, what: str, damaged: str) -> Iterator[Entry]:
    """The items of a JSON list, or the values of an object with their keys, of which some may occur twice.

    What another program writes into a pipe may be read too. `damaged` is what to do about a file that is not whole.
    """
    return _entries_of(path, what, "check the path", "[{", damaged, pipe=True)


def _entries_of(
    path: Path, what: str, remedy: str, kinds: str, damaged: str = FETCH_AGAIN, pipe: bool = False
) -> Iterator[Entry]:
    count = 0
    with opened(path, what, remedy, pipe=pipe) as file:
        try:
            for entry in _entries(_JsonText(_decoded(file, pipe)), kinds):
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


def _decoded(file: IO[bytes], pipe: bool) -> Iterator[str]:
    head = file.read(4)
    return codecs.iterdecode(chain([head], _chunks(file, pipe)), json.detect_encoding(head))


def _chunks(file: IO[bytes], pipe: bool) -> Iterator[bytes]:
    count = 0
    while chunk := file.read(CHUNK):
        yield chunk
        count += len(chunk)
        if pipe and count > LONGEST_PIPE:
            raise _TooLongError(f"goes on after {LONGEST_PIPE // MEGABYTE:,} MB, more than is read of a pipe")


class _JsonText:
    """A text that comes in chunks, held from where it is being read."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self.chunks, self.held, self.at = chunks, "", 0

    def more(self, least: int = 1) -> bool:
        """Hold at least so many characters more, if there are any."""
        found, count = [self.held[self.at :]], 0
        while count < least and (chunk := next(self.chunks, None)) is not None:
            found.append(chunk)
            count += len(chunk)
        if count:
            self.held, self.at = "".join(found), 0
        return count > 0

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
        """Step over the next value. What may be cut short by the chunk's end is read again, with as much again.

        So a value of many chunks is read a few times at most, not once for each of them.
        """
        self.peek()
        while True:
            held = len(self.held) - self.at
            try:
                value, end = DECODER.raw_decode(self.held, self.at)
                if len(self.held) - end > 2 or not self.more():  # a number may go on: 1 in "1e+"
                    self.at = end
                    return value
            except json.JSONDecodeError as error:
                if not _is_cut(error):
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
        key = _key(text) if begin == "{" else None
        yield key, text.value()
        mark = text.take(",", end)
    if text.peek():
        raise ValueError("goes on after its end")


def _key(text: _JsonText) -> str:
    if text.peek() != '"':
        raise ValueError("expecting a name in double quotes")
    key: str = text.value()
    text.take(":")
    return key


def _is_cut(error: json.JSONDecodeError) -> bool:
    """Whether more text might mend it: a string without an end, or a fault in the last characters ("-Infinit")."""
    return error.msg.startswith("Unterminated string") or len(error.doc) - error.pos < 10
