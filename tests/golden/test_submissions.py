"""The files for the leaderboards that docs/results.md tells of: whole, along edges, as the leaderboards take them."""

import json
import lzma
from pathlib import Path

import pytest

import vlnbert as vln
from vlnbert.sources.layout import DataFolder

MEASURED = Path(__file__).parents[2] / "docs" / "measured"


@pytest.mark.parametrize(("task", "episodes"), [("r2r", 4173), ("reverie", 6292)])
def test_what_was_written_for_the_leaderboard(open_data: DataFolder, tmp_path: Path, task: str, episodes: int) -> None:
    given, checked = tmp_path / "given.json", tmp_path / "checked.json"
    given.write_bytes(lzma.decompress((MEASURED / f"{task}-test.json.xz").read_bytes()))
    assert vln.submit(given, checked, open_data.root, f"{task}/test").results == episodes
    assert json.loads(checked.read_text()) == json.loads(given.read_text())
