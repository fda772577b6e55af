"""An episode on a still page, for browsers without JavaScript and for printing: a plan, the outcome, every step."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

WIDTH, AROUND = 640, 1.5  # pixels of a plan, and metres around what it shows
TOLD = 3  # words that got the most attention
Json = Mapping[str, Any]


def still_card(record: Json, plan: Json, title: str) -> str:
    """All that the record tells, as HTML; what comes from elsewhere is escaped."""
    facts = {"Outcome": _outcome(record), **_objects_asked(record), "House": record["scan"], "Agent": record["agent"]}
    scores = {name.upper(): f"{value:.3f}" for name, value in record["scores"].items()}
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="ve-words">{escape(record["instruction"]["text"])}</p>',
        _table(facts | scores),
        *(_drawn(record, plan, floor) for floor in _floors(record, plan)),
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
    lines = [f"<p>At {escape(step['viewpoint'])}" + ("" if far is None else f", {far:.2f} m to the goal") + "</p>"]
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
    way = "stop" if choice["viewpoint"] is None else f"go to {choice['viewpoint']}, {choice['distance']:.1f} m"
    marks = [mark for mark, which in (("chosen", step["chosen"]), ("the teacher's", step["teacher"])) if place == which]
    said = way + _share(choice["probability"]) + (f": {', '.join(marks)}" if marks else "")
    texts = choice["texts"]
    seen = [texts.get("captions", ""), texts.get("observations", ""), ", ".join(texts.get("detections", []))]
    told = escape("; ".join(filter(None, seen)))
    first = f"<strong>{escape(said)}</strong>" if place == step["chosen"] else escape(said)
    return f"<li>{first}{f'<br>{told}' if told else ''}</li>"


def _share(probability: float | None) -> str:
    return "" if probability is None else f" ({100 * probability:.0f} %)"


def _floors(record: Json, plan: Json) -> list[int]:
    """The floors that the walk touches."""
    floor = {one["id"]: one["floor"] for one in plan["viewpoints"]}
    return sorted({floor[name] for name in (*record["path"], *(record["reference"] or ())) if name in floor})


def _drawn(record: Json, plan: Json, floor: int) -> str:
    """One floor: rooms, the graph, the reference and the walk."""
    points = {one["id"]: one for one in plan["viewpoints"]}
    here = [one for one in plan["viewpoints"] if one["floor"] == floor]
    left, right = min(one["x"] for one in here) - AROUND, max(one["x"] for one in here) + AROUND
    low, high = min(one["y"] for one in here) - AROUND, max(one["y"] for one in here) + AROUND
    scale = WIDTH / (right - left)

    def at(x: float, y: float) -> str:
        return f"{(x - left) * scale:.1f},{(high - y) * scale:.1f}"

    def way(names: Sequence[str]) -> str:
        return " ".join(at(points[name]["x"], points[name]["y"]) for name in names if name in points)

    parts = [*_house(plan, floor, at)]
    if record["reference"]:
        parts.append(f'<polyline class="ve-reference" fill="none" points="{way(record["reference"])}"/>')
    parts.append(f'<polyline class="ve-walked" fill="none" points="{way(record["path"])}"/>')
    for name, kind, size in (
        (record["path"][0], "ve-start", 6),
        (record["path"][-1], "ve-here", 7),
        (record["goal"], "ve-goal", 10),
    ):
        if name in points and points[name]["floor"] == floor:
            x, y = at(points[name]["x"], points[name]["y"]).split(",")
            parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{size}"/>')
    label = f"Floor {floor + 1}: the walk in orange, the reference path in blue, the goal in green"
    box = f'viewBox="0 0 {WIDTH} {(high - low) * scale:.0f}"'
    drawing = f'<svg class="still" role="img" aria-label="{label}" {box}>{"".join(parts)}</svg>'
    return f"<figure>{drawing}<figcaption>{label}.</figcaption></figure>"


def _house(plan: Json, floor: int, at: Any) -> Iterator[str]:
    for room in plan["rooms"]:
        if room["floor"] == floor:
            corners = room["polygon"]
            yield f'<polygon class="ve-room" points="{" ".join(at(x, y) for x, y in corners)}"/>'
            middle = at(sum(x for x, _ in corners) / len(corners), sum(y for _, y in corners) / len(corners)).split(",")
            yield f'<text class="ve-label" x="{middle[0]}" y="{middle[1]}">{escape(room["name"])}</text>'
    for start, end in plan["edges"]:
        first, second = plan["viewpoints"][start], plan["viewpoints"][end]
        if floor in (first["floor"], second["floor"]):
            (x1, y1), (x2, y2) = (at(one["x"], one["y"]).split(",") for one in (first, second))
            yield f'<line class="ve-edge" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'
