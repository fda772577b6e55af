"""Tables on a terminal: scores as people read them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Summary = Mapping[str, float | int | None]

METRICS = {  # key -> name and meaning; rates are shown in percent, lengths in metres
    "sr": ("SR", "success: stopped less than 3 m from the goal"),
    "osr": ("OSR", "oracle success: came that close at any time"),
    "spl": ("SPL", "success weighted by path length"),
    "ndtw": ("nDTW", "likeness to the reference path"),
    "sdtw": ("SDTW", "the same, where successful"),
    "cls": ("CLS", "coverage of the reference path, weighted by length"),
    "rgs": ("RGS", "the right object was named"),
    "rgspl": ("RGSPL", "the same, weighted by path length"),
    "tl": ("TL m", "trajectory length"),
    "ne": ("NE m", "from the last viewpoint to the goal"),
    "episodes": ("episodes", "how many were scored"),
}
VISIBLE = {"sr": "success: stopped where the target is visible", "osr": "oracle success: saw the target at any time"}
METRES = ("tl", "ne")


def screen() -> "Console":
    """Standard output; a pipe or a file gets whole rows, however long."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)  # names from files are shown as they are
    return console if console.is_terminal else Console(markup=False, highlight=False, width=200)


def score_rows(summaries: Mapping[str, Summary]) -> tuple[list[str], list[list[str]]]:
    """Headings and a row for each summary; scores that none of them has are left out."""
    keys = [key for key in METRICS if any(summary.get(key) is not None for summary in summaries.values())]
    rows = [[name, *(_shown(key, summary.get(key)) for key in keys)] for name, summary in summaries.items()]
    return [METRICS[key][0] for key in keys], rows


def print_scores(title: str, summaries: Mapping[str, Summary]) -> None:
    """A table with a row for each summary."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table

    headings, rows = score_rows(summaries)
    columns = [Column(heading, justify="right") for heading in headings]
    first = Column("", no_wrap=True)
    table = Table(first, *columns, title=f"{title} (rates in %)", title_justify="left", box=SIMPLE_HEAD, padding=(0, 0))
    for row in rows:
        table.add_row(*row)
    screen().print(table)


def print_meanings(title: str, summary: Summary) -> None:
    """One summary, with what each score means."""
    from rich.table import Column, Table

    words = VISIBLE if summary["rgs"] is not None else {}
    table = Table("metric", Column("value", justify="right"), "meaning", title=title, title_justify="left")
    for key, (name, meaning) in METRICS.items():
        if summary[key] is not None:
            table.add_row(name, _shown(key, summary[key], digits=2), words.get(key, meaning))
    screen().print(table)


def _shown(key: str, value: float | int | None, digits: int = 1) -> str:
    if value is None:
        return "-"
    if key == "episodes":
        return f"{value:,}"
    return f"{value:.2f}" if key in METRES else f"{100 * value:.{digits}f}"
