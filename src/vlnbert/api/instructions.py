"""What a speaker told of some paths, as one object: printed, looked at, written or taken apart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Any, overload

from vlnbert.errors import listed
from vlnbert.sources.writing import write_json
from vlnbert.tables import Table

SHOWN = 5  # paths that a line names


@dataclass(frozen=True)
class Instruction:
    """What was told of one path."""

    id: str
    scan: str
    path: tuple[str, ...]
    heading: float  # radians, at the start
    distance: float  # metres along the path
    text: str
    log_probability: float  # by the speaker itself
    people: tuple[str, ...] = ()  # what people said of it, if they did
    target: str | None = None  # REVERIE's object

    def values(self) -> dict[str, Any]:
        """As an item of a file in R2R's form."""
        told = {
            "path_id": self.id,
            "scan": self.scan,
            "path": list(self.path),
            "heading": self.heading,
            "distance": self.distance,
            "instructions": [self.text],
            "log_probability": self.log_probability,
        }
        return told | ({} if self.target is None else {"objId": self.target})


class Instructions(Sequence[Instruction]):
    """The instructions of some paths: `print` them, look at them in a notebook, or take `texts` and `to_json()`."""

    def __init__(self, speaker: str, told: Sequence[Instruction], left_out: Sequence[str] = (), note: str = "") -> None:
        """`left_out` are the ids of paths of which nothing usable was told, `note` says why."""
        self.speaker, self._told, self.left_out, self.note = speaker, tuple(told), tuple(left_out), note

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self]

    def to_json(self, indent: int | None = None) -> str:
        """As a JSON list of items in R2R's form."""
        return dumps([one.values() for one in self], indent=indent)

    def write(self, path: str | Path) -> Path:
        """Write that list to a file."""
        write_json(Path(path), [one.values() for one in self])
        return Path(path)

    def table(self) -> Table:
        """A row for each path, with what people said of it where they did."""
        people = any(one.people for one in self)
        rows = [[one.id, one.text, *((one.people[0] if one.people else "",) if people else ())] for one in self]
        names = ["path", "the speaker", *(("people, first",) if people else ())]
        return Table(names, rows, f"{self.speaker}, {len(self):,} paths", note=self.problem)

    @property
    def problem(self) -> str:
        """Which paths were left out, and why, in a line; nothing where none were."""
        return f"left out: {listed(self.left_out, SHOWN)} ({self.note})" if self.left_out else ""

    @overload
    def __getitem__(self, place: int) -> Instruction: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Instruction]: ...
    def __getitem__(self, place: int | slice) -> Instruction | Sequence[Instruction]:
        return self._told[place]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self._told)

    def __len__(self) -> int:
        return len(self._told)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()
