"""One episode as a card of a page: what was asked, what became of it, the plan and every step."""

from itertools import count
from pathlib import Path
from typing import Any

from vlnbert.analysis.card_text import direction
from vlnbert.analysis.episode_record import RecordedEpisode, RecordedStep
from vlnbert.analysis.page import Markup, table, text, write_page
from vlnbert.analysis.still_plan import still_plan
from vlnbert.evaluation.tables import METRICS, score_table, shown
from vlnbert.tables import Table, escaped

MOST_READ = 3  # words named at each step
TIGHT = tuple(".,;:!?)'%")  # what no space stands before
SHOWN_SCORES = ("spl", "ndtw", "rgspl", "tl")
SPACE = "\N{NO-BREAK SPACE}"
DIGITS = 5  # of the numbers that the viewer draws; scores keep all of theirs

Json = dict[str, Any]


class Cards:
    """The cards of one page, and the data that their viewers read: a house's plan is there once."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self._numbers = count(1)

    def card(self, record: RecordedEpisode, plan: Json, title: str = "") -> str:
        """An episode as HTML; its record and its house go into `data`."""
        name, house = f"record-{next(self._numbers)}", f"plan-{record.scan}"
        told = record.to_json()
        self.data |= {name: rounded(told), house: plan}
        verdict = "withheld" if record.success is None else "success" if record.success else "failure"
        return (
            f'<article class="card" data-record="{name}" data-plan="{escaped(house)}">\n'
            f"<header><h3>{text(title or f'Episode {record.id}')}</h3>"
            f'<p class="outcome {verdict}">{text(f"{record.verdict}: {record.ending}")}</p></header>\n'
            f'<p class="facts">{text(facts(record))}</p>\n<div class="viewer"></div>\n'
            f'<div class="still">\n{tinted(record)}\n{_panels(told, plan)}\n{_legend(record)}\n{_steps(record)}\n'
            f"</div>\n</article>"
        )


def write_card_page(path: Path, record: RecordedEpisode, plan: Json) -> None:
    """Write a page with one episode."""
    cards, title = Cards(), f"Episode {record.id}"
    card = cards.card(record, plan, record.where)
    scores = table(score_table("Scores", {record.agent: record.scores})) if record.scores else ""
    body = f'<h1>{text(title)}</h1>\n<p class="lead">{text(f"Walked by {record.agent}.")}</p>\n<h2>Step by step</h2>\n'
    write_page(path, title, f"{body}{card}\n{scores}", cards.data)


def rounded(told: Any) -> Any:
    """Numbers in few digits, which is all that a picture shows; scores stay as they are."""
    match told:
        case float():
            return float(f"{told:.{DIGITS}g}")
        case dict():
            return {key: value if key == "scores" else rounded(value) for key, value in told.items()}
        case list() | tuple():
            return [rounded(value) for value in told]
    return told


def facts(record: RecordedEpisode) -> str:
    """The scores of an episode, and where it was, in a line."""
    units = {key: " m" if METRICS[key][0].endswith(" m") else " %" for key in SHOWN_SCORES}
    known = [
        f"{METRICS[key][0].removesuffix(' m')} {shown(key, record.scores[key])}{units[key]}"
        for key in SHOWN_SCORES
        if key in record.scores
    ]
    moves = len(record.path) - 1
    return " · ".join([f"{moves} {'move' if moves == 1 else 'moves'}", *known, f"house {record.scan}"])


def tinted(record: RecordedEpisode) -> Markup:
    """The instruction, its words tinted by the attention that they got over all steps."""
    weights = [step.attention for step in record.steps if step.attention is not None]
    words = record.instruction.words
    if not weights or not words:
        return Markup(f'<p class="words">{escaped(record.instruction.text)}</p>')
    means = [sum(column) / len(weights) for column in zip(*weights, strict=True)]
    most = max(means) or 1.0
    marks = [
        f'{"" if word.startswith(TIGHT) else " "}<mark style="--weight: {weight / most:.0%}">{escaped(word)}</mark>'
        for word, weight in zip(words, means, strict=True)
    ]
    note = "Words are tinted by the attention that they got, as a mean over all steps."
    return Markup(f'<p class="words">{"".join(marks).strip()}</p>\n<p class="note">{note}</p>')


def _panels(told: Json, plan: Json) -> str:
    panels = [
        f"<figure>{svg}{f'<figcaption>{escaped(caption)}</figcaption>' if caption else ''}</figure>"
        for caption, svg in still_plan(told, plan)
    ]
    return f'<div class="panels">{"".join(panels)}</div>'


def _legend(record: RecordedEpisode) -> str:
    keys = {"walked": "walked, by step"}
    if record.reference is not None:
        keys["reference"] = "reference path"
    if record.goals is not None:
        keys["goal"] = "sees the object" if record.target_object is not None else "stopping here succeeds"
    if record.target_object is not None:
        keys["object"] = "the object asked for"
    entries = "".join(f'<li><span class="ve-key ve-key-{key}"></span>{words}</li>' for key, words in keys.items())
    return f'<ul class="ve-legend">{entries}</ul>'


def _steps(record: RecordedEpisode) -> str:
    rows = [
        (
            str(number),
            _metres(step.distance_to_goal),
            _chosen(step),
            _choices(step),
            _read(record, step),
            _objects(step),
        )
        for number, step in enumerate(record.steps, start=1)
    ]
    names = ("step", "to the goal", "went", "other choices", "read most", "objects in view")
    kept = [place for place in range(len(names)) if place < 4 or any(row[place] for row in rows)]
    columns = [names[place] for place in kept]
    cells = [[row[place] for place in kept] for row in rows]
    return f'<div class="steps">{table(Table(columns, cells, title="Step by step"))}</div>'


def _metres(distance: float | None) -> str:
    return "" if distance is None else f"{distance:.1f} m"


def _way(step: RecordedStep, index: int) -> str:
    sure = step.choices[index].probability
    return direction(step, index) + ("" if sure is None else f", {100 * sure:.0f}{SPACE}%")


def _chosen(step: RecordedStep) -> str:
    if step.teacher is None or step.teacher == step.chosen:
        return _way(step, step.chosen)
    return f"{_way(step, step.chosen)} (teacher: {direction(step, step.teacher)})"


def _choices(step: RecordedStep) -> str:
    others = [index for index in range(len(step.choices)) if index != step.chosen]
    others.sort(key=lambda index: -(step.choices[index].probability or 0))
    return "; ".join(_way(step, index) for index in others)


def _read(record: RecordedEpisode, step: RecordedStep) -> str:
    if step.attention is None:
        return ""
    words = sorted(zip(step.attention, record.instruction.words, strict=True), key=lambda pair: -pair[0])
    return ", ".join(dict.fromkeys(word for _, word in words[:MOST_READ]))


def _objects(step: RecordedStep) -> str:
    found = sorted(step.objects, key=lambda one: -(one.probability or 0))
    return "; ".join(
        one.name + ("" if one.probability is None else f", {100 * one.probability:.0f}{SPACE}%") for one in found
    )
