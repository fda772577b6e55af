"""Generated houses, and a demo in them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vlnbert.api.arguments import checked
from vlnbert.errors import UnknownNameError
from vlnbert.runtime import require_within, use_threads
from vlnbert.sources.writing import refuse_full
from vlnbert.tables import Table, Tabled

if TYPE_CHECKING:
    from vlnbert.api.comparing import AgentComparison
    from vlnbert.api.runs import Run
    from vlnbert.data.data import Data

PRESETS = {"r2r": "demo", "reverie": "demo-reverie"}
CONTEXT = "A tiny navigator, trained from nothing in {scans} generated houses (seed {seed})."


@dataclass(frozen=True, repr=False)
class Demo(Tabled):
    """What a demo made: its run and, once that has come to its end, the scores and the report."""

    run: "Run"
    report: Path | None = None
    compared: "AgentComparison | None" = None

    def table(self) -> Table:
        """The navigator beside the baselines; the run's validations while it is not done."""
        from vlnbert.evaluation.metrics import score_table

        return self.run.table() if self.compared is None else score_table(self.compared.split, self.compared.scores)


@checked()
def generate_house(folder: str | Path, seed: int = 0, scans: int = 24, *, bar: bool = True) -> "Data":
    """Generate houses with rooms, objects and instructions, in exactly the formats of the real data.

    The folder then serves wherever a data folder is asked for. The same seed gives the same houses on every machine.

    Args:
        folder: Where to write; must be new or empty.
        seed: Chooses the houses.
        scans: How many houses; about two in three are for training, the others are unseen.
        bar: Show progress.
    """
    from vlnbert.data.data import open_data
    from vlnbert.house import generate

    generate(Path(folder), seed=seed, scans=scans)
    return open_data(folder)


@checked()
def demo(
    out: str | Path = "demo",
    task: Literal["r2r", "reverie"] = "r2r",
    *,
    seed: int = 0,
    scans: int = 24,
    iterations: int | None = None,
    threads: int | None = 1,
    bar: bool = True,
) -> Demo:
    """Make houses, train a tiny navigator in them, and write a report of how it walks houses it has never seen.

    Needs no data and no network, and takes about three minutes on two cores (REVERIE four). Interrupted, it goes on
    where it was when it is called again. Open the report in a browser when it is done.

    Args:
        out: Folder for the houses, the run and the report. What an earlier demo left there serves again.
        task: r2r (go there) or reverie (go there and name the object).
        seed: Chooses the houses and the training.
        scans: How many houses to make; about two in three are for training.
        iterations: Updates of the navigator's weights; by default as many as the task's preset has.
        threads: CPU threads. So small a navigator gains nothing from a second.
        bar: Show progress.
    """
    from vlnbert.api.reporting import compare_with_baselines, write_run_report
    from vlnbert.api.training import resume, train
    from vlnbert.data.data import open_data
    from vlnbert.learning.presets import presets
    from vlnbert.learning.run_folder import is_run

    if task not in PRESETS:
        raise UnknownNameError("task", task, PRESETS)
    usual = presets[PRESETS[task]].experiment.training
    updates = usual.iterations if iterations is None else iterations
    require_within(iterations=(updates, 1, 1_000_000), seed=(seed, 0, 2**31))
    # A wrong number is refused before any house is made.
    use_threads(threads)
    out = Path(out)
    # A folder of an earlier demo serves again.
    if not any(out.glob("house-*")):
        refuse_full(out)
    house, folder = out / f"house-{seed}-{scans}", out / f"run-{task}-{seed}-{scans}-{updates}"
    data = open_data(house) if house.exists() else generate_house(house, seed, scans, bar=bar)
    if is_run(folder):
        run = resume(folder, data, threads=threads, bar=bar)
    else:
        changes: dict[str, Any] = {"seed": seed, "iterations": updates}
        if iterations is not None:
            changes |= {"warmup": min(usual.warmup, updates), "validate_every": max(1, updates // 4)}
        run = train(PRESETS[task], data, folder, threads=threads, bar=bar, **changes)
    if run.interrupted:
        return Demo(run)
    compared, walker = compare_with_baselines(run, data, seed=seed)
    target = out / ("report.html" if task == "r2r" else f"report-{task}.html")
    context = CONTEXT.format(scans=scans, seed=seed)
    write_run_report(run, compared, walker, target, title="vlnbert demo", context=context)
    return Demo(run, target, compared)
