"""A published agent's results, in its own dialect, with the metrics that its authors logged."""

import json
from pathlib import Path

import pytest
import torch

from vlnbert.errors import InvalidFileError
from vlnbert.evaluation.evaluate import ScoredFile, score_file
from vlnbert.evaluation.options import SplBy
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import load_episodes
from vlnbert.world.world import World

COLUMNS = {
    "CLS": "cls",
    "nDTW": "ndtw",
    "SDTW": "sdtw",
    "nav_error": "ne",
    "oracle_error": "oracle_error",
    "oracle_success": "osr",
    "success": "sr",
    "spl": "spl",  # by the reference path's length
    "trajectory_lengths": "tl",
    "trajectory_steps": "steps",
}


def scored(golden: Path, data: DataFolder, world: World, split: str, spl_by: SplBy, allow: bool = False) -> ScoredFile:
    episodes = load_episodes(data, world, "r2r", split)
    path = golden / "agents" / f"duet_trajectories_{split}.json"
    return score_file(path, episodes, world, spl_by, allow, data)


@pytest.mark.parametrize("split", ["val_seen", "val_unseen"])
def test_every_episode(golden: Path, open_data: DataFolder, open_data_world: World, split: str) -> None:
    ours = scored(golden, open_data, open_data_world, split, "reference", allow=split == "val_seen")
    theirs = json.loads((golden / "agents" / f"duet_individual_metrics_{split}.json").read_text())
    row_of = {name: row for row, name in enumerate(ours.ids)}
    rows = [row_of[name] for name in theirs["instr_id"]]
    assert len(rows) == len(ours.ids) == {"val_seen": 1020, "val_unseen": 2349}[split]
    for column, name in COLUMNS.items():
        wanted = torch.tensor(theirs[column], dtype=torch.float64)
        torch.testing.assert_close(getattr(ours.scores, name)[rows], wanted, rtol=0, atol=1e-6, msg=column)


@pytest.mark.parametrize(("spl_by", "spl"), [("shortest", 60.37), ("reference", 60.41)])
def test_published_summary(
    golden: Path, open_data: DataFolder, open_data_world: World, spl_by: SplBy, spl: float
) -> None:
    summary = scored(golden, open_data, open_data_world, "val_unseen", spl_by).scores.summary()
    shown = {name: round(100 * (summary[name] or 0), 2) for name in ("sr", "osr", "spl")}
    assert shown == {"sr": 71.90, "osr": 81.48, "spl": spl}
    assert round(summary["ne"] or 0, 2) == 3.20
    assert summary["episodes"] == 2349


def test_nested_hops_are_told(golden: Path, open_data: DataFolder, open_data_world: World) -> None:
    notes = scored(golden, open_data, open_data_world, "val_unseen", "shortest").notes
    assert notes.lines() == ["2,349 trajectories of viewpoints alone", "1,340 nested hops expanded"]


def test_an_instruction_is_missing(golden: Path, open_data: DataFolder, open_data_world: World) -> None:
    with pytest.raises(InvalidFileError, match=r"lacks 1 of the 1,021 .* allow_missing=True to score the 1,020"):
        scored(golden, open_data, open_data_world, "val_seen", "shortest")


def test_a_file_of_another_split_is_named(golden: Path, open_data: DataFolder, open_data_world: World) -> None:
    episodes = load_episodes(open_data, open_data_world, "r2r", "val_unseen")
    path = golden / "agents" / "duet_trajectories_val_seen.json"
    with pytest.raises(InvalidFileError, match="looks like r2r/val_seen: name that task and split"):
        score_file(path, episodes, open_data_world, folder=open_data)
