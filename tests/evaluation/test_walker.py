"""Instructions that somebody typed: many at once walk as each would alone, and a goal is optional."""

import math

import pytest

import vlnbert as vln
from tests.analysis.conftest import SPLIT
from vlnbert.api.runs import load_agent
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.recording import RecordedEpisode
from vlnbert.evaluation.walker import Walker, WalkRequest


@pytest.fixture(scope="module")
def ready(house: vln.Data, navigator: vln.Navigator) -> Walker:
    return Walker(load_agent(navigator), house, SPLIT, WalkOptions(max_steps=6))


def requests(house: vln.Data, count: int = 5) -> list[WalkRequest]:
    """Of several houses and starts."""
    world, splits = house.world, [house.episodes(f"r2r/{name}") for name in ("train", "val_unseen")]
    places = [
        (int(episodes.start[4 * row]), int(episodes.goal[4 * row]))
        for row in range((count + 1) // 2)
        for episodes in splits
    ]
    return [
        WalkRequest(
            scan=world.scans[int(world.scan_of[start])],
            start=world.viewpoints[start],
            text=f"go to the {'red ' * number} door and stop",
            heading=0.5 * number,
            goal=world.viewpoints[goal] if number % 2 else None,
        )
        for number, (start, goal) in enumerate(places[:count])
    ]


def told(record: RecordedEpisode) -> tuple[object, ...]:
    return record.path, record.outcome, record.scores, [step.chosen for step in record.steps]


def test_many_at_once_walk_as_each_alone(ready: Walker, house: vln.Data) -> None:
    asked = requests(house)
    together = ready.follow(asked)
    assert len({record.scan for record in together}) > 1
    for request, record in zip(asked, together, strict=True):
        (alone,) = ready.follow([request])
        assert told(record) == told(alone)
        assert record.path[0] == request.start
        assert record.instruction.text == request.text
        assert (record.split, record.task, record.goal) == (None, "r2r", request.goal)
        assert (record.success is None) == (record.scores == {}) == (record.reference is None) == (request.goal is None)
        assert len(record.steps) <= 6
        assert all(choice.probability is not None for step in record.steps for choice in step.choices)


def test_an_episode_typed_anew_is_the_same_walk(ready: Walker) -> None:
    evaluation = ready.walk(SPLIT, record=True)
    for row in range(0, len(evaluation.episodes), 7):
        record, episodes = ready.recorder.episode(evaluation, row), evaluation.episodes
        heading = float(episodes.heading[row])
        (typed,) = ready.follow(
            [WalkRequest(record.scan, record.path[0], record.instruction.text, heading=heading, goal=record.goal)]
        )
        assert (typed.path, typed.outcome, typed.success) == (record.path, record.outcome, record.success)
        assert typed.goals == record.goals
        assert typed.scores["spl"] == record.scores["spl"]


def test_objects_are_named(house: vln.Data, finder: vln.Navigator) -> None:
    ready = Walker(load_agent(finder), house, "reverie/val_unseen", WalkOptions(max_steps=4))
    records = ready.follow(requests(house, 6))
    assert all(record.task == "reverie" for record in records)
    assert any(record.named_object is not None for record in records)
    assert all(record.goals == (record.goal,) for record in records if record.goal is not None)


def test_a_baseline_follows_too(house: vln.Data) -> None:
    asked = [one for one in requests(house) if one.goal is not None]
    assert all(record.success for record in Walker(load_agent("shortest"), house, SPLIT).follow(asked))
    with pytest.raises(vln.UsageError, match=r"^shortest must know the goal; give one with every instruction$"):
        Walker(load_agent("shortest"), house, SPLIT).follow(requests(house))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"text": " "}, "^the instruction has no words; write what to do$"),
        ({"heading": math.nan}, "^the heading is nan; give a number of radians$"),
        ({"start": "nowhere"}, "^no viewpoint in scan .* 'nowhere'; "),
        ({"scan": "nowhere"}, "^no scan 'nowhere'; "),
    ],
)
def test_bad_requests(ready: Walker, house: vln.Data, changes: dict[str, object], line: str) -> None:
    good = requests(house)[1]
    with pytest.raises(vln.VlnbertError, match=line):
        ready.follow([good, WalkRequest(**{**vars(good), **changes})])
    with pytest.raises(vln.UsageError, match=r"^the goal is the start; choose another goal, or none$"):
        ready.follow([WalkRequest(good.scan, good.start, "go", goal=good.start)])
    assert ready.follow([]) == []
