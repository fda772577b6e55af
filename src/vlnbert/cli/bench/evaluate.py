"""`vlnbert bench evaluate`: how fast a preset's navigator walks a split, here and now."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlnbert.cli.bench.shared import MOST, RACED, against_plain, folder_or_house, open_setup
from vlnbert.cli.output import screen
from vlnbert.cli.parser import command
from vlnbert.runtime import Precision, chosen_precision, require_device, require_within, use_threads, usual_batch

if TYPE_CHECKING:
    from vlnbert.benchmarks.evaluation import EvaluationSpeed


@command("bench evaluate", places=["preset"], metavars={"preset": "PRESET"})
def bench_evaluate(
    preset: str = "demo",
    data: Path | None = None,
    split: str = "val_unseen",
    episodes: int | None = None,
    batch: tuple[int, ...] = (),
    precision: Precision = "float32",
    plain: bool = False,
    rounds: int = 5,
    threads: int | None = None,
    device: str = "cpu",
    json: bool = False,
) -> None:
    """Time the walk of a whole R2R split, 15 steps in each episode: episodes and steps a second.

    Weights are random and features are noise as wide as the preset's navigator sees; the navigator never stops, so that
    every walk is as long as it may be. Reading, walking and scoring are timed together, after one time that does not
    count. Memory is what torch has allocated on a GPU at its peak, weights and features included.

    With --plain, each time takes turns with one the plain way: that of the published code, eight episodes at once in
    their order, 80 tokens to every instruction, keys and values projected at every step and a Python loop over agents
    for what they see, in float32.

    Example: vlnbert bench evaluate r2r-two-stream --data data --plain --episodes 64

    Args:
        preset: Whose navigator; see vlnbert presets.
        data: A folder with connectivity/ and r2r/; without one, a small house is generated for the occasion.
        split: Whose episodes, such as val_seen or val_unseen.
        episodes: Walk the first so many of them; all otherwise.
        batch: Episodes that walk together, one or several sizes; 64 otherwise, or 1024 on a GPU.
        precision: Of the navigator's tokens; fastest is what multiplies faster on this device.
        plain: Race against the plain way, over the same episodes.
        rounds: How often the split is walked; medians are compared.
        threads: CPU threads; torch's choice otherwise.
        device: Where to walk, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from json import dumps

    from vlnbert.benchmarks.evaluation import time_evaluation
    from vlnbert.benchmarks.workloads import first_episodes
    from vlnbert.learning.presets import presets

    experiment = presets.navigator(preset)
    require_within(rounds=(rounds, 2, MOST))
    require_within(episodes=(1 if episodes is None else episodes, 1, MOST))
    for rows in batch:
        require_within(batch=(rows, 1, MOST))
    require_device(device)
    use_threads(threads)
    with folder_or_house(data) as folder:
        setup = open_setup(folder, f"r2r/{split}", experiment.navigator, device)
    walked = first_episodes(setup.split, episodes or MOST)
    usual = usual_batch(setup.world.device)
    chosen = chosen_precision(precision, setup.world.device, setup.shape.hidden)
    found = [
        time_evaluation(
            world=setup.world,
            split=walked,
            shape=setup.shape,
            batch=rows,
            precision=chosen,
            rounds=rounds,
            plain=plain,
        )
        for rows in batch or (usual,)
    ]
    if json:
        facts = {"preset": preset, "split": split, "episodes": len(walked.episodes)}
        facts |= {"precision": chosen, "device": device}
        print(dumps({**facts, "batches": [_as_json(speed) for speed in found]}))
    else:
        _print(found, f"{preset}, {len(walked.episodes):,} episodes of {walked.name}, {chosen}, on {device}")


def _as_json(speed: "EvaluationSpeed") -> dict[str, Any]:
    return {
        "batch": speed.batch,
        "seconds": speed.whole.median,
        "episodes_per_second": speed.episodes_per_second,
        "steps_per_second": speed.steps_per_second,
        "spread": speed.whole.spread,
        "peak_bytes": speed.peak_bytes,
        "times_plain": speed.times_plain,
        "plain_spread": None if speed.plain is None else speed.plain.spread,
    }


def _print(found: list["EvaluationSpeed"], title: str) -> None:
    from rich.table import Column, Table

    names = ("rows", "seconds", "episodes/s", "steps/s", "spread", "peak GiB")
    raced = RACED if found[0].plain else ()
    table = Table(*(Column(name, justify="right") for name in (*names, *raced)), title=title, title_justify="left")
    for speed in found:
        peak = "-" if speed.peak_bytes is None else f"{speed.peak_bytes / 2**30:.2f}"
        rates = (f"{speed.whole.median:,.2f}", f"{speed.episodes_per_second:,.1f}", f"{speed.steps_per_second:,.0f}")
        table.add_row(f"{speed.batch:,}", *rates, f"{speed.whole.spread:.0%}", peak, *against_plain(speed))
    screen().print(table)
