"""Cards of episodes: all facts are there without a script, and no card contradicts itself, whatever the limit."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.analysis.conftest import SPLIT, Pacing
from tests.analysis.pages import Page
from tests.browser.samples import PLAN, recorded
from vlnbert.analysis.card import write_card_page
from vlnbert.analysis.house_plan import house_plan, still_plan
from vlnbert.api.runs import load_agent
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.recording import NamedObject, RecordedEpisode
from vlnbert.evaluation.walker import Walker

LAMP, SOFA = NamedObject("1", "lamp"), NamedObject("2", "sofa")


def written(folder: Path, record: RecordedEpisode, plan: dict[str, object]) -> Page:
    write_card_page(folder / "card.html", record, plan)
    return Page(folder / "card.html")


def test_a_card_tells_everything_without_a_script(tmp_path: Path) -> None:
    page = written(tmp_path, recorded(), PLAN)
    for fact in (
        "Failure: stopped 3.00 m from the goal",
        "Pass the blue sofa .",
        "at most 15 steps",
        "a kitchen; detected: oven",
        "ahead, 2.0 m, 90 %",
        "90° right, 2.0 m, 70 %",
        "stop, 20 %; back, 2.0 m, 10 %",
        "5.5 m",
        "the, blue",
        "reference path",
        "stopping here succeeds",
    ):
        assert fact in page.words, fact
    assert page.data["record-1"]["scores"] == {"sr": 0.0, "spl": 0.0, "ne": 3.0}
    assert page.data["plan-house"] == PLAN


@pytest.mark.parametrize("max_steps", [1, 3, 15])
def test_no_card_contradicts_itself(house: vln.Data, tmp_path: Path, max_steps: int) -> None:
    """An agent that never stops: every step is told, none is a stop, and the end is where the scores say."""
    ready = Walker(load_agent(Pacing()), house, SPLIT, WalkOptions(max_steps=max_steps))
    evaluation = ready.walk(SPLIT, record=True)
    for row in range(0, len(evaluation.episodes), 7):
        record = ready.recorder.episode(evaluation, row)
        plan = house_plan(house, record.scan)
        page = written(tmp_path, record, plan)
        assert f"ran out of steps after {max_steps}, {record.scores['ne']:.2f} m from the goal" in page.words
        assert len(page.all("tr")) == (max_steps + 1) + 2, "steps and scores"
        assert re.search(r"\bstopped\b", page.words) is None
        assert f"{len(record.path) - 1} move" in page.words
        svgs = "".join(svg for _, svg in still_plan(json.loads(json.dumps(record.to_json())), plan))
        numbers = {int(n) for told in re.findall(r'class="ve-number[^>]*>([\d,]+)', svgs) for n in told.split(",")}
        assert numbers <= set(range(1, len(record.path) + 1))
        assert max(numbers) == len(record.path) or "…" in svgs


def test_a_navigator_that_stops_and_one_that_does_not(
    house: vln.Data, navigator: vln.Navigator, tmp_path: Path
) -> None:
    ready = Walker(load_agent(navigator), house, SPLIT, WalkOptions(max_steps=6))
    evaluation = ready.walk(SPLIT, record=True)
    for row, outcome in enumerate(evaluation.outcomes):
        record = ready.recorder.episode(evaluation, row)
        page = written(tmp_path, record, house_plan(house, record.scan)) if row % 9 == 0 else None
        if page is not None:
            assert ("ran out of steps" in page.words) == (outcome == "ran out of steps")
            assert page.data["record-1"]["scores"] == record.scores
            assert f"{record.scores['ne']:.2f} m from the goal" in page.words


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "stopped 3.00 m from the goal"),
        (
            {"outcome": "ran out of steps", "success": True},
            "ran out of steps after 3, 3.00 m from the goal (where it ended is what counts)",
        ),
        (
            {"named_object": LAMP, "target_object": LAMP},
            "stopped 3.00 m from the goal, and named the right object, the lamp",
        ),
        (
            {"named_object": SOFA, "target_object": LAMP},
            "stopped 3.00 m from the goal, and named the wrong object, the sofa; asked for was the lamp",
        ),
        (
            {"target_object": LAMP},
            "stopped 3.00 m from the goal, and named no object; asked for was the lamp",
        ),
    ],
    ids=["stopped", "ran-out", "right", "wrong", "none"],
)
def test_the_ending_in_words(changes: dict[str, Any], told: str) -> None:
    record = replace(recorded(), **changes)
    assert record.ending == told
    assert record.to_json()["ending"] == told


def test_an_object_that_was_asked_for_is_on_the_plan(house: vln.Data, finder: vln.Navigator) -> None:
    split = "reverie/val_unseen"
    ready = Walker(load_agent(finder), house, split, WalkOptions(max_steps=6))
    evaluation = ready.walk(split, record=True)
    drawn = 0
    for row in range(len(evaluation.episodes)):
        record = ready.recorder.episode(evaluation, row)
        assert record.target_object is not None
        panels = "".join(svg for _, svg in still_plan(record.to_json(), house_plan(house, record.scan)))
        drawn += panels.count('class="ve-target"')
        assert 'r="3' not in panels, "no circle of 3 m"
    assert drawn > len(evaluation.episodes) / 2
