"""A report as one HTML file that needs nothing else: tables, figures and episodes, for light and dark screens."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from vlnbert.analysis.inline_svg import PALETTE
from vlnbert.sources.files import written_beside
from vlnbert.tables import Table, escaped

# Even a report that was tampered with loads nothing and runs nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
VERDICTS = {"success": "Success", "failure": "Failure", "withheld": "Goal withheld"}


class Markup(str):
    """HTML that this module made and that is safe to show as it is; every other text is escaped."""


@dataclass(frozen=True)
class Drawing:
    """A figure, as `figure_svg` makes it: it enters the page as it is."""

    svg: str
    caption: str


@dataclass(frozen=True)
class EpisodeCard:
    """One episode: what was asked, what became of it, and where the agent went."""

    title: str
    instruction: str
    outcome: str
    svg: str
    succeeded: bool | None = None  # None where the goal is withheld
    steps: Table | None = None


@dataclass(frozen=True)
class Report:
    """The parts of a report, in the order in which they appear."""

    title: str
    context: str
    tables: tuple[Table, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    episodes: tuple[EpisodeCard, ...] = ()


def write_report(path: Path, report: Report) -> None:
    """Write the report; a reader never sees half of it."""
    with written_beside(path) as temporary:
        temporary.write_text(_page(report), encoding="utf-8")


def attended_words(tokens: Sequence[str], weights: Sequence[float]) -> Markup:
    """An instruction with its words tinted by weight, the strongest fully; the pieces of a word are joined again."""
    most = max(weights, default=0.0) or 1.0
    words = []
    for token, weight in zip(tokens, weights, strict=True):
        piece = token.startswith("##")
        strength = max(0.0, weight / most)
        mark = f'<mark style="--weight: {strength:.0%}" title="{weight:.1%}">{escaped(token.removeprefix("##"))}</mark>'
        words.append(mark if piece else f" {mark}")
    return Markup(f'<span class="words">{"".join(words).strip()}</span>')


def _page(report: Report) -> str:
    colours = "; ".join(f"--{name}: {colour}" for name, colour in PALETTE.items())
    style = f":root {{ {colours} }}\n" + files("vlnbert.analysis").joinpath("report.css").read_text(encoding="utf-8")
    parts = [*map(_table, report.tables), *map(_drawing, report.drawings)]
    if report.episodes:
        cards = "\n".join(map(_card, report.episodes))
        parts.append(
            f'<section aria-label="Episodes">\n<h2>Episodes</h2>\n<div class="cards">\n{cards}\n</div></section>'
        )
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escaped(report.title)}</title>\n<style>\n{style}</style>\n</head>",
            f'<body>\n<main>\n<h1>{escaped(report.title)}</h1>\n<p class="context">{escaped(report.context)}</p>',
            *parts,
            "</main>\n</body>\n</html>\n",
        ]
    )


def _table(table: Table) -> str:
    return f'<section class="table">\n<h2>{escaped(table.title)}</h2>\n{_grid(table)}\n</section>'


def _grid(table: Table) -> str:
    """The table itself, which scrolls sideways on a narrow screen."""
    aligned = [' class="number"' if number else "" for number in table.numeric]
    aligned[0] = ""  # names stay on the left, numbers though they may be
    head = "".join(
        f'<th scope="col"{align}>{escaped(name)}</th>' for name, align in zip(table.columns, aligned, strict=True)
    )
    body = "\n".join(f"<tr>{_row(row, aligned)}</tr>" for row in table.rows)
    note = f'\n<p class="note">{escaped(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(table.title)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>{note}"
    )


def _row(cells: Sequence[str], aligned: Sequence[str]) -> str:
    first, *others = [cell if isinstance(cell, Markup) else escaped(cell) for cell in cells]
    return f'<th scope="row">{first}</th>' + "".join(
        f"<td{align}>{cell}</td>" for cell, align in zip(others, aligned[1:], strict=True)
    )


def _drawing(drawing: Drawing) -> str:
    return f"<figure>\n{drawing.svg}\n<figcaption>{escaped(drawing.caption)}</figcaption>\n</figure>"


def _card(card: EpisodeCard) -> str:
    verdict = "withheld" if card.succeeded is None else "success" if card.succeeded else "failure"
    steps = ""
    if card.steps is not None:
        steps = f"\n<details>\n<summary>{escaped(card.steps.title)}</summary>\n{_grid(card.steps)}\n</details>"
    return (
        f'<article class="card">\n<header><h3>{escaped(card.title)}</h3>'
        f'<p class="outcome {verdict}">{VERDICTS[verdict]}: {escaped(card.outcome)}</p></header>\n'
        f"<blockquote>{escaped(card.instruction)}</blockquote>\n{card.svg}{steps}\n</article>"
    )
