"""`vlnbert bench navigator`: what keeping the language's keys and values gives, here and now."""

from typing import TYPE_CHECKING, Literal

from vlnbert.cli.bench.shared import MOST, opened_world
from vlnbert.cli.output import screen
from vlnbert.cli.parser import command
from vlnbert.runtime import require_device, require_within, use_threads

if TYPE_CHECKING:
    from vlnbert.benchmarks.navigator import CachingSpeedup


@command("bench navigator")
def bench_navigator(
    size: str = "base",
    backbone: Literal["one-stream", "two-stream"] | None = None,
    agents: int = 8,
    tokens: int = 80,
    rounds: int = 7,
    threads: int | None = None,
    device: str = "cpu",
    json: bool = False,
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
    with opened_world(None) as (_, world, _):
        speedups = {
            name: compare_caching(world.to(device), config, agents=agents, tokens=tokens, rounds=rounds)
            for name, config in configs.items()
        }
    if json:
        print(dumps({name: {each.work: _as_json(each) for each in found} for name, found in speedups.items()}))
    else:
        _print_table(speedups, f"{size}, {agents} agents, {tokens} tokens, on {device}")


def _as_json(speedup: "CachingSpeedup") -> dict[str, float]:
    return {
        "kept_s": speedup.kept.median,
        "anew_s": speedup.anew.median,
        "ratio": speedup.ratio,
        "spread": speedup.kept.spread,
    }


def _print_table(speedups: dict[str, list["CachingSpeedup"]], title: str) -> None:
    from rich.table import Column, Table

    numbers = [Column(name, justify="right") for name in ("kept, ms", "anew, ms", "times faster", "spread")]
    table = Table("backbone", "work", *numbers, title=title, title_justify="left")
    for name, found in speedups.items():
        for speedup in found:
            times = (f"{1000 * timing.median:,.1f}" for timing in (speedup.kept, speedup.anew))
            table.add_row(name, speedup.work, *times, f"{speedup.ratio:.2f}", f"{speedup.kept.spread:.0%}")
    screen().print(table)
