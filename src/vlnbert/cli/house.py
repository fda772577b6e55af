"""`vlnbert house`: make a house to walk in."""

from pathlib import Path
from typing import Annotated

import tyro


def house(
    folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR")]],
    seed: int = 0,
    scans: int = 24,
) -> None:
    """Generate houses with rooms, objects and instructions, in exactly the formats of the real data.

    The folder then serves wherever a data folder is asked for. The same seed gives the same houses on every machine.

    Example: vlnbert house my-house --seed 1 --scans 12

    Args:
        folder: Where to write; must be new or empty.
        seed: Chooses the houses.
        scans: How many houses; about two in three are for training, the others are unseen.
    """
    from vlnbert.house import generate

    summary = generate(folder, seed=seed, scans=scans)
    print(f"{folder}: {summary.scans} houses, {summary.viewpoints:,} viewpoints, {summary.objects:,} objects")
    for task, splits in summary.episodes.items():
        print(f"  {task}: " + ", ".join(f"{count:,} {split}" for split, count in splits.items()) + " instructions")
