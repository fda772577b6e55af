"""Result files against a split: what is refused, and what REVERIE counts as seen."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.evaluation.memory import score_ways
from vlnbert.errors import InvalidFileError
from vlnbert.evaluation.evaluate import ScoredFile, score_file
from vlnbert.evaluation.metrics import score_walks
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World

Open = Callable[[str, str], tuple[Episodes, World]]
GOOD = {"1_0": "abcd", "1_1": "abc", "2_0": "fed"}


@pytest.fixture
def scored(tmp_path: Path, episodes_of: Open, hall_folder: DataFolder) -> Callable[..., ScoredFile]:
    def score(trajectories: dict[str, Any], allow_missing: bool = False) -> ScoredFile:
        path = tmp_path / "results.json"
        items = [{"instr_id": name, "trajectory": list(way)} for name, way in trajectories.items()]
        path.write_text(json.dumps(items))
        return score_file(path, *episodes_of("r2r", "val"), allow_missing=allow_missing, folder=hall_folder)

    return score


def faults_of(scored: Callable[..., ScoredFile], trajectories: dict[str, Any], **options: bool) -> list[str]:
    with pytest.raises(InvalidFileError) as caught:
        scored(trajectories, **options)
    return [f"{fault.place}: {fault.problem}; {fault.remedy}" for fault in caught.value.faults]


def test_rows_are_in_the_order_of_the_split(scored: Callable[..., ScoredFile]) -> None:
    found = scored(dict(reversed(GOOD.items())))
    assert found.ids == ("1_0", "1_1", "2_0")
    assert found.scores.tl.tolist() == [6, 4, 4]
    assert found.scores.summary()["episodes"] == 3


def test_missing_instructions_are_one_line(scored: Callable[..., ScoredFile]) -> None:
    (fault,) = faults_of(scored, {"1_1": "abc"})
    assert "lacks 2 of the 3 instructions of r2r val (1_0, 2_0)" in fault
    assert "say allow_missing=True to score the 1 that are there" in fault


def test_missing_instructions_may_be_allowed(scored: Callable[..., ScoredFile]) -> None:
    found = scored({"2_0": "fed"}, allow_missing=True)
    assert found.ids == ("2_0",)
    assert found.scores.ne.tolist() == [0]
    assert "1 of 3 instructions scored, the others are missing" in found.notes.lines()


@pytest.mark.parametrize(
    ("name", "way", "problem"),
    [
        ("1_0", "", "has an empty trajectory"),
        ("1_0", "abz", "viewpoint z is not in the graph of scan hall"),
        ("1_0", "bcd", "starts at b, not at a"),
        ("1_0", "abd", "goes from b to d, which no edge joins"),
        ("1_0", ["a", ["b", "d"], ["c"]], "goes from b to d, which no edge joins"),
        ("9_9", "abc", "is not in r2r val"),
    ],
)
def test_faults_are_named(scored: Callable[..., ScoredFile], name: str, way: Any, problem: str) -> None:
    (fault,) = faults_of(scored, GOOD | {name: way})
    assert fault.startswith(f"instruction {name}: {problem}")


def test_all_faults_are_reported_together(scored: Callable[..., ScoredFile]) -> None:
    found = faults_of(scored, {"1_0": "abdbd", "1_1": ["a", 7]})
    assert [fault.split(":")[0] for fault in found] == ["instruction 1_1", "", "instruction 1_0"]


def test_a_file_of_another_split_is_recognised(scored: Callable[..., ScoredFile]) -> None:
    (fault,) = faults_of(scored, {"3_0": "abcd", "3_1": "abcd", "1_0": "abcd"}, allow_missing=True)
    assert "2 of its 3 instructions are not in r2r val (3_0, 3_1)" in fault
    assert "looks like r2r/other: name that task and split" in fault


def test_a_file_of_another_task_is_recognised(scored: Callable[..., ScoredFile]) -> None:
    (fault,) = faults_of(scored, {"5_7_0": "abcd"})
    assert "looks like reverie/val: name that task and split" in fault


def test_a_file_of_no_split_is_refused(scored: Callable[..., ScoredFile]) -> None:
    (fault,) = faults_of(scored, {"77_0": "abcd"})
    assert "name the task and split" in fault


@pytest.mark.parametrize(
    ("way", "target", "success", "oracle", "grounded"),
    [
        ("abc", "7", 0, 0, 1),  # the object is in c's file, but no view shows it; naming it counts all the same
        ("abcd", "7", 1, 1, 1),
        ("abcdc", "7", 0, 1, 1),
        ("abcd", None, 1, 1, 0),
        ("abcd", "8", 1, 1, 0),
        ("a", "07", 0, 0, 0),  # ids are compared as strings
    ],
)
def test_reverie(episodes_of: Open, way: str, target: str | None, success: int, oracle: int, grounded: int) -> None:
    episodes, world = episodes_of("reverie", "val")
    scores = score_ways({"5_7_0": way}, episodes, world, target).scores
    walked = 2 * (len(way) - 1)
    weight = 6 / max(walked, 6)
    summary = {name: scores.summary()[name] for name in ("sr", "osr", "rgs", "spl", "rgspl")}
    wanted = {"sr": success, "osr": oracle, "rgs": grounded, "spl": success * weight, "rgspl": grounded * weight}
    assert summary == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("way", "success", "oracle"),
    [
        ("abcdef", 1, 1),  # f shows it, 4 m beyond the goal
        ("abcd", 0, 0),  # the goal itself does not
        ("abcde", 0, 0),  # nor does e
        ("abcdefed", 0, 1),
    ],
)
def test_reverie_s_success_is_to_see_the_target_wherever_that_is(
    hall_folder: DataFolder, episodes_of: Open, way: str, success: int, oracle: int
) -> None:
    """In a house where what is visible and what is near part, by every way in which walks are scored."""
    boxes = hall_folder.root / "reverie" / "BBox"
    lamp = {"name": "lamp", "bbox2d": [[1, 2, 3, 4]]}
    (boxes / "hall_d.json").write_text(json.dumps({"d": {"7": {**lamp, "visible_pos": [], "bbox2d": []}}}))
    (boxes / "hall_f.json").write_text(json.dumps({"f": {"7": {**lamp, "visible_pos": [3]}}}))
    episodes, world = episodes_of("reverie", "val")
    found = score_ways({"5_7_0": way}, episodes, world, "7").scores
    assert (float(found.sr), float(found.osr), float(found.rgs)) == (success, oracle, 1)
    walked = torch.tensor([[world.find("hall", name) for name in way]])
    assert float(score_walks(world, episodes, walked, torch.tensor([len(way)]), ["7"]).sr) == success
    there = TASKS["reverie"].arrived(world, walked, episodes)
    assert there.tolist() == [[name == "f" for name in way]]
