"""What can go wrong, in words a user can act on.

Every fault that a user can cause is a `VlnbertError`. The command line prints its text, one line a fault, and exits
with code 2; a library user catches it by type. Readers collect the faults of a file in a `Faults` and raise once, so
that a file can be mended in one go.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

SHOWN_FAULTS = 20  # a file that is wrong everywhere need not fill the screen


class VlnbertError(Exception):
    """The root of everything vlnbert raises on purpose."""


class DataError(VlnbertError):
    """A file or folder is missing, damaged or does not fit the others."""

    def __init__(self, path: Path | str, problem: str, remedy: str, place: str = "") -> None:
        self.path, self.place, self.problem, self.remedy = Path(path), place, problem, remedy
        super().__init__(_line(path, place, problem, remedy))


class InvalidFileError(DataError):
    """A file has one fault or many; `faults` lists them all."""

    def __init__(self, path: Path | str, faults: list["Fault"]) -> None:
        self.faults = faults
        first = faults[0]
        super().__init__(path, first.problem, first.remedy, first.place)
        lines = [_line(path, fault.place, fault.problem, fault.remedy) for fault in faults[:SHOWN_FAULTS]]
        if len(faults) > SHOWN_FAULTS:
            lines.append(f"{path}: and {len(faults) - SHOWN_FAULTS:,} more faults of {len(faults):,}")
        self.args = ("\n".join(lines),)


class UnknownNameError(VlnbertError):
    """A name that is not in the catalogue, with the nearest ones that are."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known) or 'none'}"
        super().__init__(f"no {kind} '{name}'; {hint}")


class UsageError(VlnbertError):
    """Options that do not go together, or a value out of range."""


@dataclass(frozen=True)
class Fault:
    place: str
    problem: str
    remedy: str


@dataclass
class Faults:
    """Collects what is wrong with one file; `raise_if_any` reports it all at once."""

    path: Path
    found: list[Fault] = field(default_factory=list)

    def add(self, place: str, problem: str, remedy: str) -> None:
        self.found.append(Fault(place, problem, remedy))

    def raise_if_any(self) -> None:
        if self.found:
            raise InvalidFileError(self.path, self.found)


@contextmanager
def collecting(path: Path) -> Iterator[Faults]:
    """Validate a file in a `with` block: what was added is raised together when the block ends."""
    faults = Faults(path)
    yield faults
    faults.raise_if_any()


def _line(path: Path | str, place: str, problem: str, remedy: str) -> str:
    where = f"{path}: {place}" if place else f"{path}"
    return " ".join(f"{where}: {problem}; {remedy}".split())
