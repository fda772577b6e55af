"""`vlnbert bench explore`: how quickly the explorer answers, one visitor and many."""

from typing import Any

from vlnbert.cli.bench.shared import MOST
from vlnbert.cli.output import screen
from vlnbert.cli.parser import command
from vlnbert.runtime import require_within


@command("bench explore", places=["runs"], metavars={"runs": "RUN"})
def bench_explore(
    runs: tuple[str, ...] = (),
    *,
    data: str | None = None,
    visitors: int = 50,
    seconds: int = 60,
    pause: float = 1.0,
    rounds: int = 20,
    json: bool = False,
) -> None:
    """Serve the explorer on the loopback and visit it: its start, the first paint, a typed instruction, and a crowd.

    Each visitor of the crowd chooses an instruction or types one, reads for about a second, and goes on. No request is
    repeated after a fault, and nothing but 127.0.0.1 is visited. The first paint is asked of chromium, where that and
    playwright are there.

    Example: vlnbert bench explore

    Args:
        runs: The agent that walks; by default the one that ships.
        data: The data folder; by default the one that a run was trained on, or a generated house.
        visitors: How many come at once.
        seconds: For how long.
        pause: Seconds that a visitor reads between two requests, about.
        rounds: Typed instructions that one visitor alone asks for.
        json: Print one JSON object instead of a table.
    """
    from json import dumps

    from vlnbert.benchmarks.explorer import crowd, served, typed_seconds
    from vlnbert.benchmarks.first_paint import first_paint
    from vlnbert.errors import UsageError

    require_within(visitors=(visitors, 1, 200), seconds=(seconds, 1, 600), rounds=(rounds, 1, MOST))
    if not 0.05 <= pause <= 60:
        raise UsageError(f"--pause {pause} is out of range; choose 0.05 to 60")
    with served(*runs, *(("--data", data) if data else ())) as (url, start):
        paint = first_paint(url)
        alone = sorted(typed_seconds(url, rounds))
        visits = crowd(url, visitors, seconds, pause)
    found: dict[str, Any] = {
        "start_seconds": start,
        "browser_seconds": paint,
        "typed_seconds": alone[len(alone) // 2],
        "typed_longest": alone[-1],
        "visitors": visitors,
        "seconds": seconds,
        "errors": len(visits.errors),
        "requests": visits.summary(),
    }
    if json:
        print(dumps(found))
        return
    _print_table(found)
    for line in visits.errors[:3]:
        print(line)


def _print_table(found: dict[str, Any]) -> None:
    from rich.table import Column, Table

    numbers = [
        Column(name, justify="right") for name in ("requests", "median, ms", "95th percentile, ms", "longest, ms")
    ]
    title = f"{found['visitors']} visitors for {found['seconds']} s, {found['errors']} errors"
    table = Table("asked for", *numbers, title=title, title_justify="left")
    for kind, one in found["requests"].items():
        times = (f"{1000 * one[name]:,.0f}" for name in ("median", "p95", "longest"))
        table.add_row(kind, f"{one['requests']:,}", *times)
    screen().print(table)
    alone = f"{1000 * found['typed_seconds']:,.0f} ms, at most {1000 * found['typed_longest']:,.0f} ms"
    if paint := found["browser_seconds"]:
        print(f"first paint after {1000 * paint['first_paint']:,.0f} ms, a walk after {1000 * paint['ready']:,.0f} ms")
    print(f"started in {found['start_seconds']:.1f} s; a typed instruction, one visitor alone: {alone}")
