"""`vlnbert demo`: a house, a navigator that learns to walk it, and a report to look at."""

from pathlib import Path
from typing import Literal

from vlnbert.cli.devices import require_within, use_threads


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

    from vlnbert.analysis.report import write_report
    from vlnbert.cli.demonstration import demo_experiment, evaluate_all, make_report, start_training
    from vlnbert.cli.tables import print_scores
    from vlnbert.cli.training import train_to_the_end
    from vlnbert.navigator import Navigator

    experiment = demo_experiment(task, seed, iterations)
    updates = experiment.training.iterations
    require_within(iterations=(updates, 1, 1_000_000), seed=(seed, 0, 2**31))
    use_threads(threads)
    house, run = out / f"house-{seed}-{scans}", out / f"run-{task}-{seed}-{scans}-{updates}"
    trainer = start_training(experiment, house, run, scans)
    if not train_to_the_end(trainer, f"the same command (--out {out})"):
        return
    navigator = Navigator.from_pretrained(run / "best")
    evaluations = evaluate_all(trainer, navigator, seed)
    summaries = {name: result.scores.summary() for name, result in evaluations.items() if result.scores is not None}
    print_scores(f"{task} in unseen houses, seed {seed}", summaries)
    target = out / ("report.html" if task == "r2r" else f"report-{task}.html")
    write_report(target, make_report(trainer, navigator, evaluations["navigator"], summaries, seed, scans))
    print(f"open {target} in a browser")
