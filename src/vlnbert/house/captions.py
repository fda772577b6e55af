"""Captions and detections of each view, in the shape of those made from real images."""

from random import Random
from typing import Any

import numpy as np

from vlnbert.house import phrases
from vlnbert.house.sights import OBJECT, PATCH, Panorama
from vlnbert.house.views import VIEWS

MENTIONED = 2  # objects in a view's caption
WORTH_SAYING = 0.15  # the least weight of what a caption mentions


def view_captions(rng: Random, panorama: Panorama) -> dict[str, Any]:
    """For each view a caption of the whole and the objects that a detector would find."""
    return {str(view): _view(rng, panorama, view) for view in range(VIEWS)}


def _view(rng: Random, panorama: Panorama, view: int) -> dict[str, Any]:
    place = _place(panorama, view)
    return {"global_cap": _whole(rng, panorama, view, place), "dense_cap": _detections(rng, panorama, view)}


def _place(panorama: Panorama, view: int) -> str:
    """The kind of room that fills most of a view; looking up or down, of the whole panorama."""
    patches = [(s.place, w) for s, w in zip(panorama.sights, panorama.weights, strict=True) if s.kind == PATCH]
    totals: dict[str, float] = {}
    for place, weights in patches:
        totals[place] = round(totals.get(place, 0.0) + float(weights[view]) + 1e-3 * float(weights.max()), 6)
    return max(sorted(totals), key=lambda place: totals[place], default="hallway")


def _whole(rng: Random, panorama: Panorama, view: int, place: str) -> str:
    shown = [(float(row[view]), i) for i, row in enumerate(panorama.weights) if row[view] >= WORTH_SAYING]
    names = [_name(panorama, i) for _, i in sorted(shown, key=lambda item: (-item[0], item[1]))]
    names = list(dict.fromkeys(name for name in names if name))[:MENTIONED]
    if not names:
        return _articles(rng.choice(phrases.BARE_CAPTIONS).format(place=place))
    return _articles(rng.choice(phrases.VIEW_CAPTIONS).format(place=place, things=" and ".join(names)))


def _name(panorama: Panorama, index: int) -> str:
    sight = panorama.sights[index]
    if sight.thing:
        return f"a {sight.thing.name}"
    return "" if sight.kind == PATCH else phrases.SEEN[sight.kind].format(place=sight.place)


def _detections(rng: Random, panorama: Panorama, view: int) -> list[dict[str, str]]:
    things = [sight for sight in panorama.sights if sight.kind == OBJECT]
    found = []
    for index in np.flatnonzero(panorama.boxed[:, view]):
        sight, (x, y, w, h) = things[index], panorama.boxes[index, view].tolist()
        if sight.thing:
            caption = rng.choice(phrases.THING_CAPTIONS).format(thing=sight.thing.name, place=sight.place)
            found.append(
                {
                    "obj_class": sight.thing.kind.name,
                    "coordinates": f"{x} {y} {x + w} {y + h}",
                    "confidence": f"{rng.uniform(0.3, 0.99):.2f}",
                    "caption": _articles(caption),
                }
            )
    return found


def _articles(text: str) -> str:
    """`an` before a vowel."""
    words = text.split(" ")
    pairs = zip(words, [*words[1:], ""], strict=True)
    return " ".join("an" if this == "a" and after[:1] in tuple("aeiou") else this for this, after in pairs)
