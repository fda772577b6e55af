"""An episode on a still page, for browsers without JavaScript and for printing: a plan, the outcome, every step."""

from collections.abc import Mapping
from html import escape
from typing import Any

from vlnbert.analysis.card_text import way_to
from vlnbert.analysis.still_plan import still_plan

TOLD = 3  # words that got the most attention
Json = dict[str, Any]


def still_card(record: Json, plan: Json, title: str) -> str:
    """All that the record tells, as HTML; what comes from elsewhere is escaped."""
    facts = {"Outcome": _outcome(record), **_objects_asked(record), "House": record["scan"], "Agent": record["agent"]}
    scores = {name.upper(): f"{value:.3f}" for name, value in record["scores"].items()}
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="ve-words">{escape(record["instruction"]["text"])}</p>',
        _table(facts | scores),
        *(
            f"<figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"
            for caption, drawn in still_plan(record, plan)
        ),
        "<h2>Step by step</h2>",
        f"<ol>{''.join(_step(step, record) for step in record['steps'])}</ol>",
        '<p><a href="/">Back to the explorer</a></p>',
    ]
    return "".join(parts)


def _outcome(record: Json) -> str:
    known = {True: "success", False: "failure", None: "no goal is known"}[record["success"]]
    return f"{record['outcome']}; {known}"


def _objects_asked(record: Json) -> dict[str, str]:
    asked = {"Named": record["named_object"], "Asked for": record["target_object"]}
    return {what: thing["name"] for what, thing in asked.items() if thing is not None}


def _table(facts: Mapping[str, str]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(fact)}</td></tr>' for name, fact in facts.items()
    )
    return f"<table>{rows}</table>"


def _step(step: Json, record: Json) -> str:
    """One decision: how far the goal is, what could be chosen, what was read, what was seen."""
    far = step["distance_to_goal"]
    lines = [
        f"<p>At viewpoint {escape(step['viewpoint'][:8])}"
        + ("" if far is None else f", {far:.2f} m to the goal")
        + "</p>"
    ]
    choices = (_choice(choice, place, step) for place, choice in enumerate(step["choices"]))
    lines.append(f"<ul>{''.join(choices)}</ul>")
    if step["attention"]:
        words, weights = record["instruction"]["words"], step["attention"]
        most = sorted(range(len(weights)), key=lambda place: -weights[place])[:TOLD]
        read = ", ".join(f"{words[place]} ({100 * weights[place]:.0f} %)" for place in sorted(most))
        lines.append(f"<p>Read most: {escape(read)}</p>")
    if step["objects"]:
        seen = ", ".join(one["name"] + _share(one["probability"]) for one in step["objects"])
        lines.append(f"<p>Objects in view: {escape(seen)}</p>")
    return f"<li>{''.join(lines)}</li>"


def _choice(choice: Json, place: int, step: Json) -> str:
    way = "stop"
    if choice["viewpoint"] is not None:
        way = way_to(choice["heading"], choice["elevation"], choice["distance"], facing=step["heading"])
    marks = [mark for mark, which in (("chosen", step["chosen"]), ("the teacher's", step["teacher"])) if place == which]
    said = way + _share(choice["probability"]) + (f": {', '.join(marks)}" if marks else "")
    texts = choice["texts"]
    seen = [texts.get("captions", ""), texts.get("observations", ""), ", ".join(texts.get("detections", []))]
    told = escape("; ".join(filter(None, seen)))
    first = f"<strong>{escape(said)}</strong>" if place == step["chosen"] else escape(said)
    return f"<li>{first}{f'<br>{told}' if told else ''}</li>"


def _share(probability: float | None) -> str:
    return "" if probability is None else f" ({100 * probability:.0f} %)"
