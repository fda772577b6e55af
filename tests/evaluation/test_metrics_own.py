"""What a task measures itself: declared, checked, averaged, shown, and compared in its own direction; several goals."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import vlnbert as vln
from tests.evaluation.memory import score_ways
from vlnbert.errors import UsageError
from vlnbert.evaluation import metrics
from vlnbert.evaluation.evaluate import ScoredFile, score_file
from vlnbert.evaluation.metrics import Scores, is_better, score_table, shown, try_measure
from vlnbert.sources.instructions import read_r2r
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes, bind, load_episodes
from vlnbert.tasks.task import METRICS, TASKS, Metric, Walked, register_task
from vlnbert.world.build import open_world
from vlnbert.world.world import World

ROOMS = Metric("rooms", "rooms seen", unit="%", meaning="the share of the hall's viewpoints that were visited")
LEFT = Metric("left", unit="m", higher=False)
TURNS = Metric("turns")
GOOD = {"1_0": "abcd", "1_1": "abc", "2_0": "fed"}


class Halls(vln.R2R):
    """R2R's files, and three metrics of its own."""

    name = "halls"
    metrics = (ROOMS, LEFT, TURNS)
    best_metric = "left"
    gives: Mapping[Any, Any] | None = None

    def files(self, folder: DataFolder) -> dict[str, Path]:
        return folder.instruction_files("r2r")

    def measure(self, world: World, episodes: Episodes, trajectories: Walked) -> Mapping[Any, Any]:
        if self.gives is not None:
            return self.gives
        assert torch.equal(trajectories.viewpoint[:, 0], episodes.start)
        rows = zip(trajectories.viewpoint.tolist(), trajectories.length.tolist(), strict=True)
        walks = [row[:length] for row, length in rows]
        end = trajectories.viewpoint[:, -1]
        return {
            ROOMS: torch.tensor([len(set(walk)) / len(world) for walk in walks]),
            "left": world.metres(end, episodes.goal),
            "turns": [len(walk) - 1 for walk in walks],
        }


@pytest.fixture
def halls(forget_plugins: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> type[Halls]:
    register_task(Halls)
    monkeypatch.setattr(Halls, "gives", None)
    return Halls


@pytest.fixture
def scored(tmp_path: Path, halls: type[Halls], hall_folder: DataFolder) -> Callable[[], ScoredFile]:
    path, world = tmp_path / "results.json", open_world(hall_folder)
    path.write_text(json.dumps([{"instr_id": name, "trajectory": list(way)} for name, way in GOOD.items()]))
    return lambda: score_file(path, load_episodes(hall_folder, world, "halls", "val"), world)


def test_they_stand_beside_the_others(scored: Callable[[], ScoredFile]) -> None:
    found = scored()
    assert {name: column.tolist() for name, column in found.scores.own.items()} == {
        "rooms": pytest.approx([4 / 7, 3 / 7, 3 / 7]),
        "left": [0, 2, 0],
        "turns": [3, 2, 2],
    }
    assert {column.dtype for column in found.scores.own.values()} == {torch.float64}
    summary = found.summary
    assert list(summary)[-5:] == ["ne", "rooms", "left", "turns", "episodes"]
    assert summary["turns"] == pytest.approx(7 / 3)
    assert list(found.scores.of(1).items())[-3:] == [("rooms", pytest.approx(3 / 7)), ("left", 2), ("turns", 2)]
    part = found.scores.select(torch.tensor([2, 1]))
    assert part.own["left"].tolist() == [0, 2]


def test_tables_show_them_in_their_units(scored: Callable[[], ScoredFile]) -> None:
    summary = scored().summary
    table = score_table("halls", {"one": summary, "another": {"sr": 0.5, "episodes": 2}})
    assert table.columns[-5:] == ["NE m", "rooms seen", "left m", "turns", "episodes"]
    assert table.rows[0][-4:] == ["47.6", "0.67", "2.33", "3"]
    assert table.rows[1][-4:] == ["-", "-", "-", "2"]
    told = scored().table().text()
    assert re.search(r"rooms seen +47\.62 +the share of the hall's viewpoints that were visited", told)


@pytest.mark.parametrize(
    ("key", "score", "best", "better"),
    [
        ("left", 1.0, 2.0, True),
        ("left", 2.0, 1.0, False),
        ("rooms", 0.5, 0.4, True),
        ("rooms", 0.4, 0.5, False),
        ("left", float("nan"), None, False),
        ("ne", 1.0, 2.0, True),
        ("perplexity", 3.0, 2.0, False),
        ("sdtw", 0.3, 0.2, True),
    ],
)
def test_better_is_what_the_metric_says(
    halls: type[Halls], key: str, score: float, best: float | None, better: bool
) -> None:
    assert is_better(key, score, best) is better


def test_every_metric_is_shown_as_before() -> None:
    values = {"sr": 0.5, "tl": 10.123, "ne": 4.567, "perplexity": 7.891, "episodes": 1234, "rgspl": None}
    assert [shown(key, value) for key, value in values.items()] == ["50.0", "10.12", "4.57", "7.89", "1,234", "-"]
    assert [METRICS[key].heading for key in values] == ["SR", "TL m", "NE m", "perplexity", "episodes", "RGSPL"]


SOME = {"left": [0, 0, 0], "turns": [0, 0, 0]}
BAD: dict[str, tuple[Any, str]] = {
    "of the wrong length": (
        {"rooms": torch.zeros(2), **SOME},
        "measures 'rooms' as a tensor of the shape [2]; give one number for each of the 3 episodes",
    ),
    "of two dimensions": ({"rooms": torch.zeros(3, 2), **SOME}, "measures 'rooms' as a tensor of the shape [3, 2]"),
    "one for all": ({"rooms": 0.5, **SOME}, "measures 'rooms' as a tensor of the shape []; give one number"),
    "no number": ({"rooms": [0, float("nan"), 0], **SOME}, "measures 'rooms' as nan in episode 1_1; give one"),
    "words": ({"rooms": ["a", "b", "c"], **SOME}, "measures 'rooms' as a list; give one number for each"),
    "left out": (SOME, "measures left, turns, where its metrics are rooms, left, turns; let measure return a dict"),
    "undeclared": ({"rooms": [0, 0, 0], "wins": [0, 0, 0], **SOME}, "measures rooms, wins, left, turns, where its"),
    "nothing": ({}, "measures nothing, where its metrics are rooms, left, turns"),
    "no names": (torch.zeros(3), "measures a Tensor, where its metrics are rooms, left, turns"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_measure_that_does_not_fit(kind: str, halls: type[Halls], scored: Callable[[], ScoredFile]) -> None:
    gives, told = BAD[kind]
    halls.gives = gives
    with pytest.raises(UsageError, match=f"^the task halls {re.escape(told)}"):
        scored()


def test_it_is_tried_before_anybody_walks(halls: type[Halls], hall_folder: DataFolder) -> None:
    world = open_world(hall_folder)
    try_measure(world, load_episodes(hall_folder, world, "halls", "val"))
    try_measure(world, load_episodes(hall_folder, world, "halls", "test"))  # goals are withheld: nothing is measured
    halls.gives = {"rooms": torch.zeros(7), **SOME}
    try_measure(world, load_episodes(hall_folder, world, "halls", "test"))
    with pytest.raises(UsageError, match=r"measures 'rooms' as a tensor of the shape \[7\]; give one number"):
        try_measure(world, load_episodes(hall_folder, world, "halls", "val"))


def of(**attributes: Any) -> type[vln.R2R]:
    return type("Odd", (vln.R2R,), {"name": "odd", **attributes})


def nothing(self: vln.Task, *_: object) -> dict[str, Tensor]:
    return {}


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"metrics": ("cls",), "measure": nothing}, "the task odd has 'cls' among its metrics, which is no vln.Metric"),
        ({"metrics": "gp", "measure": nothing}, "metrics of the task odd is a str; write a tuple: metrics = "),
        (
            {"metrics": (Metric("sr"),), "measure": nothing},
            "the task odd has a metric 'sr', which is a metric of all tasks; give it another name",
        ),
        ({"metrics": (Metric("gp"),)}, "the task odd has metrics and no measure(self, world, episodes, trajectories)"),
        ({"measure": nothing}, "the task odd has a measure and no metrics; name what it measures: metrics = (vln.M"),
        (
            {"metrics": (Metric("gp"),), "measure": nothing, "best_metric": "pg"},
            "the task odd cannot choose its best weights by 'pg'; set best_metric to one of sr, osr, spl, ndtw, sdtw,",
        ),
    ],
)
def test_a_task_whose_metrics_do_not_fit(
    attributes: dict[str, Any], told: str, forget_plugins: Callable[[], None]
) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(told)}"):
        register_task(of(**attributes))
    assert "odd" not in TASKS


def test_tasks_share_a_metric_and_do_not_differ_on_it(forget_plugins: Callable[[], None]) -> None:
    register_task(of(metrics=(Metric("gp", "GP"),), measure=nothing, best_metric="gp"))
    elsewhere = {"name": "even", "measure": nothing, "__module__": "elsewhere"}
    register_task(type("Even", (vln.R2R,), {**elsewhere, "metrics": (Metric("gp", "GP"),)}))
    with pytest.raises(
        UsageError, match=r"two metrics are called 'gp', of .*test_metrics_own.py and of elsewhere; give one"
    ):
        register_task(type("Third", (vln.R2R,), {**elsewhere, "name": "third", "metrics": (Metric("gp", unit="m"),)}))
    assert "third" not in TASKS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("",), "'' is no name of a metric; begin with a letter"),
        (("a/b",), "'a/b' is no name of a metric"),
        ((3,), "3 is no name of a metric"),
        (("gp", 3), "the metric 'gp' has a label of another type; label, unit and meaning are text, higher is True or"),
        (("gp", "GP", "m", "up"), "the metric 'gp' has a higher of another type"),
    ],
)
def test_a_metric_that_is_none(words: Sequence[Any], told: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(told)}"):
        Metric(*words)


def with_goals(hall_folder: DataFolder, goals: Mapping[str, str]) -> tuple[Episodes, World]:
    """The corridor's instructions, some with several goals."""
    world, file = open_world(hall_folder), hall_folder.instruction_files("r2r")["val"]
    records = [replace(one, goals=tuple(goals.get(one.id, ""))) for one in read_r2r(file)]
    return bind(file, records, world, task="r2r", split="val"), world


def walked(episodes: Episodes, world: World, ways: Mapping[str, str]) -> Scores:
    return score_ways(dict(ways), episodes, world).scores


def test_scores_are_against_the_nearest_goal(hall_folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, on a corridor of 2 m: `s` lies 3 m from `c`."""
    episodes, world = with_goals(hall_folder, {"1_0": "ds", "1_1": "ad"})
    found = walked(episodes, world, {"1_0": "abcs", "1_1": "abc", "2_0": "fed"})
    assert found.ne.tolist() == [0, 2, 0]
    assert found.sr.tolist() == [1, 1, 1]
    assert found.shortest.tolist() == [6, 0, 4], "from a it is 6 m to d and 7 m to s; who starts at a goal is there"
    assert found.tl.tolist() == [7, 4, 4]
    assert found.spl.tolist() == pytest.approx([6 / 7, 0, 1])
    assert found.oracle_error.tolist() == [0, 0, 0]
    monkeypatch.setattr(metrics, "MOST_CELLS", 20)
    apart = walked(episodes, world, {"1_0": "abcs", "1_1": "abc", "2_0": "fed"})
    assert all(
        torch.equal(column, found.columns()[name]) for name, column in apart.columns().items() if column is not None
    )


def test_one_goal_given_twice_scores_as_one(hall_folder: DataFolder) -> None:
    several, world = with_goals(hall_folder, {"1_0": "dd", "2_0": "d"})
    plain, _ = with_goals(hall_folder, {})
    assert plain.goals is None
    assert several.goals is not None
    for ways in (GOOD, {"1_0": "ab", "1_1": "abcs", "2_0": "f"}):
        mine, expected = (walked(one, world, ways).columns() for one in (several, plain))
        for name, column in mine.items():
            other = expected[name]
            assert column is other is None or (
                other is not None and column is not None and torch.equal(column, other)
            ), name
