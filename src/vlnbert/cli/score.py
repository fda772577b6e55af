"""`vlnbert score`: the scores of a result file."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.options import DataPath, Flag
from vlnbert.cli.tables import print_meanings


def score(
    file: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FILE")]],
    task: Literal["r2r", "reverie"],
    split: str,
    data: DataPath,
    json: Flag = False,
    spl_by: Literal["shortest", "reference"] = "shortest",
    allow_missing: Flag = False,
) -> None:
    """Score a result file of any agent against a split.

    Reads every dialect in use: trajectories with angles or of viewpoints alone, nested hops, predObjId or pred_objid,
    a list or an object keyed by instruction. What was converted is said on standard error.

    Example: vlnbert score results.json --task r2r --split val_unseen --data data

    Args:
        file: Results, commonly a JSON list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}.
        task: What the agent was asked: r2r (go there) or reverie (go there and name the object).
        split: The split that the results are of, such as val_seen or val_unseen. Test splits withhold their goals.
        data: Folder with connectivity/ and the task's instructions.
        json: Print one JSON object instead of a table: rates as fractions, tl and ne in metres.
        spl_by: SPL by the shortest path to the goal (the leaderboards) or by the reference path's length (some logs).
        allow_missing: Score the instructions that are there when the file lacks some of the split.
    """
    from json import dumps

    from vlnbert.evaluation.scoring import score_file
    from vlnbert.sources.layout import open_folder
    from vlnbert.tasks.episodes import load_episodes, require_goals
    from vlnbert.world.build import open_world

    folder = open_folder(data)
    instructions = folder.split(task, split)
    world = open_world(folder)
    episodes = load_episodes(folder, world, task, split)
    require_goals(episodes, instructions)
    scored = score_file(file, episodes, world, spl_by, allow_missing, folder)
    for line in scored.notes.lines():
        print(f"{file}: {line}", file=sys.stderr)
    summary = scored.scores.summary()
    if json:
        print(dumps(summary))
    else:
        print_meanings(f"{task} {split} (rates in %)", summary)
