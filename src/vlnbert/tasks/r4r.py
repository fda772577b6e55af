"""R4R: paths of R2R joined in pairs, so that the shortest way no longer follows the instruction.

Jain et al. 2019, "Stay on the Path", arXiv:1905.12255. Two paths of a house are joined where the end of the first lies
less than 3 m, along the graph, from the start of the second: by the shortest way between them, with every pair of their
instructions.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from vlnbert.errors import UsageError
from vlnbert.progress import track
from vlnbert.sources.files import read_json
from vlnbert.sources.instructions import EpisodeRecord, read_r2r
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.writing import write_json
from vlnbert.tasks.task import R2R, TASKS, Described, Task, TeacherMemory, path_teacher, register_task
from vlnbert.world.world import World

JOINED = 3.0  # metres along the graph, less than which end and start must be apart
SPLITS = ("train", "val_seen", "val_unseen")


@register_task
class R4R(Task):
    """Follow a long path, not to its end alone: the teacher goes by the path's viewpoints in their order."""

    name = "r4r"
    max_tokens = 160
    max_steps = 30
    best_metric = "sdtw"

    def read(self, path: Path) -> Iterator[EpisodeRecord]:
        return read_r2r(path)

    def begin_teacher(self, episodes: Described) -> TeacherMemory:
        return episodes.path, episodes.path_length, torch.zeros_like(episodes.path_length)

    def teacher(
        self, world: World, viewpoint: torch.Tensor, memory: TeacherMemory
    ) -> tuple[torch.Tensor, TeacherMemory]:
        return path_teacher(world, viewpoint, memory)


def write_r4r(folder: DataFolder, world: World) -> dict[str, tuple[int, int]]:
    """Write r4r/R4R_<split>.json for each of R2R's splits that has goals; by split, how many paths and instructions."""
    r2r, made = TASKS[R2R.name].files(folder), dict[str, tuple[int, int]]()
    there = [split for split in SPLITS if split in r2r]
    if not there:
        raise UsageError(f"{folder.root} holds none of R2R's {', '.join(SPLITS)}; R4R is made of them")
    for split in there:
        list(read_r2r(r2r[split]))  # a damaged file says so in full before anything is written
        items = list(track(joined_items(read_json(r2r[split], "R2R file"), world), f"r4r {split}"))
        write_json(folder.root / R4R.name / f"R4R_{split}.json", items)
        made[split] = len(items), sum(len(item["instructions"]) for item in items)
    return made


def joined_items(items: list[dict[str, Any]], world: World) -> Iterator[dict[str, Any]]:
    """Every pair of different paths of a house that can be joined, in the order of the file."""
    by_scan = defaultdict[str, list[dict[str, Any]]](list)
    for item in items:
        by_scan[item["scan"]].append(item)
    for scan, paths in by_scan.items():
        numbers = [[world.find(scan, name) for name in item["path"]] for item in paths]
        ends, starts = (torch.tensor([path[place] for path in numbers]) for place in (-1, 0))
        apart = world.metres(ends[:, None], starts[None, :])
        near = (apart < JOINED) & ~torch.eye(len(paths), dtype=torch.bool)
        for first, second in near.nonzero().tolist():
            between = _shortest_path(world, numbers[first][-1], numbers[second][0])
            yield _joined(paths[first], paths[second], [world.viewpoints[number] for number in between[1:]])


def _joined(first: dict[str, Any], second: dict[str, Any], between: list[str]) -> dict[str, Any]:
    """`between` leads from the end of the first path, left out, to the start of the second."""
    return {
        "path_id": f"{first['path_id']}_{second['path_id']}",
        "scan": first["scan"],
        "heading": first["heading"],
        "path": [*first["path"], *between, *second["path"][1:]],
        "instructions": [
            f"{one.strip()} {other.strip()}" for one in first["instructions"] for other in second["instructions"]
        ],
    }


def _shortest_path(world: World, start: int, end: int) -> list[int]:
    path = [start]
    while path[-1] != end:
        slot = int(world.next_slot[int(world.row[path[-1]]) + int(world.column[end])])
        path.append(int(world.neighbour[path[-1], slot]))
    return path
