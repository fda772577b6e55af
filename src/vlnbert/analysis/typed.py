"""Instructions that somebody typed, from any start, as episodes that an agent can walk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vlnbert.errors import UsageError
from vlnbert.tasks.episodes import Episodes, pad_paths
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import STOP, World


@dataclass(frozen=True)
class WalkRequest:
    """An instruction to follow from a start, and the goal where the one who typed it tells."""

    scan: str
    start: str  # viewpoint
    text: str
    heading: float = 0.0  # radians
    goal: str | None = None  # viewpoint; in tasks that look for an object, one that shows it


def typed_episodes(world: World, requests: Sequence[WalkRequest], task: str) -> Episodes:
    """The requests as episodes of no split; one without a goal has its start alone, as those of test splits have."""
    paths = [_path(world, request) for request in requests]
    hops = pad_paths(paths)
    return Episodes(
        task=task,
        split="",
        ids=tuple(str(number) for number in range(len(requests))),
        texts=tuple(request.text for request in requests),
        tokens=(None,) * len(requests),
        targets=(None,) * len(requests),
        start=hops[:, 0],
        heading=torch.tensor([request.heading for request in requests], dtype=torch.float64),
        path=hops,
        path_length=torch.tensor([len(path) for path in paths], dtype=torch.long),
        sightings=hops[:, -1:] if TASKS[task].sees_objects else None,
    ).to(world.device)


def _path(world: World, request: WalkRequest) -> list[int]:
    """The shortest path to the goal, or the start alone."""
    if not request.text.strip():
        raise UsageError("the instruction has no words; write what to do")
    if not math.isfinite(request.heading):
        raise UsageError(f"the heading is {request.heading}; give a number of radians")
    if request.goal == request.start:
        raise UsageError("the goal is the start; choose another goal, or none")
    path = [world.find(request.scan, request.start)]
    if request.goal is None:
        return path
    goal = torch.tensor([world.find(request.scan, request.goal)], device=world.device)
    while path[-1] != int(goal):
        here = torch.tensor([path[-1]], device=world.device)
        slot = int(world.slot_toward(here, goal))
        if slot == STOP:
            raise UsageError(f"no way leads from {request.start} to {request.goal}; choose another goal")
        path.append(int(world.neighbour[path[-1], slot]))
    return path
