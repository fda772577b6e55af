"""`vlnbert evaluate`: let an agent walk a split, and score it."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.options import DataPath, Flag


def evaluate(
    agent: Literal["random", "stop", "shortest"],
    data: DataPath,
    task: Literal["r2r", "reverie"] = "r2r",
    splits: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--split"])] = ("val_seen", "val_unseen"),
    seed: int = 0,
    limit: int = 15,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Let an agent walk every episode of some splits and print its scores.

    Example: vlnbert evaluate --agent random --task r2r --splits val_unseen --data data

    Args:
        agent: random (R2R's: a random heading, then five steps forward), stop (stays where it starts) or shortest
            (knows the goal: what the graph allows).
        data: Folder with connectivity/ and the task's instructions.
        task: r2r or reverie. The baseline agents name no object.
        splits: The splits to walk. Test splits withhold their goals: they are walked and written, not scored.
        seed: Of the random agent.
        limit: Steps after which an episode ends.
        out: Folder for result files, <task>_<split>_<agent>.json, in the leaderboards' form.
        json: Print one JSON object, keyed by split, instead of a table.
    """
    from json import dumps

    from vlnbert.cli.tables import print_scores
    from vlnbert.environment.environment import Environment
    from vlnbert.errors import UsageError
    from vlnbert.evaluation.evaluate import evaluate_agent
    from vlnbert.evaluation.submission import write_results
    from vlnbert.rollout.baselines import baseline
    from vlnbert.sources.layout import open_folder
    from vlnbert.tasks.episodes import load_episodes
    from vlnbert.world.build import open_world

    if limit < 1:
        raise UsageError(f"--limit {limit} leaves no steps; choose 1 or more")
    folder = open_folder(data)
    paths = {split: folder.split(task, split) for split in splits}  # a wrong name is told before anything is walked
    world = open_world(folder)
    environment, summaries = Environment(world), {}
    for split in paths:
        episodes = load_episodes(folder, world, task, split)
        if agent == "shortest" and not episodes.scored:
            raise UsageError(f"{task} {split} withholds its goals, so nobody knows the shortest path; leave it out")
        result = evaluate_agent(environment, baseline(agent, world, seed), episodes, limit)
        if out is not None:
            target = out / f"{task}_{split}_{agent}.json"
            write_results(target, episodes, world, result.walk.viewpoint, result.walk.length, result.walk.view)
            print(f"wrote {target}", file=sys.stderr)
        if result.scores is not None:
            summaries[split] = result.scores.summary()
    if json:
        print(dumps(summaries))
    elif summaries:
        print_scores(f"{agent} on {task}", summaries)
