"""Result files: read in every dialect in use, checked against the episodes of a split, and written for leaderboards.

The common form is a list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}, with "predObjId" in
REVERIE. Others leave the angles out (["a", "b"] or [["a"], ["b"]]), nest the legs of a long hop ([["a"], ["b", "c"]]),
write "pred_objid", key trajectories by instruction, or repeat an instruction. `Notes` says what was converted.

Files are written in the common form and in the order of the split, "predObjId" being a number or null. The angles are
those of the view that the simulator faces: the level view nearest to the start heading, then the view that showed each
viewpoint to the agent that moved there.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import DataError, Faults, VlnbertError, listed
from vlnbert.rollout.episodes import Trajectories
from vlnbert.sources.files import is_name, is_number, stream_json_entries
from vlnbert.sources.instructions import is_augmented
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.writing import write_json
from vlnbert.tasks.episodes import Episodes, check_longest, pad_paths
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import STOP, World, level_view, view_elevation, view_heading

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
        trajectories = "trajectory", "trajectories"
        conversions = [
            (self.keyed, trajectories, "keyed by instruction, not listed"),
            (self.alone, trajectories, "of viewpoints alone"),
            (self.nested, ("nested hop", "nested hops"), "expanded"),
            (self.respelled, ("object", "objects"), "spelled pred_objid"),
            (self.turning, trajectories, "with turns in place, kept as steps"),
            (
                self.repeated,
                ("repeated entry", "repeated entries"),
                f"dropped, {self.different:,} of them different; the first of each is kept",
            ),
        ]
        lines = [f"{count:,} {nouns[count > 1]} {words}" for count, nouns, words in conversions if count]
        return lines + self.more


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
    file, kept = ResultFile(), dict[str, Result]()
    notes = file.notes
    for index, (key, item) in enumerate(chain(first, entries)):
        notes.keyed += key is not None
        entry: dict[str, Any] = item if isinstance(item, dict) else {} if key is None else {"trajectory": item}
        given = entry.get("instr_id") if key is None else key
        if not is_name(given):
            faults.add(f"item {index}", "is not an object with an 'instr_id'", EXAMPLE)
            continue
        name = str(given)
        file.ids.add(name)
        spelling = "predObjId" if "predObjId" in entry else "pred_objid"
        trajectory: Any = entry.get("trajectory")
        target = entry.get(spelling)
        fault = _trajectory_fault(trajectory)
        if fault is None and target is not None and not is_name(target):
            fault = f"'{spelling}' is not an object id", "give a whole number, a string or null"
        if fault is not None:
            faults.add(f"instruction {name}", *fault)
            continue
        hops = [_legs(hop) for hop in trajectory]
        legs = [leg for hop in hops for leg in hop]
        viewpoints, angles = tuple(viewpoint for viewpoint, _ in legs), tuple(leg_angles for _, leg_angles in legs)
        result = Result(name, viewpoints, angles, None if target is None else str(target))
        if earlier := kept.get(name):
            notes.repeated += 1
            notes.different += (earlier.path, earlier.predicted_object) != (result.path, result.predicted_object)
            continue
        kept[name] = result
        notes.alone += not any(result.angles)
        notes.nested += sum(len(hop) > 1 for hop in hops)
        notes.respelled += "pred_objid" in entry and "predObjId" not in entry
        notes.turning += any(here == there for here, there in pairwise(result.path))
    if not file.ids and not faults.found:
        raise DataError(path, "holds no results", EXAMPLE)
    file.results = list(kept.values())
    return file


def _trajectory_fault(trajectory: Any) -> tuple[str, str] | None:
    """The problem with a trajectory and its remedy, if it has one."""
    if not isinstance(trajectory, list):
        return "has no 'trajectory' that is a list", EXAMPLE
    if not trajectory:
        return "has an empty trajectory", "give at least the start viewpoint"
    # Hops are counted before any is expanded; one with a second name lists its viewpoints.
    nested = [isinstance(hop, list) and len(hop) > 1 and isinstance(hop[1], str) for hop in trajectory]
    hops = sum(len(hop) if several else 1 for hop, several in zip(trajectory, nested, strict=True))
    if hops > LONGEST:
        return f"has a trajectory of {hops:,} hops", f"no agent takes more than {LONGEST:,}"
    for number, hop in enumerate(trajectory):
        if not _legs(hop):
            return f"hop {number} of its trajectory has no known shape", HOP
    return None


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


def bind_walks(results: Sequence[Result], episodes: Episodes, world: World, faults: Faults) -> Walks:
    """Turn the results of known instructions into tensors; faulty ones are added to `faults` and left out."""
    starts, scans = episodes.start.tolist(), world.scan_of[episodes.start].tolist()
    row_of = {name: row for row, name in enumerate(episodes.ids)}
    bound: list[tuple[int, list[int], Result]] = []
    for result in results:
        row = row_of.get(result.id)
        if row is None:  # `check_names` reports it
            continue
        place, scan = f"instruction {result.id}", world.scans[scans[row]]
        numbers = [world.numbers.get((scan, viewpoint), -1) for viewpoint in result.path]
        if -1 in numbers:
            problem = f"viewpoint {result.path[numbers.index(-1)]} is not in the graph of scan {scan}"
            faults.add(place, problem, "use the viewpoints of the episode's scan")
            continue
        if numbers[0] != starts[row]:
            problem = f"starts at {result.path[0]}, not at {world.viewpoints[starts[row]]}"
            faults.add(place, problem, "a trajectory begins where its episode does")
        bound.append((row, numbers, result))
    bound.sort(key=lambda walk: walk[0])
    check_longest([numbers for _, numbers, _ in bound], [result.id for _, _, result in bound], faults)
    walks = Walks(
        row=torch.tensor([row for row, _, _ in bound], dtype=torch.long, device=world.device),
        walked=pad_paths([numbers for _, numbers, _ in bound]).to(world.device),
        length=torch.tensor([len(numbers) for _, numbers, _ in bound], dtype=torch.long, device=world.device),
        results=tuple(result for _, _, result in bound),
    )
    apart = (~world.joined(walks.walked[:, :-1], walks.walked[:, 1:])).nonzero().tolist()
    # One line an instruction is enough to find the others.
    for walk, hop in sorted(dict(reversed(apart)).items()):
        result = walks.results[walk]
        problem = f"goes from {result.path[hop]} to {result.path[hop + 1]}, which no edge joins"
        faults.add(f"instruction {result.id}", problem, "list every viewpoint on the way")
    return walks


def guess_split(ids: set[str], task: str, folder: DataFolder) -> tuple[str, str] | None:
    """The task and split that have most of these instructions, if any has more than half of them."""
    found = []
    # Ids of the tasks may coincide: the one meant comes first.
    for other in sorted(TASKS, key=lambda name: name != task):
        for split, path in TASKS[other].files(folder).items():
            # A million augmented paths have no submissions.
            if is_augmented(path):
                continue
            # Another split's faults are not this file's.
            with suppress(VlnbertError):
                known = {record.id for record in TASKS[other].read(path)}
                shared = len(ids & known)
                found.append((shared, shared / len(known), other, split))
    shared, _, other, split = max(found, key=lambda guess: guess[:2], default=(0, 0.0, "", ""))
    return (other, split) if 2 * shared > len(ids) else None


@dataclass(frozen=True)
class Submission:
    """A file for a leaderboard, and what was converted to make it."""

    path: Path
    results: int
    notes: Notes


def write_results(
    path: Path,
    episodes: Episodes,
    world: World,
    walked: Trajectories,
    predicted_objects: Sequence[str | None] | None = None,
) -> None:
    """Write what agents did in all episodes and, in REVERIE, an object each."""
    write_json(path, _items(episodes, _hops(world, walked.viewpoint, walked.length, walked.view), predicted_objects))


def write_submission(
    source: Path, target: Path, episodes: Episodes, world: World, folder: DataFolder | None = None
) -> Notes:
    """Read results of any dialect, check that they are a whole split, and write them in the canonical form.

    Angles that the source gives are kept, the others are filled in. The notes say what was converted.
    """
    faults = Faults(source)
    file = read_results(source, faults)
    check_names(file, episodes, faults, folder)
    check_complete(file, episodes, faults, "run the agent on those too: a leaderboard takes only whole splits")
    if file.notes.different:
        problem = f"{file.notes.different:,} repeated entries differ from the first of their instruction"
        faults.add("", problem, "keep the one that is to be submitted")
    walks = bind_walks(file.results, episodes, world, faults)
    named = [result.predicted_object for result in walks.results]
    if TASKS[episodes.task].sees_objects:
        for result in walks.results:
            if result.predicted_object is not None and not _is_number(result.predicted_object):
                problem = f"predicts object '{result.predicted_object}', which is not a number"
                faults.add(f"instruction {result.id}", problem, "give an object id of the BBox files, or null")
        if without := named.count(None):
            file.notes.more.append(f"{without:,} of {len(named):,} results have no predObjId: they ground nothing")
    faults.raise_if_any()
    views = arrival_views(world, episodes.heading[walks.row], walks.walked)
    trajectories = _hops(world, walks.walked, walks.length, views)
    for trajectory, result in zip(trajectories, walks.results, strict=True):
        for hop, given in zip(trajectory, result.angles, strict=True):
            hop[1:] = given or hop[1:]
    write_json(target, _items(episodes, trajectories, named))
    return file.notes


def arrival_views(world: World, heading: Tensor, walked: Tensor) -> Tensor:
    """[episode, hop] the view that an agent faces at each viewpoint, from its start heading and where it went."""
    view = level_view(heading)
    views = [view]
    for before, after in zip(walked.unbind(dim=1), walked[:, 1:].unbind(dim=1), strict=False):
        slot = (world.neighbour[before] == after[:, None]).int().argmax(dim=1)
        # Staying does not turn.
        view = torch.where(slot == STOP, view, world.view[before, slot])
        views.append(view)
    return torch.stack(views, dim=1)


def _hops(world: World, walked: Tensor, length: Tensor, views: Tensor) -> list[list[list[Any]]]:
    """[episode] hops, each [viewpoint, heading, elevation]."""
    headings, elevations = view_heading(views.double()).tolist(), view_elevation(views.double()).tolist()
    return [
        [[world.viewpoints[number], *angles] for number, *angles in zip(*hops, strict=True)][:real]
        for real, *hops in zip(length.tolist(), walked.tolist(), headings, elevations, strict=True)
    ]


def _items(
    episodes: Episodes, trajectories: list[list[list[Any]]], predicted_objects: Sequence[str | None] | None
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [
        {"instr_id": name, "trajectory": trajectory}
        for name, trajectory in zip(episodes.ids, trajectories, strict=True)
    ]
    if TASKS[episodes.task].sees_objects:
        for item, name in zip(items, predicted_objects or [None] * len(items), strict=True):
            item["predObjId"] = int(name) if name is not None and _is_number(name) else name
    return items


def _is_number(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdecimal()
