"""Errors in words that a user can act on.

Every fault that a user can cause is a `VlnbertError`. The command line prints its text, one line a fault, and exits
with code 2; a library user catches it by type. Readers collect the faults of a file in a `Faults` and raise once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from unicodedata import category

SHOWN_FAULTS = 20  # a file that is wrong everywhere need not fill the screen
MOST_FAULTS = 10_000  # after so many the rest of a file is not read: it is another kind of file
PREFIX = "vlnbert: "  # before every line of the command line
LONGEST_LINE = 500 - len(PREFIX)  # characters of a line that reports a fault
LONGEST_PATH = 250  # of the path in it, whose end is kept
SHOWN_NAMES = 12  # nor need a long catalogue
NEAR = 0.6  # likeness, of at most 1, from which a name may have been meant


class VlnbertError(Exception):
    """The root of everything vlnbert raises on purpose. Its text can be printed, whatever it quotes."""

    repeated: bool | None = None  # whether another rank reports the same; None where there are no others
    one_line = False  # whether the text stays one line, whatever names it quotes

    def __str__(self) -> str:
        # Not that of another base: a KeyError quotes its text.
        text = Exception.__str__(self)
        return "\n".join(cut(printable(line), LONGEST_LINE) for line in ([text] if self.one_line else text.split("\n")))

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross process borders with text and attributes; what an error was made from is not needed again."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


@dataclass(frozen=True)
class Fault:
    """A fault: its place, the problem and the remedy."""

    place: str
    problem: str
    remedy: str
    path: Path | None = None  # of the file, where faults of several are reported together


class DataError(VlnbertError):
    """A file or folder is missing, damaged or does not fit the others."""

    def __init__(self, path: Path | str, problem: str, remedy: str, place: str = "") -> None:
        self.path, self.place, self.problem, self.remedy = Path(path), place, problem, remedy
        self.faults = [Fault(place, problem, remedy)]
        super().__init__(_line(path, self.faults[0]))


class InvalidFileError(DataError):
    """A file has one fault or several; `faults` lists them all."""

    def __init__(self, path: Path | str, faults: list[Fault]) -> None:
        super().__init__(path, faults[0].problem, faults[0].remedy, faults[0].place)
        self.faults = faults
        lines = [_line(path, fault) for fault in faults[:SHOWN_FAULTS]]
        if len(faults) > SHOWN_FAULTS:
            rest = "; the rest was not looked at" if len(faults) >= MOST_FAULTS else ""
            lines.append(f"{_end(path)}: and {len(faults) - SHOWN_FAULTS:,} more faults of {len(faults):,}{rest}")
        self.args = ("\n".join(lines),)


class UnknownNameError(VlnbertError, KeyError):
    """A name that is not in the catalogue, with the nearest ones that are."""

    one_line = True

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        known, name = sorted(known), cut(name, LONGEST_PATH)
        near, more = near_names(name, known), len(known) - SHOWN_NAMES
        some = ", ".join(known[:SHOWN_NAMES]) + (f" and {more:,} more" if more > 0 else "") if known else "none"
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {some}"
        super().__init__(f"no {kind} '{name}'{where and f' in {where}'}; {hint}")


class RenamedError(UnknownNameError):
    """A name that something had, or has elsewhere, with the one that it has here."""

    def __init__(self, kind: str, name: str, now: str) -> None:
        VlnbertError.__init__(self, f"the {kind} {name} is called {now} now")


class UsageError(VlnbertError):
    """Options that do not go together, or a value out of range."""

    one_line = True


@dataclass
class Faults:
    """Collects what is wrong with one file or folder; `raise_if_any` reports it all at once."""

    path: Path
    found: list[Fault] = field(default_factory=list)

    def add(self, place: str, problem: str, remedy: str, path: Path | None = None) -> None:
        """Remember a fault; beyond a great many of them all are raised at once. What is quoted may be of any length."""
        self.found.append(Fault(cut(place, LONGEST_LINE), cut(problem, LONGEST_LINE), remedy, path))
        if len(self.found) >= MOST_FAULTS:
            self.raise_if_any()

    @contextmanager
    def including(self) -> Iterator[None]:
        """Take in what a block finds wrong with a file, to be reported with the rest."""
        try:
            yield
        except DataError as error:
            # These are its own faults, raised because they are many.
            if error.faults is self.found:
                raise
            self.found += [replace(fault, path=fault.path or error.path) for fault in error.faults]
            if len(self.found) >= MOST_FAULTS:
                self.raise_if_any()

    def raise_if_any(self) -> None:
        if self.found:
            raise InvalidFileError(self.path, self.found)


def _in_python(place: str, value: object) -> str:
    name = place.rpartition(".")[2]
    # DIR, FILE and the like are placeholders.
    quoted = isinstance(value, str) and not value.isupper()
    return name if value is None else f"{name}={value!r}" if quoted else f"{name}={value}"


_spelling: ContextVar[Callable[[str, object], str]] = ContextVar("spelling", default=_in_python)


def setting(place: str, value: object = None) -> str:
    """Spell a setting as the user writes it: batch=4 in Python, --training.batch 4 on the command line.

    Args:
        place: Where the setting is in an experiment, such as training.batch; or the name of an argument, such as data.
        value: Its value, if the message shows one.
    """
    return _spelling.get()(place, value)


@contextmanager
def spelling(spell: Callable[[str, object], str]) -> Iterator[None]:
    """Within the block, settings are spelt by a function of their place and a value (None for no value)."""
    token = _spelling.set(spell)
    try:
        yield
    finally:
        _spelling.reset(token)


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The three likeliest known names: first those that contain the name or that it contains, then those spelt alike.

    Of names like training.batch the last words are compared; the same group comes first among equals.
    """
    group, _, word = name.rpartition(".")
    near = []
    for candidate in known:
        other_group, _, other = candidate.rpartition(".")
        # Words of one or two letters are contained in too many names.
        holds = min(len(word), len(other)) > 2 and (word in other or other in word)
        likeness = SequenceMatcher(None, word, other).ratio()
        if holds or likeness >= NEAR:
            near.append((not holds, -likeness, other_group != group, candidate))
    # The same word in another group.
    same = [item for item in near if item[1] == -1]
    return [candidate for *_, candidate in sorted(same or near)[:3]]


def listed(names: Sequence[str], most: int) -> str:
    """The first of many names, with dots for the others."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def printable(text: str) -> str:
    """Text without what would upset or mislead a terminal: what cannot be seen, but for blanks, is spelt out."""
    whole = text.encode(errors="backslashreplace").decode()
    return whole if whole.isprintable() else "".join(map(_spelt, whole))


def printable_text(text: str) -> str:
    """The same for text of several lines, in which tabs are blanks."""
    return "\n".join(printable(line.replace("\t", " ")) for line in text.replace("\r\n", "\n").split("\n"))


def cut(text: str, most: int) -> str:
    """Text that ends at so many characters, with dots where it went on."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _spelt(one: str) -> str:
    if one.isprintable() or category(one) == "Zs":
        return one
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _line(path: Path | str, fault: Fault) -> str:
    """One line of at most so many characters, which ends in what to do."""
    where = f"{_end(fault.path or path)}: {fault.place}" if fault.place else _end(fault.path or path)
    remedy = cut(_spaced(fault.remedy), LONGEST_LINE // 2)
    return f"{cut(_spaced(f'{where}: {fault.problem}'), LONGEST_LINE - len(remedy) - 2)}; {remedy}"


def _spaced(text: str) -> str:
    return printable(" ".join(text.split()))


def _end(path: Path | str) -> str:
    """A path, or the end of a very long one, where the file's name stands."""
    text = printable(str(path))
    return text if len(text) <= LONGEST_PATH else f"...{text[3 - LONGEST_PATH :]}"
