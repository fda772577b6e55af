"""An episode that stands still, for paper and for browsers without JavaScript: its plan, its words and every step.

It is made of the record's JSON, as the viewer is, and has no inline styles: a page may forbid them.
"""

from collections.abc import Iterable
from typing import Any

from vlnbert.analysis.card_text import percent, way_to
from vlnbert.analysis.page import Markup, table, text
from vlnbert.analysis.still_plan import still_plan
from vlnbert.analysis.words import laid_out, most_read
from vlnbert.evaluation.tables import own_keys, shown
from vlnbert.tables import Table, escaped
from vlnbert.tasks.task import METRICS

MOST_READ = 3  # words named at each step
SHADES = 10  # classes of the style sheet that tint a word
SHOWN_SCORES = ("spl", "ndtw", "rgspl", "tl")
SPACE = "\N{NO-BREAK SPACE}"

Json = dict[str, Any]


def still_card(record: Json, plan: Json) -> str:
    """The words, the plan and every step, as HTML."""
    return "\n".join(
        [tinted(record), _panels(record, plan), _legend(record, plan), _steps(record), _other_views(record)]
    )


def outcome(record: Json) -> str:
    """What became of it, as a paragraph."""
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
        shade = round(SHADES * max(0.0, means[place]) / most)
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
    """A row for each decision; columns that no step has anything to say in are left out."""
    rows = [
        (
            str(number),
            "" if step["distance_to_goal"] is None else f"{step['distance_to_goal']:.1f} m",
            _chosen(step),
            _seen(step["choices"][step["chosen"]]),
            "; ".join(_way(step, index) for index in _others(step)),
            "" if step["attention"] is None else ", ".join(most_read(words, step["attention"], MOST_READ)),
            _objects(step),
        )
        for words in [record["instruction"]["words"]]
        for number, step in enumerate(record["steps"], start=1)
    ]
    names = ("step", "to the goal", "went", "what it saw there", "other choices", "read most", "objects in view")
    kept = [place for place in range(len(names)) if place in (0, 2) or any(row[place] for row in rows)]
    columns = [names[place] for place in kept]
    cells = [[row[place] for place in kept] for row in rows]
    return f'<div class="steps">{table(Table(columns, cells, title="Step by step"))}</div>'


def _other_views(record: Json) -> str:
    """What the views showed that were not chosen; a click opens it."""
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


def _chosen(step: Json) -> str:
    way = _way(step, step["chosen"])
    if step["teacher"] is None or step["teacher"] == step["chosen"]:
        return way
    return f"{way} (teacher: {_direction(step, step['teacher'])})"


def _others(step: Json) -> list[int]:
    """The choices that were not taken, the likeliest first."""
    others = [index for index in range(len(step["choices"])) if index != step["chosen"]]
    return sorted(others, key=lambda index: -(step["choices"][index]["probability"] or 0))


def _seen(choice: Json) -> str:
    """What the data folder says of a choice's view."""
    texts = choice["texts"]
    found = ", ".join(texts.get("detections", ()))
    said = (texts.get("captions", ""), texts.get("observations", ""), f"detected: {found}" if found else "")
    return "; ".join(filter(None, said))


def _objects(step: Json) -> str:
    found = sorted(step["objects"], key=lambda one: -(one["probability"] or 0))
    return "; ".join(one["name"] + _share(one["probability"]) for one in found)


def _share(share: float | None) -> str:
    return "" if share is None else f", {percent(share).replace(' ', SPACE)}"
