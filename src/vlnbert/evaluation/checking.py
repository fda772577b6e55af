"""Results against the episodes they claim to solve: every instruction known, every start right, every leg an edge."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.errors import Faults, VlnbertError, listed
from vlnbert.evaluation.results import Result, ResultFile
from vlnbert.sources.instructions import is_augmented
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes, check_longest, pad_paths
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World

NAMED = 3  # ids that a line about many of them shows


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
        faults.add("", problem, _which_split(file.ids, episodes, folder))
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
                continue  # a million paths that nobody submits; not worth reading to make a guess
            with suppress(VlnbertError):  # another split's faults are not this file's
                known = {record.id for record in TASKS[other].read(path)}
                shared = len(ids & known)
                found.append((shared, shared / len(known), other, split))
    shared, _, other, split = max(found, key=lambda guess: guess[:2], default=(0, 0.0, "", ""))
    return (other, split) if 2 * shared > len(ids) else None


def _which_split(ids: set[str], episodes: Episodes, folder: DataFolder | None) -> str:
    guess = guess_split(ids, episodes.task, folder) if folder is not None else None
    if guess is None:
        return "name the task and split that these results are of"
    task, split = guess
    return f"looks like {task}/{split}: name that task and split"


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
