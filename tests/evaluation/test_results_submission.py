"""The canonical file: in the order of the split, with the angles of the simulator, whole or not at all."""

import json
from collections.abc import Callable
from math import pi
from pathlib import Path
from typing import Any

import pytest
import torch

from vlnbert.errors import InvalidFileError
from vlnbert.evaluation.evaluate import score_file
from vlnbert.evaluation.metrics import score_walks
from vlnbert.evaluation.results import arrival_views, write_results, write_submission
from vlnbert.rollout.episodes import Trajectories
from vlnbert.tasks.episodes import Episodes, pad_paths
from vlnbert.world.world import World

Open = Callable[[str, str], tuple[Episodes, World]]
NORTH, EAST, SOUTH, WEST = 0.0, pi / 2, pi, 3 * pi / 2


def item(name: str, trajectory: Any, **more: Any) -> dict[str, Any]:
    return {"instr_id": name, "trajectory": trajectory, **more}


def submitted(tmp_path: Path, bound: tuple[Episodes, World], items: list[dict[str, Any]]) -> tuple[Any, list[str]]:
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps(items))
    notes = write_submission(source, target, *bound)
    return json.loads(target.read_text()), notes.lines()


def test_angles_are_filled_in_and_order_is_the_split_s(tmp_path: Path, episodes_of: Open) -> None:
    items = [item("2_0", [["f"], ["e", "d"]]), item("1_1", ["a"]), item("1_0", ["a", "b", "c", "s", "c"])]
    written, notes = submitted(tmp_path, episodes_of("r2r", "val"), items)
    heading = pi / 6  # 0.3 rad rounds up to the view at 30 degrees
    assert written == [
        item(
            "1_0", [["a", heading, 0], ["b", NORTH, 0], ["c", NORTH, 0], ["s", EAST, 0], ["c", pytest.approx(WEST), 0]]
        ),
        item("1_1", [["a", heading, 0]]),
        item("2_0", [["f", pytest.approx(pi), 0], ["e", pytest.approx(SOUTH), 0], ["d", pytest.approx(SOUTH), 0]]),
    ]
    assert notes == ["3 trajectories of viewpoints alone", "1 nested hop expanded"]


def test_given_angles_are_kept(tmp_path: Path, episodes_of: Open) -> None:
    items = [item("1_0", [["a", 0.3, 0.1], ["b", 0.2, 0.0]]), item("1_1", [["a", 0.0, 0.0], "b"]), item("2_0", ["f"])]
    written, _ = submitted(tmp_path, episodes_of("r2r", "val"), items)
    assert written[0]["trajectory"] == [["a", 0.3, 0.1], ["b", 0.2, 0.0]]
    assert written[1]["trajectory"] == [["a", 0.0, 0.0], ["b", NORTH, 0.0]]


def test_who_turns_in_place_looks_on(episodes_of: Open) -> None:
    episodes, world = episodes_of("r2r", "val")
    walked = pad_paths([[world.find("hall", name) for name in "abbcs"]])
    assert arrival_views(world, episodes.heading[:1], walked).tolist() == [[13, 12, 12, 12, 15]]


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([item("1_0", ["a"]), item("1_1", ["a"])], "lacks 1 of the 3 instructions of r2r val"),
        ([item(n, [n]) for n in ("1_0", "1_1", "2_0")], "viewpoint 1_0 is not in the graph"),
        ([item("1_0", ["b"]), item("1_1", ["a"]), item("2_0", ["f"])], "starts at b, not at a"),
        (
            [item("1_0", ["a"]), item("1_0", ["a", "b"]), item("1_1", ["a"]), item("2_0", ["f"])],
            "1 repeated entries differ",
        ),
    ],
)
def test_nothing_is_written_unless_all_is_well(
    tmp_path: Path, episodes_of: Open, items: list[dict[str, Any]], problem: str
) -> None:
    (tmp_path / "out.json").write_text("older")
    with pytest.raises(InvalidFileError, match=problem):
        submitted(tmp_path, episodes_of("r2r", "val"), items)
    assert (tmp_path / "out.json").read_text() == "older"


@pytest.mark.parametrize(("given", "written"), [({"predObjId": "7"}, 7), ({"pred_objid": 7}, 7), ({}, None)])
def test_reverie_objects(tmp_path: Path, episodes_of: Open, given: dict[str, Any], written: int | None) -> None:
    document, notes = submitted(tmp_path, episodes_of("reverie", "val"), [item("5_7_0", [["a", 0, 0]], **given)])
    assert document == [item("5_7_0", [["a", 0.0, 0.0]], predObjId=written)]
    assert ("1 of 1 results have no predObjId: they ground nothing" in notes) == (written is None)


def test_an_object_that_is_no_number_is_refused(tmp_path: Path, episodes_of: Open) -> None:
    with pytest.raises(InvalidFileError, match="instruction 5_7_0: predicts object 'lamp'"):
        submitted(tmp_path, episodes_of("reverie", "val"), [item("5_7_0", ["a"], predObjId="lamp")])


def test_what_agents_did_is_written_and_scores_the_same(tmp_path: Path, episodes_of: Open) -> None:
    episodes, world = episodes_of("reverie", "val")
    walked = pad_paths([[world.find("hall", name) for name in "abcdd"]])
    length, path = torch.tensor([4]), tmp_path / "results.json"
    views = torch.tensor([[12, 0, 35, 12, 12]])
    write_results(path, episodes, world, Trajectories(walked, views, length), ["7"])
    (written,) = json.loads(path.read_text())
    assert written["predObjId"] == 7
    assert [name for name, *_ in written["trajectory"]] == list("abcd")
    assert written["trajectory"][1] == ["b", 0.0, pytest.approx(-pi / 6)]
    assert written["trajectory"][2] == ["c", pytest.approx(11 * pi / 6), pytest.approx(pi / 6)]
    ours = score_walks(world, episodes, walked, length, ["7"]).summary()
    assert score_file(path, episodes, world).scores.summary() == ours
