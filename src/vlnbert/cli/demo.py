"""`vlnbert demo`: a house, a navigator that learns to walk it, and a report to look at."""

from pathlib import Path

from vlnbert.cli.devices import require_within


def demo(out: Path = Path("demo"), seed: int = 0, scans: int = 24, iterations: int = 800, threads: int = 1) -> None:
    """Make houses, train a tiny navigator in them, and show how it walks houses it has never seen.

    Needs no data and no network, and takes about three minutes on two cores. Interrupted, it goes on where it was when
    run again. Open the report in a browser when it is done.

    Example: vlnbert demo --out demo

    Args:
        out: Folder for the houses, the run and report.html. What an earlier demo left there serves again.
        seed: Chooses the houses and the training.
        scans: How many houses to make; about two in three are for training.
        iterations: Updates of the navigator's weights.
        threads: CPU threads. So small a navigator gains nothing from a second.
    """
    import torch

    from vlnbert.analysis.report import write_report
    from vlnbert.cli.demonstration import evaluate_all, make_report, start_training
    from vlnbert.cli.tables import print_scores
    from vlnbert.cli.training import train_to_the_end
    from vlnbert.navigator import Navigator

    require_within(iterations=(iterations, 1, 1_000_000), threads=(threads, 1, 256), seed=(seed, 0, 2**31))
    torch.set_num_threads(threads)
    house, run = out / f"house-{seed}-{scans}", out / f"run-{seed}-{scans}-{iterations}"
    trainer = start_training(house, run, seed, scans, iterations)
    if not train_to_the_end(trainer, f"the same command (--out {out})"):
        return
    navigator = Navigator.from_pretrained(run / "best")
    evaluations = evaluate_all(trainer, navigator, seed)
    summaries = {name: result.scores.summary() for name, result in evaluations.items() if result.scores is not None}
    print_scores(f"unseen houses, seed {seed}", summaries)
    report = make_report(trainer, navigator, evaluations["navigator"], summaries, seed, scans)
    write_report(out / "report.html", report)
    print(f"open {out / 'report.html'} in a browser")
