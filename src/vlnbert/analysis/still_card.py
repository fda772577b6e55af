"""An episode that stands still, for paper and for browsers without JavaScript: its plan, its words and every step.

It is made of the record's JSON, as the viewer is, and has no inline styles: a page may forbid them.
"""

import math
from collections.abc import Callable, Iterable
from itertools import groupby, pairwise
from typing import Any

from vlnbert.analysis.page import Markup, laid_out, most_read, percent, table, text, way_to
from vlnbert.evaluation.metrics import own_keys, shown
from vlnbert.tables import Table, escaped
from vlnbert.tasks.task import METRICS

WIDTH, TALLEST, FLATTEST = 340.0, 360.0, 200.0  # pixels of a panel
AROUND, CLOSEST = 1.8, 52.0  # metres around what must be seen; pixels to the metre, however short the walk
ROOM_PLACES = [
    (down, side) for down in (0, -18, 18, -34, 34, -50, 50) for side in (0, -0.5, 0.5, -1, 1)
]  # from the middle
SIGHT = 1.5  # metres at which an object is drawn whose distance nobody knows
LETTER = 6.6  # pixels that a letter of a label takes, about

Json = dict[str, Any]
MOST_READ = 3  # words named at each step
SHADES = 10  # classes of the style sheet that tint a word
SHOWN_SCORES = ("spl", "ndtw", "rgspl", "tl")
SPACE = "\N{NO-BREAK SPACE}"


def still_plan(record: Json, plan: Json) -> list[tuple[str, str]]:
    """A caption and an <svg> for each floor that the episode touches, lowest first."""
    places = {viewpoint["id"]: viewpoint for viewpoint in plan["viewpoints"]}
    shown = [places[id] for id in (*record["path"], *(record["reference"] or ())) if id in places]
    floors = sorted({place["floor"] for place in shown})
    target = [one for one in plan["objects"] if _is_target(record, one) and one["floor"] in floors]
    goals = [places[id] for id in record["goals"] or () if id in places and places[id]["floor"] in floors]
    panel = _Panel([*shown, *goals, *target])
    captions = [f"floor {floor + 1} of {len(plan['floors'])}" if len(plan["floors"]) > 1 else "" for floor in floors]
    drawn = [
        _Floor(record, plan, places, floor, panel).svg(caption) for floor, caption in zip(floors, captions, strict=True)
    ]
    return list(zip(captions, drawn, strict=True))


def _is_target(record: Json, thing: Json) -> bool:
    return record["target_object"] is not None and str(thing["id"]) == str(record["target_object"]["id"])


class _Panel:
    """Where metres lie on a panel that shows all of some places."""

    def __init__(self, places: Iterable[Json]) -> None:
        points = [(float(place["x"]), float(place["y"])) for place in places]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        wide, high = (max(axis) - min(axis) + 2 * AROUND for axis in (xs, ys))
        self.scale = min(CLOSEST, WIDTH / wide, TALLEST / high)
        self.height = max(FLATTEST, high * self.scale)
        self.middle = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2

    def x(self, metres: float) -> float:
        return round(WIDTH / 2 + (metres - self.middle[0]) * self.scale, 1)

    def y(self, metres: float) -> float:
        return round(self.height / 2 - (metres - self.middle[1]) * self.scale, 1)


class _Floor:
    """One floor, layer by layer."""

    def __init__(self, record: Json, plan: Json, places: dict[str, Json], floor: int, on: _Panel) -> None:
        self.record, self.plan, self.places, self.floor, self.on = record, plan, places, floor, on
        self.taken: list[tuple[float, float, float, float]] = [(WIDTH - 140, on.height - 24, WIDTH, on.height)]

    def svg(self, caption: str) -> str:
        layers = (
            self.rooms,
            self.graph,
            self.reference,
            self.goals,
            self.objects,
            self.sight,
            self.walk,
            self.scale_bar,
            self.names,
        )
        label = f"Floor plan{', ' if caption else ''}{caption}: where the agent walked, numbered by its steps"
        return (
            f'<svg role="img" aria-label="{label}" width="{WIDTH:.0f}" height="{self.on.height:.0f}" '
            f'viewBox="0 0 {WIDTH:.0f} {self.on.height:.0f}">'
            f"{''.join(part for layer in layers for part in layer())}</svg>"
        )

    def here(self, kind: str) -> list[Json]:
        return [one for one in self.plan[kind] if one["floor"] == self.floor]

    def rooms(self) -> Iterable[str]:
        yield from (
            f'<polygon class="ve-room" points="{self.points(room["polygon"])}"/>' for room in self.here("rooms")
        )
        for flight in self.plan["stairs"]:
            if self.floor in (flight["floor"], flight["floor"] + 1):
                yield f'<polygon class="ve-stairs" points="{self.points(flight["polygon"])}"/>'
                yield from self.treads(flight["polygon"])
        for door in self.here("doors"):
            (x1, y1), (x2, y2) = door["from"], door["to"]
            yield self.line({"x": x1, "y": y1}, {"x": x2, "y": y2}, "ve-door")

    def names(self) -> Iterable[str]:
        """Names of rooms, where they cover nothing else; one that finds no place is left out."""
        for room in self.here("rooms"):
            xs = [min(max(self.on.x(x), 0), WIDTH) for x, _ in room["polygon"]]
            ys = [min(max(self.on.y(y), 0), self.on.height) for _, y in room["polygon"]]
            half, middle = LETTER * len(room["name"]) / 2 + 3, ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
            if max(xs) - min(xs) < 2 * half or max(ys) - min(ys) < 26:
                continue
            places = ((middle[0] + side * half, middle[1] + down) for down, side in ROOM_PLACES)
            free = ((x, y) for x, y in places if self.is_free(x, y, half))
            if place := next(free, None):
                yield self.label(room["name"], *place, "ve-room-name")

    def is_free(self, x: float, y: float, half: float) -> bool:
        """Whether a line of text there covers no mark of the panel, and remember it if so."""
        box = x - half, y - 11, x + half, y + 4
        if box[0] < 0 or box[2] > WIDTH or box[1] < 0 or box[3] > self.on.height:
            return False
        if any(box[0] < r and left < box[2] and box[1] < low and top < box[3] for left, top, r, low in self.taken):
            return False
        self.taken.append(box)
        return True

    def take(self, x: float, y: float, wide: float, high: float) -> None:
        self.taken.append((x - wide, y - high, x + wide, y + high))

    def treads(self, polygon: list[list[float]]) -> Iterable[str]:
        if len(polygon) == 4:
            (ax, ay), (bx, by), (cx, cy), (dx, dy) = polygon
            for tread in range(1, 9):
                part = tread / 9
                start = {"x": ax + (dx - ax) * part, "y": ay + (dy - ay) * part}
                yield self.line(start, {"x": bx + (cx - bx) * part, "y": by + (cy - by) * part}, "ve-tread")

    def graph(self) -> Iterable[str]:
        viewpoints = self.plan["viewpoints"]
        for start, end in self.plan["edges"]:
            if self.floor in (viewpoints[start]["floor"], viewpoints[end]["floor"]):
                yield self.line(viewpoints[start], viewpoints[end], "ve-edge")
        for one in self.here("viewpoints"):
            yield f'<circle class="ve-viewpoint" cx="{self.on.x(one["x"])}" cy="{self.on.y(one["y"])}" r="2.4"/>'

    def reference(self) -> Iterable[str]:
        yield from self.track(self.record["reference"] or [], "ve-reference")

    def goals(self) -> Iterable[str]:
        for id in self.record["goals"] or ():
            place = self.places.get(id)
            if place is not None and place["floor"] == self.floor:
                size = 11 if id == self.record["goal"] else 5
                self.take(self.on.x(place["x"]), self.on.y(place["y"]), size, size)
                yield f'<circle class="ve-goal" cx="{self.on.x(place["x"])}" cy="{self.on.y(place["y"])}" r="{size}"/>'

    def objects(self) -> Iterable[str]:
        told = f" {self.record['instruction']['text'].lower()} "
        for one in self.here("objects"):
            x, y = self.on.x(one["x"]), self.on.y(one["y"])
            if not (0 < x < WIDTH and 0 < y < self.on.height):
                continue
            asked_for = _is_target(self.record, one)
            if asked_for:
                yield f'<rect class="ve-target" x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12"/>'
            yield f'<rect class="ve-object" x="{x - 2.6:.1f}" y="{y - 2.6:.1f}" width="5.2" height="5.2"/>'
            self.take(x, y, 3, 3)
            if asked_for or one["name"].lower() in told:
                self.take(x, y - 12, LETTER * len(one["name"]) / 2, 8)
                yield self.label(one["name"], x, y - 8, "ve-object-name")

    def sight(self) -> Iterable[str]:
        """The direction in which the target object was seen last, if its place is not known."""
        seen = [(step, one) for step in self.record["steps"] for one in step["objects"] if _is_target(self.record, one)]
        if not seen or any(_is_target(self.record, one) for one in self.plan["objects"]):
            return
        here, heading = self.places[seen[-1][0]["viewpoint"]], seen[-1][1]["heading"]
        if here["floor"] == self.floor:
            there = {"x": here["x"] + SIGHT * math.sin(heading), "y": here["y"] + SIGHT * math.cos(heading)}
            x, y = self.on.x(there["x"]), self.on.y(there["y"])
            yield self.line(here, there, "ve-sight")
            yield f'<rect class="ve-target" x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12"/>'
            yield self.label(seen[-1][1]["name"], x, y - 9, "ve-object-name")

    def walk(self) -> Iterable[str]:
        walked = [id for id, _ in groupby(self.record["path"])]
        yield from self.track(walked, "ve-walked")
        for id in dict.fromkeys(reversed(walked)):
            place = self.places.get(id)
            if place is None or place["floor"] != self.floor:
                continue
            steps = [step for step, visited in enumerate(walked, start=1) if visited == id]
            told = ",".join(map(str, steps[:3])) + ("…" if len(steps) > 3 else "")
            x, y, wide = self.on.x(place["x"]), self.on.y(place["y"]), 16 + 5.5 * (len(told) - 1)
            self.take(x, y, wide / 2 + 1, 9)
            first = "-start" if steps[0] == 1 else ""
            yield (
                f'<rect class="ve-plate{first}" x="{x - wide / 2:.1f}" y="{y - 8:.1f}" width="{wide:.1f}" height="16" '
                f'rx="8"/>'
                f'<text class="ve-number ve-number{first}" x="{x}" y="{y + 4:.1f}">{told}</text>'
            )

    def scale_bar(self) -> Iterable[str]:
        metres = next((length for length in (10, 5, 2, 1) if length * self.on.scale <= 90), 1)
        right, y = WIDTH - 10, self.on.height - 10
        left = right - metres * self.on.scale
        yield f'<path class="ve-scale" d="M{left:.1f} {y - 4:.1f}v8m0 -4H{right:.1f}m0 -4v8"/>'
        yield f'<text class="ve-label ve-scale-text" x="{left - 6:.1f}" y="{y + 4:.1f}">{metres} m</text>'

    def track(self, ids: list[str], kind: str) -> Iterable[str]:
        known = [
            (self.places[one], self.places[other]) for one, other in pairwise(ids) if {one, other} <= self.places.keys()
        ]
        return (self.line(*move, kind) for move in known if self.floor in (move[0]["floor"], move[1]["floor"]))

    def line(self, start: Json, end: Json, kind: str) -> str:
        x: Callable[[float], float] = self.on.x
        y: Callable[[float], float] = self.on.y
        return f'<line class="{kind}" x1="{x(start["x"])}" y1="{y(start["y"])}" x2="{x(end["x"])}" y2="{y(end["y"])}"/>'

    def points(self, polygon: list[list[float]]) -> str:
        return " ".join(f"{self.on.x(x)},{self.on.y(y)}" for x, y in polygon)

    def label(self, words: str, x: float, y: float, kind: str) -> str:
        half = LETTER * len(words) / 2 + 3
        inside = min(max(x, half), max(half, WIDTH - half))
        return f'<text class="ve-label {kind}" x="{inside:.1f}" y="{max(y, 12):.1f}">{escaped(words)}</text>'


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
    """A row for each decision; empty columns are left out."""
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
    """Captions and detections of a choice's view, from the data folder."""
    texts = choice["texts"]
    found = ", ".join(texts.get("detections", ()))
    said = (texts.get("captions", ""), texts.get("observations", ""), f"detected: {found}" if found else "")
    return "; ".join(filter(None, said))


def _objects(step: Json) -> str:
    found = sorted(step["objects"], key=lambda one: -(one["probability"] or 0))
    return "; ".join(one["name"] + _share(one["probability"]) for one in found)


def _share(share: float | None) -> str:
    return "" if share is None else f", {percent(share).replace(' ', SPACE)}"
