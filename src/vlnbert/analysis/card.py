"""One episode as a card: text for a terminal, or HTML with a viewer and all of it standing still, or a picture.

HTML is made of the record's JSON, as the viewer is, and has no inline styles: a page may forbid them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlnbert.analysis.house_plan import house_plan, still_plan
from vlnbert.analysis.page import Markup, laid_out, most_read, percent, table, text, way_to, write_page
from vlnbert.data.data import Data
from vlnbert.errors import UsageError
from vlnbert.evaluation.metrics import own_keys, score_table, shown
from vlnbert.evaluation.recording import RecordedEpisode
from vlnbert.tables import WIDE, Table, escaped
from vlnbert.tasks.task import METRICS

if TYPE_CHECKING:
    from rich.text import Text

MOST_READ = 3  # words named at each step
# Shading from a share of the strongest word's attention on; black ink stays readable on dark screens.
SHADES = (
    (0.66, "black on rgb(255,150,60)"),
    (0.4, "black on rgb(255,190,130)"),
    (0.2, "black on rgb(255,225,195)"),
)
TINTS = 10  # classes of the style sheet that tint a word
COLOURS = {"Success": "bold green", "Failure": "bold red"}
DIGITS = 5  # of the numbers that the viewer draws; scores keep all of theirs
SHOWN_SCORES = ("spl", "ndtw", "rgspl", "tl")
SPACE = "\N{NO-BREAK SPACE}"
PAGE, PICTURES = ".html", (".svg", ".png", ".pdf")

Json = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Episode:
    """One episode that was walked and scored: `print` it, look at it in a notebook, or take its `record`."""

    record: RecordedEpisode
    data: Data

    def to_json(self, indent: int | None = None) -> str:
        """The record as a JSON object."""
        return dumps(self.record.to_json(), indent=indent)

    def write(self, path: str | Path) -> Path:
        """Write its card: by its ending a page (.html) or a picture of the floor plan (.svg, .png, .pdf)."""
        write_card(Path(path), self.record, self.data)
        return Path(path)

    def __repr__(self) -> str:
        return card_text(self.record)

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in tables(self.record))


def card_text(record: RecordedEpisode, width: int = WIDE) -> str:
    """The whole card without colour."""
    head = "\n".join(head_lines(record))
    return "\n\n".join([head, record.instruction.text.strip(), *(table.text(width) for table in tables(record))])


def head_lines(record: RecordedEpisode) -> tuple[str, str]:
    """Two lines: which episode, and its outcome."""
    return f"Episode {record.id}, {record.where}, walked by {record.agent}", f"{record.verdict}: {record.ending}"


def tables(record: RecordedEpisode) -> list[Table]:
    """The steps and, where there are some, the scores."""
    scores = [score_table("scores", {record.agent: record.scores})] if record.scores else []
    return [step_table(record), *scores]


def step_table(record: RecordedEpisode) -> Table:
    """A row for each decision; empty columns are left out."""
    rows = []
    for number, step in enumerate(record.to_json()["steps"], start=1):
        chosen, teacher, others = step["choices"][step["chosen"]], step["teacher"], _others(step)
        known = bool(others) and step["choices"][others[0]]["probability"] is not None
        seen = next(iter(_objects(step)), None)
        rows.append(
            (
                str(number),
                "" if step["distance_to_goal"] is None else f"{step['distance_to_goal']:.2f} m",
                _direction(step, step["chosen"]),
                percent(chosen["probability"]),
                f"{_direction(step, others[0])} {percent(step['choices'][others[0]]['probability'])}" if known else "",
                "" if teacher is None else "same" if teacher == step["chosen"] else _direction(step, teacher),
                "" if seen is None or seen["probability"] is None else f"{seen['name']} {percent(seen['probability'])}",
                _read(record.instruction.words, step),
                chosen["texts"].get("captions", ""),
            )
        )
    columns = ("step", "to goal", "chooses", "p", "next best", "teacher", "object", "attends to", "sees there")
    return _filled(Table(columns, rows, title="Steps"), always=(0, 1, 2))


def _filled(table: Table, always: Sequence[int]) -> Table:
    """A table without its empty columns, but for some."""
    filled = {place for row in table.rows for place, cell in enumerate(row) if cell.strip()}
    places = sorted(filled.union(always))
    rows = [[row[place] for place in places] for row in table.rows]
    return Table([table.columns[place] for place in places], rows, title=table.title)


def shaded_instruction(record: RecordedEpisode) -> "Text":
    """The words as read, shaded by their mean attention over all steps; as written without attention."""
    from rich.text import Text

    attention = [step.attention for step in record.steps if step.attention is not None]
    if not attention:
        return Text(record.instruction.text.strip())
    mean = [sum(weights) / len(attention) for weights in zip(*attention, strict=True)]
    most, text = max(mean, default=0.0) or 1.0, Text()
    for piece, place in laid_out(record.instruction.text.strip(), record.instruction.words):
        weight = 0.0 if place is None else mean[place]
        text.append(piece, next((style for share, style in SHADES if weight >= share * most), ""))
    return text


class Cards:
    """The cards of one page, and the data that their viewers read: a house's plan is there once."""

    def __init__(self) -> None:
        self.data: Json = {}
        self.count = 0

    def card(self, record: RecordedEpisode, plan: Json, title: str = "") -> str:
        """An episode as HTML; its record and its house go into `data`."""
        self.count += 1
        name, house = f"record-{self.count}", f"plan-{record.scan}"
        values = record.to_json()
        self.data |= {name: rounded(values), house: plan}
        return (
            f'<article class="card" data-record="{name}" data-plan="{escaped(house)}">\n'
            f"<header><h3>{text(title or f'Episode {record.id}')}</h3>{outcome(values)}</header>\n"
            f'{facts(values)}\n<div class="viewer"></div>\n'
            f'<div class="still">\n{still_card(values, plan)}\n</div>\n</article>'
        )


def rounded(values: Any) -> Any:
    """Numbers in few digits, which is all that a picture shows; scores stay as they are."""
    match values:
        case float():
            return float(f"{values:.{DIGITS}g}")
        case dict():
            return {key: value if key == "scores" else rounded(value) for key, value in values.items()}
        case list() | tuple():
            return [rounded(value) for value in values]
    return values


def still_card(record: Json, plan: Json) -> str:
    """The words, the plan and every step, as HTML."""
    return "\n".join(
        [tinted(record), _panels(record, plan), _legend(record, plan), _steps(record), _other_views(record)]
    )


def outcome(record: Json) -> str:
    """The outcome, as a paragraph."""
    kind = "withheld" if record["success"] is None else "success" if record["success"] else "failure"
    told = f"{record['verdict']}: {record['ending']}"
    return f'<p class="outcome {kind}">{text(told)}</p>'


def facts(record: Json) -> str:
    """The scores of an episode, its limit and where it was, in a line."""
    scores = record["scores"]
    keys = [key for key in (*SHOWN_SCORES, *own_keys(scores)) if key in scores]
    known = [f"{METRICS[key].title} {shown(key, scores[key])} {METRICS[key].unit}".strip() for key in keys]
    moves, limit = len(record["path"]) - 1, record["max_steps"]
    allowed = [] if limit is None else [f"at most {limit} {'step' if limit == 1 else 'steps'}"]
    told = [f"{moves} {'move' if moves == 1 else 'moves'}", *allowed, *known, f"house {record['scan']}"]
    return f'<p class="facts">{text(" · ".join(told))}</p>'


def tinted(record: Json) -> Markup:
    """The instruction, its words tinted by the attention that they got over all steps."""
    asked = record["instruction"]
    weights = [step["attention"] for step in record["steps"] if step["attention"] is not None]
    if not weights or not asked["words"]:
        return Markup(f'<p class="words">{escaped(asked["text"])}</p>')
    means = [sum(column) / len(weights) for column in zip(*weights, strict=True)]
    most = max(means) or 1.0
    marks = []
    for piece, place in laid_out(asked["text"], asked["words"]):
        if place is None:
            marks.append(escaped(piece))
            continue
        new = place in asked["unknown"]
        told = ' title="not known to this agent"' if new else ""
        shade = round(TINTS * max(0.0, means[place]) / most)
        marks.append(f'<mark class="ve-shade-{shade}{" ve-unknown" if new else ""}"{told}>{escaped(piece)}</mark>')
    note = "Words are tinted by the attention that they got, as a mean over all steps."
    if asked["unknown"]:
        note += " The agent does not know those with a dotted line."
    return Markup(f'<p class="words">{"".join(marks).strip()}</p>\n<p class="note">{note}</p>')


def _legend_entries(record: Json, plan: Json) -> Iterable[tuple[str, str]]:
    yield "walked", "walked, by step"
    if record["reference"] is not None:
        yield "reference", "reference path"
    if record["goals"] is not None:
        yield "goal", "sees the object" if record["target_object"] is not None else "stopping here succeeds"
    if record["target_object"] is not None:
        yield "object", "the object asked for"
    if plan["objects"]:
        yield "thing", "objects"
    yield "graph", "viewpoints and ways"


def _legend(record: Json, plan: Json) -> str:
    keys = _legend_entries(record, plan)
    entries = (f'<li><span class="ve-key ve-key-{key}"></span>{words}</li>' for key, words in keys)
    return f'<ul class="ve-legend">{"".join(entries)}</ul>'


def _panels(record: Json, plan: Json) -> str:
    panels = [
        f"<figure>{svg}{f'<figcaption>{escaped(caption)}</figcaption>' if caption else ''}</figure>"
        for caption, svg in still_plan(record, plan)
    ]
    return f'<div class="panels">{"".join(panels)}</div>'


def _steps(record: Json) -> str:
    """A row for each decision; empty columns are left out."""
    rows = []
    for number, step in enumerate(record["steps"], start=1):
        went, teacher = _way(step, step["chosen"]), step["teacher"]
        if teacher is not None and teacher != step["chosen"]:
            went += f" (teacher: {_direction(step, teacher)})"
        rows.append(
            (
                str(number),
                "" if step["distance_to_goal"] is None else f"{step['distance_to_goal']:.1f} m",
                went,
                _seen(step["choices"][step["chosen"]]),
                "; ".join(_way(step, index) for index in _others(step)),
                _read(record["instruction"]["words"], step),
                "; ".join(one["name"] + _share(one["probability"]) for one in _objects(step)),
            )
        )
    names = ("step", "to the goal", "went", "what it saw there", "other choices", "read most", "objects in view")
    return f'<div class="steps">{table(_filled(Table(names, rows, title="Step by step"), always=(0, 2)))}</div>'


def _other_views(record: Json) -> str:
    """The captions of views that were not chosen, folded."""
    told = [
        f"<li>{text(f'step {number}, {_direction(step, index)}: {seen}')}</li>"
        for number, step in enumerate(record["steps"], start=1)
        for index in _others(step)
        if (seen := _seen(step["choices"][index]))
    ]
    return f"<details><summary>What the other views showed</summary><ul>{''.join(told)}</ul></details>" if told else ""


def _direction(step: Json, index: int) -> str:
    choice = step["choices"][index]
    if choice["viewpoint"] is None:
        return "stop"
    return way_to(choice["heading"], choice["elevation"], choice["distance"], facing=step["heading"])


def _way(step: Json, index: int) -> str:
    return _direction(step, index) + _share(step["choices"][index]["probability"])


def _others(step: Json) -> list[int]:
    """The choices that were not taken, the likeliest first."""
    others = [place for place in range(len(step["choices"])) if place != step["chosen"]]
    return sorted(others, key=lambda place: -(step["choices"][place]["probability"] or 0))


def _objects(step: Json) -> list[Json]:
    """The objects in view, the likeliest first."""
    return sorted(step["objects"], key=lambda one: -(one["probability"] or 0))


def _read(words: Sequence[str], step: Json) -> str:
    return "" if step["attention"] is None else ", ".join(most_read(words, step["attention"], MOST_READ))


def _seen(choice: Json) -> str:
    """Captions and detections of a choice's view, from the data folder."""
    texts = choice["texts"]
    found = ", ".join(texts.get("detections", ()))
    said = (texts.get("captions", ""), texts.get("observations", ""), f"detected: {found}" if found else "")
    return "; ".join(filter(None, said))


def _share(share: float | None) -> str:
    return "" if share is None else f", {percent(share).replace(' ', SPACE)}"


def write_card_page(path: Path, record: RecordedEpisode, plan: Json) -> None:
    """Write a page with one episode."""
    cards, title = Cards(), f"Episode {record.id}"
    card = cards.card(record, plan, record.where)
    scores = table(score_table("Scores", {record.agent: record.scores})) if record.scores else ""
    body = f'<h1>{text(title)}</h1>\n<p class="lead">{text(f"Walked by {record.agent}.")}</p>\n<h2>Step by step</h2>\n'
    write_page(path, title, f"{body}{card}\n{scores}", cards.data)


def write_card(path: Path, record: RecordedEpisode, data: Data) -> None:
    """Write a card, by its ending as a page to step through (.html) or as a picture (.svg, .png, .pdf)."""
    require_card_name(path)
    if path.suffix.lower() == PAGE:
        write_card_page(path, record, house_plan(data, record.scan))
        return
    # Both need matplotlib, which the explorer does without.
    from vlnbert.analysis.figures import save_figure
    from vlnbert.analysis.floorplan import draw_episode

    walked, reference = (
        [data.world.find(record.scan, name) for name in names] for names in (record.path, record.reference or ())
    )
    title = f"Episode {record.id}, {record.agent}"
    figure = draw_episode(data.world, walked, reference, title, succeeded=record.success, ending=record.ending)
    save_figure(figure, path)


def require_card_name(path: Path) -> None:
    """Refuse a name whose ending says no kind of card."""
    if path.suffix.lower() not in (PAGE, *PICTURES):
        raise UsageError(
            f"{path} names no kind of card; end it in {', '.join((PAGE, *PICTURES[:-1]))} or {PICTURES[-1]}"
        )
