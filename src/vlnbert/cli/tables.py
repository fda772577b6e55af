"""Tables on a terminal: scores as people read them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Summary = Mapping[str, float | int | None]

COLUMNS = {  # key -> heading; rates are shown in percent, lengths in metres
    "sr": "SR",
    "osr": "OSR",
    "spl": "SPL",
    "ndtw": "nDTW",
    "sdtw": "SDTW",
    "cls": "CLS",
    "rgs": "RGS",
    "rgspl": "RGSPL",
    "tl": "TL m",
    "ne": "NE m",
    "episodes": "episodes",
}
METRES = ("tl", "ne")


def screen() -> "Console":
    """Standard output; a pipe or a file gets whole rows, however long."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=200)


def score_rows(summaries: Mapping[str, Summary]) -> tuple[list[str], list[list[str]]]:
    """Headings and a row for each summary; scores that none of them has are left out."""
    keys = [key for key in COLUMNS if any(summary.get(key) is not None for summary in summaries.values())]
    rows = [[name, *(_shown(key, summary.get(key)) for key in keys)] for name, summary in summaries.items()]
    return [COLUMNS[key] for key in keys], rows


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


def _shown(key: str, value: float | int | None) -> str:
    if value is None:
        return "-"
    if key == "episodes":
        return f"{value:,}"
    return f"{value:.2f}" if key in METRES else f"{100 * value:.1f}"
