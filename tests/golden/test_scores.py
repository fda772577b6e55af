"""Every score of the reference evaluators, item by item."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from vlnbert.evaluation.evaluate import ScoredFile, score_file
from vlnbert.evaluation.metrics import dtw_cost, dtw_table, ndtw
from vlnbert.evaluation.results import arrival_views
from vlnbert.tasks.episodes import Episodes, pad_paths
from vlnbert.world.world import World, view_elevation, view_heading, wrapped

EXACT = 1e-9
R2R = {
    "nav_error": "ne",
    "oracle_error": "oracle_error",
    "steps": "steps",
    "length": "tl",
    "shortest_length": "shortest",
    "success": "sr",
    "oracle_success": "osr",
    "spl": "spl",
}
R2R_SUMMARY = {"lengths": "tl", "success_rate": "sr", "oracle_rate": "osr"}
REVERIE = {
    "success": "sr",
    "oracle_success": "osr",
    "length": "tl",
    "shortest_length": "shortest",
    "spl": "spl",
    "rgs": "rgs",
    "rgspl": "rgspl",
}
REVERIE_SUMMARY = {"success_rate": "sr", "oracle_success_rate": "osr"}


@pytest.fixture(scope="module")
def r2r(open_data_episodes: Callable[[str, str], Episodes]) -> Episodes:
    return open_data_episodes("r2r", "val_unseen")


@pytest.fixture(scope="module")
def reverie(open_data_episodes: Callable[[str, str], Episodes]) -> Episodes:
    return open_data_episodes("reverie", "val_unseen")


def compare(scored: ScoredFile, expected: dict[str, Any], columns: dict[str, str], summary: dict[str, str]) -> None:
    assert len(scored.ids) == len(expected["items"])
    row_of = {name: row for row, name in enumerate(scored.ids)}
    rows = [row_of[item["instr_id"]] for item in expected["items"]]
    for theirs, ours in columns.items():
        wanted = torch.tensor([item[theirs] for item in expected["items"]], dtype=torch.float64)
        torch.testing.assert_close(getattr(scored.scores, ours)[rows], wanted, rtol=0, atol=EXACT, msg=theirs)
    means = scored.scores.mean()
    for theirs, value in expected["summary"].items():
        assert means[(columns | summary)[theirs]] == pytest.approx(value, abs=EXACT), theirs


def test_r2r(golden: Path, r2r: Episodes, open_data_world: World) -> None:
    scored = score_file(golden / "r2r_results.json", r2r, open_data_world, allow_missing=True)
    compare(scored, json.loads((golden / "r2r_scores.json").read_text()), R2R, R2R_SUMMARY)
    assert scored.scores.rgs is None


def test_reverie(golden: Path, reverie: Episodes, open_data_world: World) -> None:
    scored = score_file(golden / "reverie_results.json", reverie, open_data_world, allow_missing=True)
    compare(scored, json.loads((golden / "reverie_scores.json").read_text()), REVERIE, REVERIE_SUMMARY)


def test_filled_in_angles_are_the_simulator_s(golden: Path, r2r: Episodes, open_data_world: World) -> None:
    """R2R's golden trajectories were walked in the simulator; the angles of REVERIE's were not and are not compared."""
    world, row_of = open_data_world, {name: row for row, name in enumerate(r2r.ids)}
    compared = 0
    for item in json.loads((golden / "r2r_results.json").read_text()):
        row = row_of[item["instr_id"]]
        scan = world.scans[int(world.scan_of[r2r.start[row]])]
        names, headings, elevations = zip(*item["trajectory"], strict=True)
        walked = pad_paths([[world.find(scan, name) for name in names]])
        views = arrival_views(world, r2r.heading[row : row + 1], walked)[0].double()
        wanted = torch.tensor([headings, elevations], dtype=torch.float64)
        around = wrapped(wanted - torch.stack((view_heading(views), view_elevation(views))))
        torch.testing.assert_close(around, torch.zeros_like(around), rtol=0, atol=EXACT, msg=item["instr_id"])
        compared += len(names)
    assert compared > 1500


def test_ndtw_grows_move_by_move(golden: Path, open_data_world: World) -> None:
    """The table of the dynamic programme gives the reference's nDTW after every step, as rewards need it."""
    world, compared = open_data_world, 0
    for walk in json.loads((golden / "rewards.json").read_text())["trajectories"]:
        reference = torch.tensor([[world.find(walk["scan"], name) for name in walk["gt_path"]]])
        length = torch.tensor([reference.shape[1]])
        steps = [walk["start"], *(step for step in walk["steps"] if step["action"] == "move")]
        here = torch.tensor([[world.find(walk["scan"], step["viewpoint"])] for step in steps])
        table = dtw_table(world.metres(here[..., None], reference), torch.ones_like(here, dtype=torch.bool))
        for step, value in zip(steps, ndtw(dtw_cost(table, length), length)[:, 0].tolist(), strict=True):
            assert math.isclose(value, step["ndtw_metres"], abs_tol=EXACT), walk["instr_id"]
            compared += 1
    assert compared > 1000
