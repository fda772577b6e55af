"""`vlnbert bench world`: how fast the environment is, here and now."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlnbert.cli.bench.shared import MOST, opened_world
from vlnbert.cli.output import screen
from vlnbert.cli.parser import command
from vlnbert.runtime import require_device, require_within, use_threads

if TYPE_CHECKING:
    from vlnbert.benchmarks.world import Comparison


@command("bench world")
def bench_world(
    data: Path | None = None,
    batch: int = 4096,
    rounds: int = 11,
    threads: int = 1,
    device: str = "cpu",
    json: bool = False,
) -> None:
    """Race the environment against a Python loop over agents, in one run: steps a second, and their ratio.

    Four levels, each doing what those before it do and one thing more: the step alone, the shortest-path teacher, the
    directions of all choices, and their features.

    Example: vlnbert bench world --data data

    Args:
        data: A data folder; without one, a small house is generated for the occasion. Features come from its
            features/ or, where that is empty, from the detections in its captions/.
        batch: Agents that walk together.
        rounds: How often each rival is timed; medians are compared.
        threads: CPU threads for the tensors. Steps are too small to gain from more; a busy machine makes more slower.
        device: Where the tensors are, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from json import dumps

    from vlnbert.benchmarks.world import compare, time_opening

    require_within(batch=(batch, 1, MOST), rounds=(rounds, 2, MOST))
    use_threads(threads)
    require_device(device)
    with opened_world(data) as (folder, world, bank):
        build, opening = time_opening(folder)
        levels = compare(world.to(device), bank.to(device), batch, rounds)
    if json:
        facts = {"batch": batch, "width": bank.width, "build_s": build, "open_s": opening}
        print(dumps({**facts, "levels": {level.level: _as_json(level) for level in levels}}))
        return
    _print_table(levels, f"{batch:,} agents, {len(world):,} viewpoints, features {bank.width} wide, on {device}")
    print(f"{len(world.scans)} scans built in {build:.2f} s, opened from the cache in {opening:.2f} s")


def _as_json(level: "Comparison") -> dict[str, Any]:
    return {
        "steps_per_second": level.steps_per_second,
        "loop_steps_per_second": level.loop_steps_per_second,
        "ratio": level.ratio,
        "spread": level.tensors.spread,
    }


def _print_table(levels: list["Comparison"], title: str) -> None:
    from rich.table import Column, Table

    numbers = [Column(name, justify="right") for name in ("steps/s", "loop, steps/s", "times the loop", "spread")]
    table = Table("level", *numbers, title=title, title_justify="left")
    for level in levels:
        speeds = (f"{speed:,.0f}" for speed in (level.steps_per_second, level.loop_steps_per_second))
        table.add_row(level.level, *speeds, f"{level.ratio:.1f}", f"{level.tensors.spread:.0%}")
    screen().print(table)
