"""Every dialect of a result file becomes the same records, and the notes say what was done."""

from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.memory import read_document
from vlnbert.errors import DataError, Faults, InvalidFileError
from vlnbert.evaluation.results import Result, ResultFile, read_results


def parsed(document: Any) -> ResultFile:
    faults = Faults(Path("results.json"))
    file = read_document(document, faults)
    faults.raise_if_any()
    return file


def one(trajectory: Any, **more: Any) -> ResultFile:
    return parsed([{"instr_id": "1_0", "trajectory": trajectory, **more}])


@pytest.mark.parametrize(
    ("trajectory", "notes"),
    [
        ([["a", 0.5, 0], ["b", 1, -0.5], ["c", 0.0, 0.0]], []),
        (["a", "b", "c"], ["1 trajectory of viewpoints alone"]),
        ([["a"], ["b"], ["c"]], ["1 trajectory of viewpoints alone"]),
        ([["a"], ["b", "c"]], ["1 trajectory of viewpoints alone", "1 nested hop expanded"]),
        ([["a", "b", "c"]], ["1 trajectory of viewpoints alone", "1 nested hop expanded"]),
        (["a", ["b", 0.1, 0.2], ["c"]], []),
    ],
)
def test_trajectories(trajectory: Any, notes: list[str]) -> None:
    file = one(trajectory)
    assert [result.path for result in file.results] == [("a", "b", "c")]
    assert file.notes.lines() == notes


def test_angles_are_kept_where_given() -> None:
    assert one([["a", 0.5, 0], "b"]).results == [Result("1_0", ("a", "b"), ((0.5, 0.0), None))]


def test_a_document_keyed_by_instruction() -> None:
    file = parsed({"1_0": ["a", "b"], "1_1": {"trajectory": [["a", 0, 0]], "predObjId": 4}})
    assert [(result.id, result.path, result.predicted_object) for result in file.results] == [
        ("1_0", ("a", "b"), None),
        ("1_1", ("a",), "4"),
    ]
    assert "2 trajectories keyed by instruction, not listed" in file.notes.lines()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"predObjId": 12}, "12"),
        ({"predObjId": "12"}, "12"),
        ({"predObjId": None}, None),
        ({"pred_objid": 12}, "12"),
        ({"predObjId": 1, "pred_objid": 2}, "1"),
        ({}, None),
    ],
)
def test_objects(fields: dict[str, Any], expected: str | None) -> None:
    file = one([["a", 0, 0]], **fields)
    assert file.results[0].predicted_object == expected
    assert bool(file.notes.respelled) == ("predObjId" not in fields and bool(fields))


def test_the_first_of_repeated_entries_wins() -> None:
    ways = [["a", "b"], ["a", "b"], ["a", "c"]]
    file = parsed([{"instr_id": "1_0", "trajectory": way} for way in ways])
    assert [result.path for result in file.results] == [("a", "b")]
    assert file.notes.lines() == [
        "1 trajectory of viewpoints alone",
        "2 repeated entries dropped, 1 of them different; the first of each is kept",
    ]


def test_turns_in_place_are_kept() -> None:
    file = one([["a", 0, 0], ["a", 0.5, 0], ["b", 0.5, 0]])
    assert file.results[0].path == ("a", "a", "b")
    assert file.notes.lines() == ["1 trajectory with turns in place, kept as steps"]


def test_counts_are_written_for_people() -> None:
    file = parsed([{"instr_id": f"{n}_0", "trajectory": ["a"]} for n in range(2349)])
    assert file.notes.lines() == ["2,349 trajectories of viewpoints alone"]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"instr_id": "1_0"}, "instruction 1_0: has no 'trajectory'"),
        ({"instr_id": "1_0", "trajectory": {}}, "instruction 1_0: has no 'trajectory'"),
        ({"instr_id": "1_0", "trajectory": []}, "instruction 1_0: has an empty trajectory"),
        ({"instr_id": "1_0", "trajectory": ["a", 0.1, 0.2]}, "instruction 1_0: hop 1"),
        ({"instr_id": "1_0", "trajectory": [["a", 0.1]]}, "instruction 1_0: hop 0"),
        ({"instr_id": "1_0", "trajectory": [["a", "b", 0.1]]}, "instruction 1_0: hop 0"),
        ({"instr_id": "1_0", "trajectory": [["a", True, 0.1]]}, "instruction 1_0: hop 0"),
        ({"instr_id": "1_0", "trajectory": [["a", float("nan"), 0.1]]}, "instruction 1_0: hop 0"),
        ({"instr_id": "1_0", "trajectory": ["a", []]}, "instruction 1_0: hop 1"),
        ({"instr_id": "1_0", "trajectory": [[["a", 0.1, 0.1]]]}, "instruction 1_0: hop 0"),
        ({"instr_id": "1_0", "trajectory": ["a"], "predObjId": 1.5}, "'predObjId' is not an object id"),
        ({"instr_id": "1_0", "trajectory": ["a"], "pred_objid": [1]}, "'pred_objid' is not an object id"),
        ({"trajectory": ["a"]}, "item 0: is not an object with an 'instr_id'"),
        (["1_0", ["a"]], "item 0: is not an object with an 'instr_id'"),
    ],
)
def test_unreadable_entries(item: Any, problem: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        parsed([item])
    assert problem in str(caught.value)
    assert len(caught.value.faults) == 1


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(InvalidFileError) as caught:
        parsed([{"instr_id": "1_0", "trajectory": []}, {"instr_id": "1_1", "trajectory": [1]}, 5])
    assert len(caught.value.faults) == 3


@pytest.mark.parametrize(
    ("text", "problem"), [("3", "expecting .* or {"), ("[]", "holds no"), ("[{", "not a whole JSON list or object")]
)
def test_files_that_hold_no_results(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(DataError, match=problem):
        read_results(path, Faults(path))


def test_an_endless_trajectory_is_refused(tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    read_document([{"instr_id": "1_0", "trajectory": ["a"] * 1001}], faults)
    assert "1,001 hops" in faults.found[0].problem
