"""`vlnbert curves`: how a run learns, as a picture."""

from pathlib import Path
from typing import Annotated

import tyro


def curves(
    run: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN")]],
    out: Path | None = None,
    split: str | None = None,
) -> None:
    """Draw the losses of a run and its success rate on a validation split, so far.

    Example: vlnbert curves runs/r2r-open --out curves.svg

    Args:
        run: The run's folder; it may still be learning.
        out: The picture to write, by its ending .svg, .png or .pdf; by default curves.svg in the run's folder.
        split: The validation split to draw, as task/split; by default the one that chooses the best weights.
    """
    from vlnbert.analysis.curves import draw_curves, save_figure
    from vlnbert.errors import DataError, UnknownNameError
    from vlnbert.learning.callbacks import read_log
    from vlnbert.learning.runs import read_run

    experiment = read_run(run).experiment
    split = split or experiment.best_on
    if split not in experiment.validate_on:
        raise UnknownNameError("validation split", split, experiment.validate_on)
    path = run / "log.jsonl"
    if not path.is_file():
        raise DataError(path, "no such log", "train for a while first")
    target = out or run / "curves.svg"
    save_figure(draw_curves(read_log(path), split, {}), target)
    print(target)
