"""A report as one HTML file that needs nothing else: sections of text, numbers, bars, figures and episodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlnbert.analysis.card import Cards
from vlnbert.analysis.figures import draw_losses, draw_rates, figure_svg
from vlnbert.analysis.findings import ENDINGS, Group, Mistakes
from vlnbert.analysis.page import Markup, table, text, write_page
from vlnbert.evaluation.metrics import Summary, is_rate, own_keys, score_keys, shown
from vlnbert.evaluation.recording import RecordedEpisode
from vlnbert.tables import Table, escaped
from vlnbert.tasks.task import METRICS, TASKS

ASKED = {
    "r2r": "An agent stands in a house and reads an instruction, such as “{example}” It walks from one viewpoint to "
    "the next, choosing at each among those that it can see, until it decides to stop. It has succeeded if it ends "
    "less than 3 m from the end of the path that was described, measured along the ways that can be walked.",
    "reverie": "An agent stands in a house and reads a request, such as “{example}” It walks from one viewpoint to the "
    "next until it decides to stop, and then says which of the objects in view was meant. The way has succeeded if it "
    "ends where that object can be seen, and the whole request if it also names the right one.",
}
HOUSES = {
    "val_seen": "The houses are those that it learned in; these instructions are new to it.",
    "val_unseen": "It has never been in these houses.",
    "dev_unseen": "These houses were kept out of its training.",
}
MEANINGS = {
    "sr": "success rate: the share of episodes that ended less than 3 m from the goal",
    "osr": "oracle success rate: the share that came so close at any time, whether or not it stopped there",
    "spl": "success weighted by path length: a success counts fully where the way was no longer than the shortest",
    "ndtw": "how much the walk is like the described path, in its order; 100 where both are the same",
    "sdtw": "the same, counted only where the episode succeeded",
    "cls": "how much of the described path was covered, less where the walk was too long or too short",
    "rgs": "remote grounding success: the share of episodes in which the right object was named",
    "rgspl": "the same, weighted by path length as SPL is",
    "tl": "trajectory length: how far it walked",
    "ne": "navigation error: how far from the goal it ended, along the ways that can be walked; less is better",
}
SEEN = {
    "sr": "success rate: the share of episodes that ended where the object can be seen",
    "osr": "oracle success rate: the share that came by such a place at any time",
}
ENDS = (".", "!", "?")
BASELINES = "random picks a direction and walks five steps; shortest knows the goal and cannot be beaten."


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
    """A part that is folded until it is clicked."""

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
    """The parts of a page, from top to bottom. `data` is in it as JSON, by id."""

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
            cells = ((label, value, f" <small>{text(unit)}</small>" if unit else "") for value, unit, label in numbers)
            inner = "".join(
                f"<div><dt>{text(label)}</dt><dd>{text(value)}{unit}</dd></div>" for label, value, unit in cells
            )
            return f'<dl class="figures">{inner}</dl>'
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


def what_was_asked(task: str, split: str, example: str) -> list[Words]:
    """The task in plain words."""
    first, *_ = (TASKS[task].__doc__ or f"The task {task}.").strip().splitlines()
    fallback = f"{first} An instruction: “{{example}}”"
    houses = HOUSES.get(split, "")
    example = example.strip()
    entries = ASKED.get(task, fallback).replace("{example}", example if example.endswith(ENDS) else f"{example}.")
    return [Words(entries, "lead"), *([Words(houses, "lead")] if houses else [])]


def headline(task: str, scores: Mapping[str, Summary], agent: str) -> Figures:
    """The numbers that matter most, beside those of the random agent."""
    keys = ("sr", "spl", "rgs", "ne") if TASKS[task].sees_objects else ("sr", "spl", "ne")
    labels = {
        "sr": "ended where the object can be seen (SR)" if TASKS[task].sees_objects else "of episodes succeeded (SR)",
        "spl": "success weighted by path length (SPL)",
        "rgs": "named the right object (RGS)",
        "ne": "from the goal in the end, on average (NE)",
    }
    own = own_keys(scores[agent])
    labels |= {key: METRICS[key].meaning or METRICS[key].title for key in own}
    numbers = []
    for key in (*keys, *own):
        value, random = scores[agent].get(key), scores.get("random", {}).get(key)
        if value is not None:
            beside = "" if random is None else f"; random: {shown(key, random)}"
            numbers.append((shown(key, value), METRICS[key].unit, labels[key] + beside))
    return Figures(numbers)


def how_well(
    task: str, scores: Mapping[str, Summary], agent: str, paper: Mapping[str, Mapping[str, str]], note: str
) -> Section:
    """The scores beside those of the baselines and, on a published split, of the paper; and what they mean."""
    keys = score_keys(scores.values())
    rows = [
        [own(name) if name == agent else name, *(shown(key, summary.get(key)) for key in keys)]
        for name, summary in scores.items()
    ]
    rows += [[name, *(row.get(key, "-") for key in keys)] for name, row in paper.items()]
    entries = [BASELINES, note]
    if paper:
        entries.append("The paper's rows are as printed; its agents saw image features.")
    words = MEANINGS | (SEEN if TASKS[task].sees_objects else {})
    words |= {key: METRICS[key].meaning for key in own_keys(scores[agent]) if METRICS[key].meaning}
    table = Table(["agent", *(METRICS[key].heading for key in keys)], rows, note=" ".join(filter(None, entries)))
    meanings = [(METRICS[key].title, words[key]) for key in keys if key in words]
    others = [METRICS[key] for key in own_keys(scores[agent]) if not is_rate(key)]
    units = "".join(f", {metric.title} {f'in {metric.unit}' if metric.unit else 'has no unit'}" for metric in others)
    unit = Words(f"TL and NE are in metres{units}, the other scores in percent, as means over all episodes.", "note")
    return Section("How well it did", [table, Terms(meanings), unit])


def how_it_learned(log: Sequence[dict[str, Any]], split: str, others: Mapping[str, float]) -> Section:
    losses = Drawing(
        figure_svg(draw_losses(log)), "The losses, which training tries to make smaller, update by update."
    )
    rates = Drawing(
        figure_svg(draw_rates(log, split, others)), f"The scores on {split} at each validation, in percent."
    )
    return Section("How it learned", [Columns([losses, rates])])


def what_went_wrong(mistakes: Mistakes) -> Section:
    """How episodes ended, where paths were left, and which episodes are hard."""
    total = sum(mistakes.endings.values())
    endings = [_share(name, number, total) for name, number in mistakes.endings.items()]
    left = [_share(name, number, total) for name, number in mistakes.left_path.items()]
    houses = (
        "" if len(mistakes.by_house) == mistakes.houses else f"The easiest and the hardest of {mistakes.houses} houses."
    )
    meanings = Terms([(name, meaning) for name, meaning in ENDINGS.items()])
    return Section(
        "Where it went wrong",
        [
            Columns(
                [
                    Bars("How episodes ended", endings, "share"),
                    Bars(
                        "Where it left the described path",
                        left,
                        "share",
                        "Counted in the moves made along it before. Who stops on the path has not left it.",
                    ),
                ]
            ),
            meanings,
            Columns(
                [
                    Bars("By the length of the path", _rates(mistakes.by_path_length), "SR"),
                    Bars("By the length of the instruction", _rates(mistakes.by_words), "SR"),
                ]
            ),
            Bars("By house", _rates(mistakes.by_house), "SR", houses),
        ],
    )


def _share(name: str, number: int, total: int) -> Bar:
    share = number / total if total else 0.0
    return Bar(name, share, f"{100 * share:.1f} %", number)


def _rates(groups: Sequence[Group]) -> list[Bar]:
    return [Bar(group.name, group.rate, f"{100 * group.rate:.1f} %", group.episodes) for group in groups]
