"""`vlnbert submit`: a file for a leaderboard."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.options import DataPath


def submit(
    file: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FILE")]],
    out: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="OUT")]],
    task: Literal["r2r", "reverie"],
    data: DataPath,
    split: str = "test",
) -> None:
    """Check a result file of any dialect and write it as the R2R and REVERIE leaderboards take it.

    The results must be of the whole split, begin at its starts and walk along edges of the graph; angles that the file
    leaves out are filled in. Nothing is written unless all is well.

    Example: vlnbert submit results.json submission.json --task r2r --data data

    Args:
        file: Results in any dialect that `vlnbert score` reads.
        out: Where to write the submission; an older file there is replaced.
        task: Whose leaderboard: r2r or reverie.
        data: Folder with connectivity/ and the task's instructions.
        split: The split that the leaderboard asks for.
    """
    from vlnbert.evaluation.submission import write_submission
    from vlnbert.sources.instructions import read_episodes
    from vlnbert.sources.layout import open_folder
    from vlnbert.tasks.episodes import bind
    from vlnbert.world.build import open_world

    folder = open_folder(data)
    instructions = folder.split(task, split)
    world = open_world(folder)
    # Where targets are visible is the leaderboard's business, so the box files are not read.
    episodes = bind(instructions, read_episodes(task, instructions), world, task, split)
    notes = write_submission(file, out, episodes, world, folder)
    for line in notes.lines():
        print(f"{file}: {line}", file=sys.stderr)
    print(f"{out}: {len(episodes):,} results of {task} {split}")
