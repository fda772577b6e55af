"""Result files in the canonical form: the form of both leaderboards, which every evaluator of the field reads.

A list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}, with "predObjId" (a number or null) in
REVERIE, in the order of the split. The angles are those of the view that the simulator faces: the level view nearest
to the start heading, then the view that showed each viewpoint to the agent that moved there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import Faults
from vlnbert.evaluation.results import Notes, Walks, bind_walks, check_complete, check_names, read_results
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.writing import write_json
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import STOP, World, level_view, view_elevation, view_heading


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
    walked: Tensor,
    walked_length: Tensor,
    views: Tensor | None = None,
    predicted_objects: Sequence[str | None] | None = None,
) -> None:
    """Write what agents did in all episodes: viewpoints and views [episode, hop] and, in REVERIE, an object each.

    Without `views` the agents are taken to have faced where they went.
    """
    views = arrival_views(world, episodes.heading, walked) if views is None else views
    trajectories = _trajectories(world, walked, walked_length, views)
    write_json(path, _items(episodes, trajectories, predicted_objects))


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
    if TASKS[episodes.task].sees_objects:
        _check_objects(walks, file.notes, faults)
    faults.raise_if_any()
    named = [result.predicted_object for result in walks.results]
    write_json(target, _items(episodes, _with_given_angles(walks, episodes, world), named))
    return file.notes


def arrival_views(world: World, heading: Tensor, walked: Tensor) -> Tensor:
    """[episode, hop] the view that an agent faces at each viewpoint, from its start heading and where it went."""
    view = level_view(heading)
    views = [view]
    for before, after in zip(walked.unbind(dim=1), walked[:, 1:].unbind(dim=1), strict=False):
        slot = (world.neighbour[before] == after[:, None]).int().argmax(dim=1)
        view = torch.where(slot == STOP, view, world.view[before, slot])  # staying does not turn
        views.append(view)
    return torch.stack(views, dim=1)


Trajectory = list[list[Any]]  # of [viewpoint, heading, elevation]


def _trajectories(world: World, walked: Tensor, length: Tensor, views: Tensor) -> list[Trajectory]:
    headings, elevations = view_heading(views.double()).tolist(), view_elevation(views.double()).tolist()
    return [
        [[world.viewpoints[number], *angles] for number, *angles in zip(*hops, strict=True)][:real]
        for real, *hops in zip(length.tolist(), walked.tolist(), headings, elevations, strict=True)
    ]


def _with_given_angles(walks: Walks, episodes: Episodes, world: World) -> list[Trajectory]:
    views = arrival_views(world, episodes.heading[walks.row], walks.walked)
    trajectories = _trajectories(world, walks.walked, walks.length, views)
    for trajectory, result in zip(trajectories, walks.results, strict=True):
        for hop, given in zip(trajectory, result.angles, strict=True):
            hop[1:] = given or hop[1:]
    return trajectories


def _items(
    episodes: Episodes, trajectories: list[Trajectory], predicted_objects: Sequence[str | None] | None
) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [
        {"instr_id": name, "trajectory": trajectory}
        for name, trajectory in zip(episodes.ids, trajectories, strict=True)
    ]
    if TASKS[episodes.task].sees_objects:
        for item, name in zip(items, predicted_objects or [None] * len(items), strict=True):
            item["predObjId"] = int(name) if name is not None and _is_number(name) else name
    return items


def _check_objects(walks: Walks, notes: Notes, faults: Faults) -> None:
    for result in walks.results:
        if result.predicted_object is not None and not _is_number(result.predicted_object):
            problem = f"predicts object '{result.predicted_object}', which is not a number"
            faults.add(f"instruction {result.id}", problem, "give an object id of the BBox files, or null")
    if without := sum(result.predicted_object is None for result in walks.results):
        notes.more.append(f"{without:,} of {len(walks.results):,} results have no predObjId: they ground nothing")


def _is_number(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdecimal()
