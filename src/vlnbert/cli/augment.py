"""`vlnbert augment`: training data that nobody wrote."""

from pathlib import Path
from typing import Annotated

import tyro

from vlnbert.cli.options import DataPath, Flag

OutPath = Annotated[Path, tyro.conf.arg(metavar="FILE")]


def augment_paths(
    data: DataPath,
    out: OutPath,
    count: int | None = None,
    seed: int = 0,
    holdout: int = 0,
    holdout_seed: int = 0,
    json: Flag = False,
) -> None:
    """Write paths of R2R's kind through the train houses, for a speaker to describe.

    Shortest paths of four to six hops and at least 5 m, none that val_seen describes, in the houses of R2R's train
    split alone.

    Example: vlnbert augment paths --data data --out paths.json --count 75000

    Args:
        data: Folder with connectivity/ and r2r/.
        out: The file to write, in R2R's form without instructions; an older one is replaced.
        count: How many; all of them by default. Fewer are the first of more.
        seed: Chooses them, and the heading at each start.
        holdout: Houses of the train split to keep out, as in a training with --holdout: 6 of them, say.
        holdout_seed: Chooses those houses.
        json: Print one JSON object instead of a line: paths, known, described.
    """
    from json import dumps

    from vlnbert.api import augmenting

    found = augmenting.augment_paths(data, out, count, seed=seed, holdout=holdout, holdout_seed=holdout_seed)
    if json:
        print(dumps({"paths": len(found), "known": found.known, "described": found.described}))
    else:
        print(f"{out}: {len(found):,} of {found.known:,} paths; {found.described:,} left out, val_seen describes them")
