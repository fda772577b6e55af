"""`vlnbert compare`: agents on one split, side by side."""

from pathlib import Path
from typing import Annotated

import tyro

from vlnbert.cli.options import Flag, OptionalSplit


def compare(
    runs: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN ...")]],
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    split: OptionalSplit = None,
    episodes: int = 10,
    seed: int = 0,
    max_steps: int | None = None,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Compare agents on one split: settings that differ, scores side by side, and the episodes where they part.

    All are held against the first. Look at an episode with vlnbert show.

    Example: vlnbert compare runs/a runs/b

    Example: vlnbert compare runs/a random results.json --split r2r/val_unseen --data data

    Args:
        runs: Two or more of: runs' folders, navigators (folders or hub names), agents by name (random, shortest,
            my.py:MyAgent), result files (FILE.json).
        data: The data folder; by default the one that the first run was trained on.
        split: The split to walk, such as val_unseen, with its task where that is not the runs', or r2r; of result files
            alone always. By default the one that chooses the runs' best weights, else r2r/val_unseen.
        episodes: How many of the episodes in which they part to list.
        seed: Of agents that draw lots, such as random.
        max_steps: Steps after which an episode ends; by default as each was trained, else the task's: 15 in R2R.
        device: Where the tensors are, such as cpu or cuda.
        json: Print one JSON object instead of tables, with every episode in which they part.
    """
    from vlnbert.api import comparing
    from vlnbert.cli.options import show
    from vlnbert.runtime import require_within

    require_within(episodes=(episodes, 0, 1_000_000))
    found = comparing.compare(runs, data, split, seed=seed, max_steps=max_steps, device=device)
    if json:
        print(found.to_json())
        return
    for number, table in enumerate(found.tables(episodes)):
        if number:
            print()
        show(table)
