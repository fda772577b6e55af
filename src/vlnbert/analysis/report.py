"""A report as one HTML file that needs nothing else: sections of words, numbers, bars, figures and episodes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlnbert.analysis.card_page import Cards
from vlnbert.analysis.page import Markup, table, text, write_page
from vlnbert.evaluation.episode_record import RecordedEpisode
from vlnbert.tables import Table, escaped


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    words: str
    kind: str = ""  # "note" or "lead"


@dataclass(frozen=True)
class Figures:
    """The few numbers that matter most: value, unit and what it is."""

    numbers: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Terms:
    """Words and what they mean."""

    meanings: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Bar:
    name: str
    share: float  # of 1
    shown: str
    count: int


@dataclass(frozen=True)
class Bars:
    """Shares side by side, as bars with their numbers."""

    title: str
    bars: Sequence[Bar]
    measure: str  # what the shares are
    note: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure, as `figure_svg` makes it: it enters the page as it is."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Columns:
    """Parts side by side where there is room."""

    parts: Sequence["Part"]


@dataclass(frozen=True)
class Listing:
    """Commands or a file."""

    code: str


@dataclass(frozen=True)
class Folded:
    """What only some want to see."""

    summary: str
    part: "Part"


@dataclass(frozen=True)
class EpisodeCard:
    """An episode in its house."""

    title: str
    record: RecordedEpisode
    plan: dict[str, Any]


Part = Words | Figures | Terms | Bars | Drawing | Columns | Listing | Folded | EpisodeCard | Table


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Report:
    """What a page says, from top to bottom. `data` is held in it as JSON, by id."""

    title: str
    opening: Sequence[Part]
    sections: Sequence[Section]
    data: dict[str, Any] = field(default_factory=dict)


def write_report(path: Path, report: Report) -> None:
    """Write the report; a reader never sees half of it."""
    cards = Cards()
    parts = [f"<h1>{text(report.title)}</h1>", *(_part(part, cards) for part in report.opening)]
    for section in report.sections:
        inner = "\n".join(_part(part, cards) for part in section.parts)
        parts.append(
            f'<section aria-label="{escaped(section.title)}">\n<h2>{text(section.title)}</h2>\n{inner}\n</section>'
        )
    write_page(path, report.title, "\n".join(parts), report.data | cards.data)


def _part(part: Part, cards: Cards) -> str:
    match part:
        case Words(words, kind):
            return f'<p class="{escaped(kind)}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>"
        case Figures(numbers):
            return f'<dl class="figures">{"".join(_figure(*one) for one in numbers)}</dl>'
        case Terms(meanings):
            inner = "".join(f"<dt>{text(term)}</dt><dd>{text(meaning)}</dd>" for term, meaning in meanings)
            return f'<dl class="words-of">{inner}</dl>'
        case Bars():
            return _bars(part)
        case Drawing(svg, caption):
            return f'<figure><div class="hold">{svg}</div><figcaption>{text(caption)}</figcaption></figure>'
        case Columns(inner):
            kind = "drawings" if all(isinstance(one, Drawing) for one in inner) else "columns"
            return f'<div class="{kind}">{"".join(f"<div>{_part(one, cards)}</div>" for one in inner)}</div>'
        case Listing(code):
            return f'<pre tabindex="0"><code>{text(code)}</code></pre>'
        case Folded(summary, inside):
            return f"<details>\n<summary>{text(summary)}</summary>\n{_part(inside, cards)}\n</details>"
        case EpisodeCard(title, record, plan):
            return cards.card(record, plan, title)
        case Table():
            return table(part)


def _figure(value: str, unit: str, label: str) -> str:
    small = f" <small>{text(unit)}</small>" if unit else ""
    return f"<div><dt>{text(label)}</dt><dd>{text(value)}{small}</dd></div>"


def _bars(bars: Bars) -> str:
    rows = "\n".join(
        f'<tr><th scope="row" title="{escaped(bar.name)}">{text(bar.name)}</th>'
        f'<td class="bar"><span style="--share: {bar.share:.1%}"></span></td>'
        f'<td class="number">{text(bar.shown)}</td><td class="number">{bar.count:,}</td></tr>'
        for bar in bars.bars
    )
    note = f'\n<p class="note">{text(bars.note)}</p>' if bars.note else ""
    return (
        f'<h3>{text(bars.title)}</h3>\n<table class="bars"><thead><tr>'
        f'<th scope="col"><span class="unseen">which</span></th>'
        f'<th scope="col" colspan="2" class="number">{text(bars.measure)}</th>'
        f'<th scope="col" class="number">episodes</th></tr></thead>\n<tbody>\n{rows}\n</tbody></table>{note}'
    )


def own(name: str) -> Markup:
    """The name of the agent that a report is about: its row stands out."""
    return Markup(f'<span class="own">{escaped(name)}</span>')
