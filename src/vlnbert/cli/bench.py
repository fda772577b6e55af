"""`vlnbert bench`: how fast it is, here and now."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vlnbert.cli.devices import require_device, require_within, use_threads
from vlnbert.cli.options import Flag
from vlnbert.cli.tables import screen

if TYPE_CHECKING:
    from vlnbert.benchmarks.navigator import Gain
    from vlnbert.benchmarks.world import Comparison
    from vlnbert.sources.layout import DataFolder
    from vlnbert.world import FeatureBank, World

MOST = 1_000_000


def bench_world(
    data: Path | None = None,
    batch: int = 4096,
    rounds: int = 11,
    threads: int = 1,
    device: str = "cpu",
    json: Flag = False,
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
    with _data(data) as (folder, world, bank):
        build, opening = time_opening(folder)
        levels = compare(world.to(device), bank.to(device), batch, rounds)
    if json:
        facts = {"batch": batch, "width": bank.width, "build_s": build, "open_s": opening}
        print(dumps({**facts, "levels": {level.level: _as_json(level) for level in levels}}))
        return
    _print_table(levels, f"{batch:,} agents, {len(world):,} viewpoints, features {bank.width} wide, on {device}")
    print(f"{len(world.scans)} scans built in {build:.2f} s, opened from the cache in {opening:.2f} s")


def bench_navigator(
    size: str = "base",
    backbone: Literal["one-stream", "two-stream"] | None = None,
    agents: int = 8,
    tokens: int = 80,
    rounds: int = 7,
    threads: int | None = None,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Measure what keeping the language's keys and values gives: in 15 steps alone, and in a greedy episode of 15.

    Each is timed with keys and values kept from reading the instruction, and projected anew at every step.

    Example: vlnbert bench navigator --size base

    Args:
        size: A named size: base, minilm, small or tiny.
        backbone: One backbone alone; both otherwise.
        agents: Agents that walk together.
        tokens: Length of their instructions; the paper's limit is 80, R2R's mean is 32.
        rounds: How often each rival is timed; medians are compared.
        threads: CPU threads; torch's choice otherwise.
        device: Where the tensors are, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from json import dumps

    from vlnbert.benchmarks.navigator import compare_caching
    from vlnbert.navigator import named_size

    require_within(agents=(agents, 1, MOST), tokens=(tokens, 3, 512))
    require_within(rounds=(rounds, 2, MOST))
    require_device(device)
    use_threads(threads)
    names = ["one-stream", "two-stream"] if backbone is None else [backbone]
    configs = {name: named_size(size, name) for name in names}
    with _data(None) as (_, world, _):
        gains = {
            name: compare_caching(world.to(device), config, agents, tokens, rounds) for name, config in configs.items()
        }
    if json:
        print(dumps({name: {gain.work: _gain(gain) for gain in found} for name, found in gains.items()}))
    else:
        _print_gains(gains, f"{size}, {agents} agents, {tokens} tokens, on {device}")


@contextmanager
def folder_or_house(folder: Path | None, scans: int = 6) -> Iterator["DataFolder"]:
    """A data folder; or that of a house of so many scans that lasts as long as the block."""
    from tempfile import TemporaryDirectory

    from vlnbert.sources.house import generate
    from vlnbert.sources.layout import open_folder

    with TemporaryDirectory() as temporary:
        if folder is None:
            folder = Path(temporary) / "house"
            generate(folder, seed=0, scans=scans)
        yield open_folder(folder)


@contextmanager
def _data(folder: Path | None) -> Iterator[tuple["DataFolder", "World", "FeatureBank"]]:
    """A data folder, its world and its features."""
    from vlnbert.world import open_features, open_labels, open_world

    with folder_or_house(folder) as opened:
        world = open_world(opened)
        files = opened.feature_files()
        bank = open_features(world, files[0]) if files else open_labels(world, opened.captions)[0]
        yield opened, world, bank


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


def _gain(gain: "Gain") -> dict[str, float]:
    return {"kept_s": gain.kept.median, "anew_s": gain.anew.median, "ratio": gain.ratio, "spread": gain.kept.spread}


def _print_gains(gains: dict[str, list["Gain"]], title: str) -> None:
    from rich.table import Column, Table

    numbers = [Column(name, justify="right") for name in ("kept, ms", "anew, ms", "times faster", "spread")]
    table = Table("backbone", "work", *numbers, title=title, title_justify="left")
    for name, found in gains.items():
        for gain in found:
            times = (f"{1000 * timing.median:,.1f}" for timing in (gain.kept, gain.anew))
            table.add_row(name, gain.work, *times, f"{gain.ratio:.2f}", f"{gain.kept.spread:.0%}")
    screen().print(table)
