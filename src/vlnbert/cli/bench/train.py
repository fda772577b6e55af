"""`vlnbert bench train`: how fast a preset learns, here and now."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vlnbert.benchmarks import measuring  # noqa: F401  # imported early: where no system tells, time is counted from here
from vlnbert.cli.bench.shared import MOST, RACED, against_plain, folder_or_house, in_one_split, open_setup
from vlnbert.cli.output import screen
from vlnbert.cli.parser import command
from vlnbert.runtime import require_device, require_within, use_threads

if TYPE_CHECKING:
    from vlnbert.benchmarks.training import TrainingSpeed


@command("bench train", places=["preset"], metavars={"preset": "PRESET"})
def bench_train(
    preset: str = "demo",
    data: Path | None = None,
    batch: tuple[int, ...] = (),
    precision: Literal["float32", "bfloat16"] | None = None,
    graphs: bool = True,
    plain: bool = False,
    updates: int = 10,
    rounds: int = 5,
    threads: int | None = None,
    device: str = "cpu",
    json: bool = False,
) -> None:
    """Time the updates of a preset: how many a second, what they take in memory, and how near to the floor that is.

    Weights are random and features are noise as wide as the preset's navigator sees; instructions and graphs are those
    of R2R's train split, with the words to attend to where the preset learns them and the folder has their labels.
    Blocks of updates are timed after a warm-up. A step is what one agent decides before it has stopped. Operations and
    steps are counted on a block of eager updates that is not timed; padding is among the operations, and so are agents
    that have stopped, where they go along. The ceiling is a large matrix product, timed on the same device in the same
    precision.

    With --plain, blocks take turns with as many updates the plain way: that of the published code, with 80 tokens to
    every instruction, keys and values projected at every step, a Python loop over agents for what they see, and the two
    halves of a batch rolled out apart, in float32.

    Start-up is the time from the start of the process to the end of the first update, with the opening of world and
    split and, without a folder, the making of a house.

    Example: vlnbert bench train r2r-two-stream --data data --batch 16 256 --device cuda --plain

    Args:
        preset: Whose navigator and recipe; see vlnbert presets.
        data: A folder with connectivity/ and r2r/; without one, a small house is generated for the occasion.
        batch: Rows of an update, one or several sizes; the preset's own otherwise.
        precision: Of the forward pass; the preset's own otherwise.
        graphs: On a GPU, replay updates as CUDA graphs.
        plain: Race against the plain way.
        updates: How many make a block.
        rounds: How many blocks are timed; their median counts.
        threads: CPU threads; torch's choice otherwise.
        device: Where to train, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from dataclasses import replace
    from json import dumps

    import torch

    from vlnbert.benchmarks.training import matrix_rate, time_training
    from vlnbert.learning.presets import presets

    experiment = presets.navigator(preset)
    require_within(rounds=(rounds, 2, MOST))
    require_within(updates=(updates, 1, MOST))
    require_device(device)
    use_threads(threads)
    training = in_one_split(experiment.training)
    training = replace(training, graphs=graphs, precision=precision or training.precision)
    sizes = [replace(training, batch=rows) for rows in batch or (training.batch,)]
    with folder_or_house(data) as folder:
        labelled = training.objective.alignment > 0
        setup = open_setup(folder, "r2r/train", experiment.navigator, device, aligned=labelled)
    found = [
        time_training(
            world=setup.world,
            split=setup.split,
            tokenizer=setup.tokenizer,
            shape=setup.shape,
            config=size,
            rounds=rounds,
            updates=updates,
            plain=plain,
        )
        for size in sizes
    ]
    ceiling = matrix_rate(setup.world.device, getattr(torch, training.precision))
    if json:
        facts = {"preset": preset, "precision": training.precision, "device": device, "ceiling_flops": ceiling}
        facts |= {"startup_seconds": found[0].seconds_to_first}
        print(dumps({**facts, "batches": [_as_json(speed, ceiling) for speed in found]}))
        return
    _print(found, ceiling, f"{preset}, {training.precision}, on {device}")
    print(f"the ceiling, a large matrix product: {ceiling / 1e12:,.2f} TFLOP/s")
    print(f"start-up, to the end of the first update: {found[0].seconds_to_first:.1f} s")


def _as_json(speed: "TrainingSpeed", ceiling: float) -> dict[str, Any]:
    return {
        "batch": speed.batch,
        "updates_per_second": speed.updates_per_second,
        "episodes_per_second": speed.episodes_per_second,
        "steps_per_second": speed.steps_per_second,
        "spread": speed.block.spread,
        "flops": speed.flops,
        "share_of_ceiling": speed.flops * speed.updates_per_second / ceiling,
        "peak_bytes": speed.peak_bytes,
        "times_plain": speed.times_plain,
        "plain_spread": None if speed.plain is None else speed.plain.spread,
    }


def _print(found: list["TrainingSpeed"], ceiling: float, title: str) -> None:
    from rich.table import Column, Table

    names = ("rows", "updates/s", "episodes/s", "steps/s", "spread", "TFLOP an update", "of the ceiling", "peak GiB")
    raced = RACED if found[0].plain else ()
    table = Table(*(Column(name, justify="right") for name in (*names, *raced)), title=title, title_justify="left")
    for speed in found:
        share = speed.flops * speed.updates_per_second / ceiling
        peak = "-" if speed.peak_bytes is None else f"{speed.peak_bytes / 2**30:.2f}"
        rates = (
            f"{speed.updates_per_second:,.2f}",
            f"{speed.episodes_per_second:,.0f}",
            f"{speed.steps_per_second:,.0f}",
        )
        costs = (f"{speed.block.spread:.0%}", f"{speed.flops / 1e12:.3f}", f"{share:.1%}", peak)
        table.add_row(f"{speed.batch:,}", *rates, *costs, *against_plain(speed))
    screen().print(table)
