"""A small house and two episodes in it, written by hand in the shapes that viewers get."""

import json
from copy import deepcopy
from math import pi
from pathlib import Path
from typing import Any

from vlnbert.analysis.page import viewer_script, viewer_style
from vlnbert.evaluation.recording import Choice, RecordedEpisode, RecordedStep, Words
from vlnbert.features.objects import ViewTexts

EVIL = "<img src=x onerror=alert(1)>"

PLAN: dict[str, Any] = {
    "format": 1,
    "scan": "house",
    "viewpoints": [
        {"id": "a", "x": 1.0, "y": 1.0, "z": 1.5, "floor": 0},
        {"id": "b", "x": 1.0, "y": 3.0, "z": 1.5, "floor": 0},
        {"id": "c", "x": 3.5, "y": 3.0, "z": 1.5, "floor": 0},
        {"id": "d", "x": 6.0, "y": 3.0, "z": 4.5, "floor": 1},
    ],
    "edges": [[0, 1], [1, 2], [2, 3]],
    "floors": [{"z": 1.5}, {"z": 4.5}],
    "rooms": [
        {"name": "kitchen", "floor": 0, "polygon": [[0, 0], [2.5, 0], [2.5, 4], [0, 4]]},
        {"name": "hallway", "floor": 0, "polygon": [[2.5, 2], [7, 2], [7, 4], [2.5, 4]]},
        {"name": "bedroom", "floor": 1, "polygon": [[4.5, 2], [9, 2], [9, 5], [4.5, 5]]},
    ],
    "doors": [{"floor": 0, "from": [2.5, 2.5], "to": [2.5, 3.5]}],
    "stairs": [{"floor": 0, "polygon": [[4.5, 2], [7, 2], [7, 4], [4.5, 4]]}],
    "objects": [
        {"id": "0", "name": "blue sofa", "x": 0.4, "y": 3.6, "floor": 0},
        {"id": "1", "name": "red lamp", "x": 8.5, "y": 4.5, "floor": 1},
    ],
}

COMPUTED = "format", "steps", "instruction", "verdict", "ending"  # what `recorded` does not take as it is


def choice(viewpoint: str | None, probability: float | None, heading: float = 0.0, **texts: Any) -> dict[str, Any]:
    far = 0.0 if viewpoint is None else 2.0
    place = {"viewpoint": viewpoint, "heading": heading, "elevation": 0.0, "distance": far, "view": 12}
    return {**place, "probability": probability, "texts": texts}


def step(viewpoint: str, distance: float, choices: list[dict[str, Any]], chosen: int, teacher: int) -> dict[str, Any]:
    place = {"viewpoint": viewpoint, "heading": 0.0, "elevation": 0.0, "view": 12, "distance_to_goal": distance}
    decided = {"choices": choices, "chosen": chosen, "teacher": teacher}
    return {**place, **decided, "attention": [0.1, 0.2, 0.5, 0.1, 0.1], "objects": []}


RECORD: dict[str, Any] = {
    "format": 1,
    "task": "r2r",
    "split": "val_unseen",
    "id": "7_0",
    "scan": "house",
    "agent": "navigator",
    "max_steps": 15,
    "instruction": {"text": "Pass the blue sofa.", "words": ["pass", "the", "blue", "sofa", "."], "unknown": []},
    "path": ["a", "b", "c"],
    "reference": ["a", "b", "c", "d"],
    "goal": "d",
    "goals": ["d"],
    "steps": [
        step("a", 7.5, [choice(None, 0.1), choice("b", 0.9, 0.0, captions="a kitchen", detections=["oven"])], 1, 1),
        step("b", 5.5, [choice(None, 0.2), choice("a", 0.1, pi), choice("c", 0.7, pi / 2, observations=EVIL)], 2, 2),
        step("c", 3.0, [choice(None, 0.6), choice("b", 0.1, -pi / 2), choice("d", 0.3, pi / 2)], 0, 2),
    ],
    "outcome": "stopped",
    "success": False,
    "named_object": None,
    "target_object": None,
    "scores": {"sr": 0.0, "spl": 0.0, "ne": 3.0},
    "verdict": "Failure",
    "ending": "stopped 3.00 m from the goal",
}


def ran_out() -> dict[str, Any]:
    """The same agent, stopped by a limit of two steps."""
    record = deepcopy(RECORD)
    record |= {"max_steps": 2, "outcome": "ran out of steps", "steps": record["steps"][:2]}
    record["ending"] = "ran out of steps after 2, 3.00 m from the goal"
    return record


def looked_for() -> dict[str, Any]:
    """REVERIE: the lamp was asked for, the sofa was named."""
    record = deepcopy(RECORD)
    record |= {"task": "reverie", "target_object": {"id": "1", "name": "red lamp"}}
    record["named_object"] = {"id": "0", "name": "blue sofa"}
    seen = {"heading": 0.0, "elevation": 0.0, "view": 12}
    record["steps"][-1]["objects"] = [
        {"id": "0", "name": "blue sofa", "probability": 0.8, **seen},
        {"id": "1", "name": "red lamp", "probability": 0.2, **seen},
    ]
    return record


def write_page(folder: Path, record: dict[str, Any], plan: dict[str, Any] = PLAN) -> Path:
    """A page with the viewer alone."""
    data = json.dumps([record, plan]).replace("<", "\\u003c")
    page = folder / "viewer.html"
    page.write_text(
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>viewer</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{viewer_style()} body {{ background: var(--paper) }}</style></head>"
        f'<body><main><h1>Viewer</h1><h2>Episode</h2><h3>One</h3><div id="here"></div></main>'
        f"<script>{viewer_script()}</script>"
        f'<script>globalThis.viewer = vlnbertEpisode.mount(document.getElementById("here"), ...{data});</script>'
        f"</body></html>",
        encoding="utf-8",
    )
    return page


def recorded(text: str = "Pass the blue sofa.") -> RecordedEpisode:
    """The record as Python has it."""
    steps = tuple(
        RecordedStep(
            **{
                **one,
                "choices": tuple(Choice(**{**way, "texts": ViewTexts(**way["texts"])}) for way in one["choices"]),
                "attention": tuple(one["attention"]),
                "objects": (),
            }
        )
        for one in RECORD["steps"]
    )
    told = {key: value for key, value in RECORD.items() if key not in COMPUTED}
    lists = {key: tuple(RECORD[key]) for key in ("path", "reference", "goals")}
    _, *words = RECORD["instruction"]["words"]
    return RecordedEpisode(**told | lists, steps=steps, instruction=Words(text, (text.split(" the ")[0], *words)))
