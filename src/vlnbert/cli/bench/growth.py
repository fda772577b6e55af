"""`vlnbert bench growth`: how the time of an update grows with what is asked of it, here and now."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vlnbert.cli.bench.shared import MOST, folder_or_house, in_one_split, open_setup
from vlnbert.cli.output import screen
from vlnbert.cli.parser import command
from vlnbert.runtime import require_device, require_within, use_threads

if TYPE_CHECKING:
    from vlnbert.benchmarks.growth import Growth

Axis = Literal["rows", "tokens", "steps", "scans"]
HOUSES = 24  # scans of a generated house, where no more are asked for
MOST_SCANS = 1000  # that a house is generated with


@command("bench growth", places=["preset"], metavars={"preset": "PRESET"})
def bench_growth(
    preset: str = "demo",
    data: Path | None = None,
    axes: tuple[Axis, ...] = ("rows", "tokens", "steps", "scans"),
    rows: tuple[int, ...] = (),
    tokens: tuple[int, ...] = (16, 32, 64),
    steps: tuple[int, ...] = (5, 10, 15, 30),
    scans: tuple[int, ...] = (),
    precision: Literal["float32", "bfloat16"] | None = None,
    rounds: int = 3,
    threads: int | None = None,
    device: str = "cpu",
    json: bool = False,
) -> None:
    """Time the update of a preset at growing sizes: of the batch, the instructions, the episodes and the world.

    Along each axis one size grows and the others are held: the preset's rows and steps, 32 tokens, all scans. The
    growth is the exponent that fits the times best: 1 is linear, 2 quadratic, 0 means that the size does not matter.

    Weights are random, features are noise, and instructions are random words, all equally long. Agents that explore
    never stop before the limit; those that follow the teacher leave when they have arrived, so twice the steps are less
    than twice the work.

    Example: vlnbert bench growth r2r-two-stream --data data --axes rows steps

    Args:
        preset: Whose navigator and recipe; see vlnbert presets.
        data: A folder with connectivity/ and r2r/; without one, small houses are generated for the occasion.
        axes: What grows, of rows, tokens, steps and scans.
        rows: Sizes of a batch, even numbers; otherwise from about a quarter of the preset's to about twice.
        tokens: Lengths of the instructions.
        steps: Limits of an episode.
        scans: Sizes of the world; otherwise a quarter, half and all of the scans.
        precision: Of the forward pass; the preset's own otherwise.
        rounds: How many updates of each size are timed, in turn; medians are compared.
        threads: CPU threads; torch's choice otherwise.
        device: Where to train, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from dataclasses import replace
    from json import dumps

    from vlnbert.benchmarks.growth import TrainingSetup, time_growth
    from vlnbert.learning.presets import presets

    experiment = presets.navigator(preset)
    training = in_one_split(experiment.training)
    training = replace(training, precision=precision or training.precision)
    require_within(rounds=(rounds, 2, MOST))
    sizes = {"rows": rows or _doubled(training.batch), "tokens": tokens, "steps": steps}
    _require_sizes(axes, {**sizes, "scans": scans or (1, 2)}, experiment.navigator.positions)
    require_device(device)
    use_threads(threads)
    with folder_or_house(data, max((HOUSES, *(scans if "scans" in axes else ())))) as folder:
        opened = open_setup(folder, "r2r/train", experiment.navigator, device)
    sizes["scans"] = scans or _halved(len(opened.world.scans))
    setup = TrainingSetup(opened.world, opened.split, opened.tokenizer, training)
    found = time_growth(setup, opened.shape, {axis: sorted(set(sizes[axis])) for axis in axes}, rounds)
    if json:
        facts = {"preset": preset, "precision": training.precision, "device": device}
        print(dumps({**facts, "axes": {growth.axis: _as_json(growth) for growth in found}}))
    else:
        _print(found, f"{preset}, {training.precision}, on {device}")


def _require_sizes(axes: tuple[str, ...], sizes: dict[str, tuple[int, ...]], positions: int) -> None:
    """Refuse sizes that no update can have, and axes along which nothing grows."""
    from vlnbert.errors import UsageError

    if not axes:
        raise UsageError(f"--axes names nothing that could grow; choose among {', '.join(sizes)}")
    least, most = {"rows": 2, "tokens": 3, "steps": 1, "scans": 1}, {"tokens": positions, "scans": MOST_SCANS}
    for axis in axes:
        for size in sizes[axis]:
            require_within(**{axis: (size, least[axis], most.get(axis, MOST))})
        if len(set(sizes[axis])) < 2:
            raise UsageError(f"--{axis} needs two sizes or more for anything to grow")


def _doubled(batch: int) -> tuple[int, ...]:
    """Four batches, each twice the one before, the third about as large as the preset's."""
    first = max(2, batch // 8 * 2)
    return tuple(first * 2**times for times in range(4))


def _halved(scans: int) -> tuple[int, ...]:
    return tuple(max(1, scans // part) for part in (4, 2, 1))


def _as_json(growth: "Growth") -> dict[str, Any]:
    rows = zip(growth.times.items(), growth.ratios, strict=True)
    told = [
        {"size": size, "seconds": timing.median, "spread": timing.spread, "ratio": ratio}
        for (size, timing), ratio in rows
    ]
    return {"exponent": growth.exponent, "sizes": told}


def _print(found: list["Growth"], title: str) -> None:
    from rich.table import Column, Table

    names = ("size", "ms an update", "spread", "times the one before")
    table = Table("", *(Column(name, justify="right") for name in names), title=title, title_justify="left")
    for growth in found:
        table.add_row(f"{growth.axis}, growth {growth.exponent:.2f}")
        for (size, timing), ratio in zip(growth.times.items(), growth.ratios, strict=True):
            times = "" if ratio is None else f"{ratio:.2f}"
            table.add_row("", f"{size:,}", f"{1000 * timing.median:,.1f}", f"{timing.spread:.0%}", times)
    screen().print(table)
    print("growth 1 is linear, 0 means that the size does not matter")
