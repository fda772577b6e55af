"""Result files in every dialect in use, read into one kind of record; `Notes` says what had to be converted.

The common form is a list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}, with "predObjId" in
REVERIE. Others leave the angles out (["a", "b"] or [["a"], ["b"]]), nest the legs of a long hop ([["a"], ["b", "c"]]),
write "pred_objid", key trajectories by instruction, or repeat an instruction.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, Faults
from vlnbert.sources.files import Entry, is_name, is_number, stream_json_entries

Angles = tuple[float, float]  # heading, elevation in radians
Leg = tuple[str, Angles | None]

EXAMPLE = 'write a list of {"instr_id": ..., "trajectory": [[viewpoint, heading, elevation], ...]}'
HOP = "give a viewpoint, [viewpoint, heading, elevation], or the list of viewpoints of a long hop"
LONGEST = 1000  # viewpoints of a trajectory; all are held at the length of the longest


@dataclass(frozen=True, slots=True)
class Result:
    """What an agent did with one instruction."""

    id: str
    path: tuple[str, ...]  # viewpoints, one after the other; a turn in place repeats one
    angles: tuple[Angles | None, ...]  # how the agent looked at each of them, where the file says
    predicted_object: str | None = None  # in REVERIE


@dataclass
class Notes:
    """What was done to a file to read it."""

    keyed: int = 0
    alone: int = 0
    nested: int = 0
    respelled: int = 0
    turning: int = 0
    repeated: int = 0
    different: int = 0
    more: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """In words, one line a conversion; nothing where there was none."""
        dropped = _counted(self.repeated, "repeated entry", "repeated entries")
        said = [
            (self.keyed, f"{_counted(self.keyed, 'trajectory', 'trajectories')} keyed by instruction, not listed"),
            (self.alone, f"{_counted(self.alone, 'trajectory', 'trajectories')} of viewpoints alone"),
            (self.nested, f"{_counted(self.nested, 'nested hop', 'nested hops')} expanded"),
            (self.respelled, f"{_counted(self.respelled, 'object', 'objects')} spelled pred_objid"),
            (
                self.turning,
                f"{_counted(self.turning, 'trajectory', 'trajectories')} with turns in place, kept as steps",
            ),
            (self.repeated, f"{dropped} dropped, {self.different:,} of them different; the first of each is kept"),
        ]
        return [line for count, line in said if count] + self.more


@dataclass
class ResultFile:
    """The first result of every instruction, in file order, and the instructions that the file mentions at all."""

    results: list[Result] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)  # those of unreadable entries too: they are not missing
    notes: Notes = field(default_factory=Notes)


def read_results(path: Path, faults: Faults) -> ResultFile:
    """Read a result file of any dialect; what is wrong with single entries is added to `faults`."""
    entries = iter(stream_json_entries(path, "result file", EXAMPLE))
    first = list(islice(entries, 1))
    if any(_is_asked(item) for _, item in first):
        raise DataError(path, "holds instructions, not what an agent did with them", "name a result file")
    file = parse_entries(chain(first, entries), faults)
    if not file.ids and not faults.found:
        raise DataError(path, "holds no results", EXAMPLE)
    return file


def _is_asked(item: Any) -> bool:
    """Whether an item is of an instruction file."""
    return isinstance(item, dict) and "instructions" in item and "instr_id" not in item and "trajectory" not in item


def parse_results(document: list[Any] | dict[str, Any], faults: Faults) -> ResultFile:
    """The same from a JSON document that was read already."""
    items: Iterable[Entry] = document.items() if isinstance(document, dict) else ((None, item) for item in document)
    return parse_entries(items, faults)


def parse_entries(entries: Iterable[Entry], faults: Faults) -> ResultFile:
    """The same from the items of a list, or from values with their keys, of which some may repeat."""
    file, kept = ResultFile(), dict[str, Result]()
    for index, (key, item) in enumerate(entries):
        file.notes.keyed += key is not None
        named = _named(key, item)
        if named is None:
            faults.add(f"item {index}", "is not an object with an 'instr_id'", EXAMPLE)
            continue
        name, content = named
        file.ids.add(name)
        if fault := _fault(content):
            faults.add(f"instruction {name}", *fault)
            continue
        result = _result(name, content)
        if first := kept.get(name):
            file.notes.repeated += 1
            file.notes.different += (first.path, first.predicted_object) != (result.path, result.predicted_object)
        else:
            kept[name] = result
            _note(result, content, file.notes)
    file.results = list(kept.values())
    return file


def _named(key: str | None, item: Any) -> tuple[str, dict[str, Any]] | None:
    """The instruction and what was done with it, by either way of writing that down."""
    if key is not None:
        return (str(key), item if isinstance(item, dict) else {"trajectory": item}) if is_name(key) else None
    given: Any = item.get("instr_id") if isinstance(item, dict) else None
    return (str(given), item) if is_name(given) else None


def _fault(item: dict[str, Any]) -> tuple[str, str] | None:
    """The problem with an item and its remedy, if it has one."""
    trajectory, target = item.get("trajectory"), item.get(_spelling(item))
    if not isinstance(trajectory, list):
        return "has no 'trajectory' that is a list", EXAMPLE
    if not trajectory:
        return "has an empty trajectory", "give at least the start viewpoint"
    hops = sum(len(hop) if _is_nested(hop) else 1 for hop in trajectory)  # counted before any is expanded
    if hops > LONGEST:
        return f"has a trajectory of {hops:,} hops", f"no agent takes more than {LONGEST:,}"
    for number, hop in enumerate(trajectory):
        if not _legs(hop):
            return f"hop {number} of its trajectory has no known shape", HOP
    if target is not None and not is_name(target):
        return f"'{_spelling(item)}' is not an object id", "give a whole number, a string or null"
    return None


def _result(name: str, item: dict[str, Any]) -> Result:
    legs = [leg for hop in item["trajectory"] for leg in _legs(hop)]
    target = item.get(_spelling(item))
    path, angles = tuple(name for name, _ in legs), tuple(angles for _, angles in legs)
    return Result(name, path, angles, None if target is None else str(target))


def _note(result: Result, item: dict[str, Any], notes: Notes) -> None:
    notes.alone += not any(result.angles)
    notes.nested += sum(len(_legs(hop)) > 1 for hop in item["trajectory"])
    notes.respelled += _spelling(item) in item and _spelling(item) != "predObjId"
    notes.turning += any(here == there for here, there in zip(result.path, result.path[1:], strict=False))


def _spelling(item: dict[str, Any]) -> str:
    return "predObjId" if "predObjId" in item else "pred_objid"


def _is_nested(hop: Any) -> bool:
    """Whether a hop may be the list of its viewpoints."""
    return isinstance(hop, list) and len(hop) > 1 and isinstance(hop[1], str)


def _legs(hop: Any) -> list[Leg]:
    """The viewpoints of a hop, none where its shape is unknown. [a, b, c] is three, [a, 0.5, 0] is one with angles."""
    if isinstance(hop, str):
        return [(hop, None)]
    if not isinstance(hop, list) or not hop or not isinstance(hop[0], str):
        return []
    if all(isinstance(name, str) for name in hop):
        return [(name, None) for name in hop]
    if len(hop) == 3 and is_number(hop[1]) and is_number(hop[2]):
        return [(hop[0], (float(hop[1]), float(hop[2])))]
    return []


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
