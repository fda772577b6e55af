"""`vlnbert report` and `vlnbert curves`: pictures of a run."""

from pathlib import Path

import tyro

from vlnbert.cli.options import OptionalSplit, RunPath


def report(
    run: tyro.conf.Positional[RunPath],
    out: Path | None = None,
    data: Path | None = None,
    split: OptionalSplit = None,
    episodes: int = 6,
) -> None:
    """Write what a run learned as one HTML file, to look at, to print or to send.

    It tells what was asked, how well it went beside baselines and, on published splits, the paper; how it was learned,
    where it went wrong, and some episodes step by step.

    Example: vlnbert report runs/r2r-open --data data

    Args:
        run: The run's folder.
        out: The file to write; by default report.html in the run's folder.
        data: The data folder, if it lies elsewhere now.
        split: The validation split to walk, such as val_unseen; by default the one that chooses the best weights.
        episodes: How many to show, of the best, the typical and the worst.
    """
    from vlnbert.api import reporting

    print(reporting.report(run, out or run / "report.html", data, split=split, episodes=episodes))


def curves(run: tyro.conf.Positional[RunPath], out: Path | None = None, split: OptionalSplit = None) -> None:
    """Draw the losses of a run and its success rate on a validation split, so far.

    Example: vlnbert curves runs/r2r-open --out curves.svg

    Args:
        run: The run's folder; it may still be learning.
        out: The picture to write, by its ending .svg, .png or .pdf; by default curves.svg in the run's folder.
        split: The validation split to draw, such as val_unseen; by default the one that chooses the best weights.
    """
    from vlnbert.api import reporting

    target = out or run / "curves.svg"
    reporting.curves(run, target, split=split)
    print(target)
