"""Result files in every dialect in use: read into one kind of record, and checked against the episodes of a split.

The common form is a list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}, with "predObjId" in
REVERIE. Others leave the angles out (["a", "b"] or [["a"], ["b"]]), nest the legs of a long hop ([["a"], ["b", "c"]]),
write "pred_objid", key trajectories by instruction, or repeat an instruction. `Notes` says what was converted.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import DataError, Faults, VlnbertError, listed
from vlnbert.sources.files import Entry, is_name, is_number, stream_json_entries
from vlnbert.sources.instructions import is_augmented
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes, check_longest, pad_paths
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World

Angles = tuple[float, float]  # heading, elevation in radians
Leg = tuple[str, Angles | None]

EXAMPLE = 'write a list of {"instr_id": ..., "trajectory": [[viewpoint, heading, elevation], ...]}'
HOP = "give a viewpoint, [viewpoint, heading, elevation], or the list of viewpoints of a long hop"
LONGEST = 1000  # viewpoints of a trajectory; all are held at the length of the longest
NAMED = 3  # ids that a line about many of them shows


@dataclass(frozen=True, slots=True)
class Result:
    """The walk of an agent by one instruction, and the object that it named."""

    id: str
    path: tuple[str, ...]  # viewpoints, one after the other; a turn in place repeats one
    angles: tuple[Angles | None, ...]  # how the agent looked at each of them, where the file says
    predicted_object: str | None = None  # in REVERIE


@dataclass
class Notes:
    """Counts of the conversions that it took to read a file."""

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
    """Read a result file of any dialect; errors in single entries are added to `faults`."""
    entries = iter(stream_json_entries(path, "result file", EXAMPLE))
    first = list(islice(entries, 1))
    keys = {key for _, item in first if isinstance(item, dict) for key in item}
    if "instructions" in keys and not keys & {"instr_id", "trajectory"}:
        raise DataError(path, "holds instructions, not what an agent did with them", "name a result file")
    file = parse_entries(chain(first, entries), faults)
    if not file.ids and not faults.found:
        raise DataError(path, "holds no results", EXAMPLE)
    return file


def parse_results(document: list[Any] | dict[str, Any], faults: Faults) -> ResultFile:
    """Read results from a JSON document in memory."""
    items: Iterable[Entry] = document.items() if isinstance(document, dict) else ((None, item) for item in document)
    return parse_entries(items, faults)


def parse_entries(entries: Iterable[Entry], faults: Faults) -> ResultFile:
    """Read results from the items of a list, or from values with their keys; keys may repeat."""
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
    """The instruction's id and its entry, from either form of file; None without an id."""
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
    # Hops are counted before any is expanded; one with a second name lists its viewpoints.
    nested = (isinstance(hop, list) and len(hop) > 1 and isinstance(hop[1], str) for hop in trajectory)
    hops = sum(len(hop) if several else 1 for hop, several in zip(trajectory, nested, strict=True))
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


@dataclass(frozen=True)
class Walks:
    """Checked results in the order of the split, one row each."""

    row: Tensor  # [walk] the episode of each
    walked: Tensor  # [walk, hop] viewpoints; the last one repeats as padding
    length: Tensor  # [walk] viewpoints in each
    results: tuple[Result, ...]


def check_names(file: ResultFile, episodes: Episodes, faults: Faults, folder: DataFolder | None = None) -> None:
    """Add the instructions that the split does not have; a file of another split is refused at once, by one line."""
    unknown = sorted(file.ids.difference(episodes.ids))
    split = f"{episodes.task} {episodes.split}"
    if 2 * len(unknown) > len(file.ids):
        problem = (
            f"{len(unknown):,} of its {len(file.ids):,} instructions are not in {split} ({listed(unknown, NAMED)})"
        )
        guess = guess_split(file.ids, episodes.task, folder) if folder is not None else None
        remedy = "name the task and split that these results are of"
        if guess is not None:
            remedy = f"looks like {'/'.join(guess)}: name that task and split"
        faults.add("", problem, remedy)
        faults.raise_if_any()
    for name in unknown:
        faults.add(f"instruction {name}", f"is not in {split}", "remove it, or name the split it belongs to")


def check_complete(file: ResultFile, episodes: Episodes, faults: Faults, remedy: str) -> None:
    """Add one line for all the instructions of the split that the file leaves out."""
    missing = [name for name in episodes.ids if name not in file.ids]
    if missing:
        whole = f"{len(episodes):,} instructions of {episodes.task} {episodes.split}"
        faults.add("", f"lacks {len(missing):,} of the {whole} ({listed(missing, NAMED)})", remedy)


def bind_walks(results: Iterable[Result], episodes: Episodes, world: World, faults: Faults) -> Walks:
    """Turn the results of known instructions into tensors; faulty ones are added to `faults` and left out."""
    row_of = {name: row for row, name in enumerate(episodes.ids)}
    starts, scans = episodes.start.tolist(), world.scan_of[episodes.start].tolist()
    bound: list[tuple[int, list[int], Result]] = []
    for result in results:
        row = row_of.get(result.id)
        if row is None:
            continue  # `check_names` reports them
        numbers = _numbers(result, world, world.scans[scans[row]], faults)
        if numbers and numbers[0] != starts[row]:
            problem = f"starts at {result.path[0]}, not at {world.viewpoints[starts[row]]}"
            faults.add(f"instruction {result.id}", problem, "a trajectory begins where its episode does")
        if numbers:
            bound.append((row, numbers, result))
    bound.sort(key=lambda walk: walk[0])
    check_longest([numbers for _, numbers, _ in bound], [result.id for _, _, result in bound], faults)
    walked = pad_paths([numbers for _, numbers, _ in bound]).to(world.device)
    walks = Walks(
        row=torch.tensor([row for row, _, _ in bound], dtype=torch.long, device=world.device),
        walked=walked,
        length=torch.tensor([len(numbers) for _, numbers, _ in bound], dtype=torch.long, device=world.device),
        results=tuple(result for _, _, result in bound),
    )
    _check_edges(walks, world, faults)
    return walks


def guess_split(ids: set[str], task: str, folder: DataFolder) -> tuple[str, str] | None:
    """The task and split that have most of these instructions, if any has more than half of them."""
    found = []
    for other in sorted(TASKS, key=lambda name: name != task):  # ids of the tasks may coincide: the one meant is first
        for split, path in TASKS[other].files(folder).items():
            if is_augmented(path):
                continue  # a million paths, of which there are no submissions
            with suppress(VlnbertError):  # another split's faults are not this file's
                known = {record.id for record in TASKS[other].read(path)}
                shared = len(ids & known)
                found.append((shared, shared / len(known), other, split))
    shared, _, other, split = max(found, key=lambda guess: guess[:2], default=(0, 0.0, "", ""))
    return (other, split) if 2 * shared > len(ids) else None


def _numbers(result: Result, world: World, scan: str, faults: Faults) -> list[int]:
    """The viewpoints of a path, or none of them where one is unknown."""
    numbers = [world.numbers.get((scan, viewpoint), -1) for viewpoint in result.path]
    if -1 not in numbers:
        return numbers
    problem = f"viewpoint {result.path[numbers.index(-1)]} is not in the graph of scan {scan}"
    faults.add(f"instruction {result.id}", problem, "use the viewpoints of the episode's scan")
    return []


def _check_edges(walks: Walks, world: World, faults: Faults) -> None:
    joined = world.joined(walks.walked[:, :-1], walks.walked[:, 1:])
    reported = set[int]()
    for walk, hop in (~joined).nonzero().tolist():
        if walk not in reported:  # one line an instruction is enough to find the others
            result = walks.results[walk]
            problem = f"goes from {result.path[hop]} to {result.path[hop + 1]}, which no edge joins"
            faults.add(f"instruction {result.id}", problem, "list every viewpoint on the way")
        reported.add(walk)
