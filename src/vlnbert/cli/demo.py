"""`vlnbert demo` and `vlnbert house`: houses to walk in, and a navigator that learns to walk them."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.options import show, tell
from vlnbert.cli.train import end_stopped


def demo(
    out: Path = Path("demo"),
    task: Literal["r2r", "reverie"] = "r2r",
    seed: int = 0,
    scans: int = 24,
    iterations: int | None = None,
    threads: int = 1,
) -> None:
    """Make houses, train a tiny navigator in them, and show how it walks houses it has never seen.

    Needs no data and no network, and takes about three minutes on two cores (REVERIE four). Interrupted, it goes on
    where it was when run again. Open the report in a browser when it is done.

    Example: vlnbert demo --out demo

    Example: vlnbert demo --task reverie

    Args:
        out: Folder for the houses, the run and the report. What an earlier demo left there serves again.
        task: r2r (go there) or reverie (go there and name the object).
        seed: Chooses the houses and the training.
        scans: How many houses to make; about two in three are for training.
        iterations: Updates of the navigator's weights; by default as many as the task's preset has.
        threads: CPU threads. So small a navigator gains nothing from a second.
    """

    from vlnbert.api import demonstrating

    shown = demonstrating.demo(out, task, seed=seed, scans=scans, iterations=iterations, threads=threads)
    if shown.run.interrupted:
        end_stopped(shown.run, f"the same command (--out {out})")
    show(shown.table())
    tell(f"open {shown.report} in a browser")


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
    tell(f"{folder}: {summary.scans} houses, {summary.viewpoints:,} viewpoints, {summary.objects:,} objects")
    for task, splits in summary.episodes.items():
        tell(f"  {task}: " + ", ".join(f"{count:,} {split}" for split, count in splits.items()) + " instructions")
