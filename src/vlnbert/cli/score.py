"""`vlnbert score` and `vlnbert submit`: result files of any agent, scored or made ready for a leaderboard."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.options import DataPath, Flag, SplitName, TaskName, show, split_of_task, tell

ResultPath = Annotated[Path, tyro.conf.arg(metavar="FILE")]


def score(
    file: tyro.conf.Positional[ResultPath],
    task: TaskName,
    split: SplitName,
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
        file: Results, commonly a JSON list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}; may
            be a pipe, such as /dev/stdin.
        task: What the agent was asked: r2r (go there), reverie (go there and name the object), r4r (follow the path) or
            a plugin's.
        split: The split that the results are of, such as val_seen or val_unseen. Test splits withhold their goals.
        data: Folder with connectivity/ and the task's instructions.
        json: Print one JSON object instead of a table: rates as fractions, tl and ne in metres.
        spl_by: SPL by the shortest path to the goal (the leaderboards) or by the reference path's length (some logs).
        allow_missing: Score the instructions that are there when the file lacks some of the split.
    """
    from json import dumps

    from vlnbert.api import scoring

    scored = scoring.score(file, data, split_of_task(split, task), spl_by=spl_by, allow_missing=allow_missing)
    for line in scored.notes.lines():
        tell(f"{file}: {line}", aside=True)
    if json:
        print(dumps(scored.summary))
    else:
        show(scored.table())


def submit(
    file: tyro.conf.Positional[ResultPath],
    out: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="OUT")]],
    task: TaskName,
    data: DataPath,
    split: SplitName = "test",
) -> None:
    """Check a result file of any dialect and write it as the R2R and REVERIE leaderboards take it.

    The results must be of the whole split, begin at its starts and walk along edges of the graph; angles that the file
    leaves out are filled in. Nothing is written unless all is well.

    Example: vlnbert submit results.json submission.json --task r2r --data data

    Args:
        file: Results in any dialect that `vlnbert score` reads.
        out: Where to write the submission; an older file there is replaced.
        task: Whose leaderboard, such as r2r or reverie.
        data: Folder with connectivity/ and the task's instructions.
        split: The split that the leaderboard asks for.
    """
    from vlnbert.api import scoring

    name = split_of_task(split, task)
    done = scoring.submit(file, out, data, name)
    for line in done.notes.lines():
        tell(f"{file}: {line}", aside=True)
    tell(f"{out}: {done.results:,} results of {name.replace('/', ' ')}")
