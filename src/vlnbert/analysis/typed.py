"""Instructions that somebody typed, from any start: walked together, and recorded as the episodes of a split are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vlnbert.analysis.episode_record import RecordedEpisode
from vlnbert.analysis.recording import Recorder
from vlnbert.errors import UsageError
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.progress import quiet
from vlnbert.rollout.agents import Agent
from vlnbert.tasks.episodes import Episodes, pad_paths
from vlnbert.tasks.task import R2R, TASKS
from vlnbert.tasks.tokens import tokenise
from vlnbert.world.world import STOP, World


@dataclass(frozen=True)
class WalkRequest:
    """An instruction to follow from a start, and the goal where the one who typed it tells."""

    scan: str
    start: str  # viewpoint
    text: str
    heading: float = 0.0  # radians
    goal: str | None = None  # viewpoint; in tasks that look for an object, one that shows it


def walk_instructions(
    recorder: Recorder,
    agent: Agent,
    requests: Sequence[WalkRequest],
    *,
    task: str = R2R.name,
    max_steps: int | None = None,
    max_tokens: int | None = None,
    dtype: torch.dtype | None = None,
) -> list[RecordedEpisode]:
    """Let an agent follow all of these instructions at once, in one batch; a record for each, in their order.

    Where a goal is told, the walk is scored against the shortest path there. By default the task's limits hold.
    """
    if not requests:
        return []
    asked, world = TASKS[task], recorder.world
    episodes = _episodes(world, requests, task)
    if agent.oracle and any(request.goal is None for request in requests):
        raise UsageError(f"{recorder.agent} must know the goal; give one with every instruction")
    with quiet():
        tokens = None
        if agent.reads_tokens:
            tokenizer = recorder.tokenizer or recorder.data.tokenizer
            tokens = tokenise(episodes, tokenizer, recorder.data.folder.root, max_tokens or asked.max_tokens)
            tokens = tokens.to(world.device)
        found = evaluate_agent(
            recorder.environment,
            agent,
            episodes.to(world.device),
            tokens,
            max_steps=max_steps or asked.max_steps,
            batch=len(requests),
            dtype=dtype,
            record=True,
        )
        return [recorder.episode(found, row, request.goal is not None) for row, request in enumerate(requests)]


def _episodes(world: World, requests: Sequence[WalkRequest], task: str) -> Episodes:
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
    )


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
