"""The tables of the pages are what the logs give; what no log holds is marked."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.snippets import ROOT
from vlnbert.analysis.report import NO_START, OSCAR, PREVALENT, R2R_METRICS, REVERIE_METRICS, ROWS

RESULTS = ROOT / "docs" / "results.md"


@pytest.fixture
def tables() -> ModuleType:
    """docs/tables.py, which is no part of a package."""
    spec = spec_from_file_location("docs_tables", ROOT / "docs" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_have_the_tables_that_the_logs_give(tables: ModuleType) -> None:
    shown = [name for page in tables.PAGES for name in tables.BLOCK.findall(page.read_text())]
    assert sorted(shown) == sorted(tables.TABLES), "every table stands on one page"
    assert {page.name: tables.differing(page.read_text()) for page in tables.PAGES} == {
        "results.md": [],
        "README.md": [],
    }


def test_a_number_that_no_log_gives_is_noticed_and_mended(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "results.md"
    page.write_text(RESULTS.read_text().replace("**58.7 / 52.1**", "**68.7 / 62.1**"))
    monkeypatch.setattr(tables, "PAGES", (page,))
    monkeypatch.setattr(tables, "DOCS", tmp_path / "docs")
    (tmp_path / "docs" / "measured").symlink_to(ROOT / "docs" / "measured")
    assert tables.main(check=True) == 1
    assert "results.md: r2r-seeds: not what the logs give" in capsys.readouterr().out
    assert tables.main(check=False) == 0
    assert page.read_text() == RESULTS.read_text()
    assert tables.main(check=True) == 0


def test_what_no_log_holds_is_marked(tables: ModuleType) -> None:
    """Every other table has the mark in the paragraph above it, or in the one before its commands."""
    text = re.sub(r"```.*?```\n\n", "", tables.BLOCK.sub("", RESULTS.read_text()), flags=re.DOTALL)
    blocks = text.split("\n\n")
    typed = [(above, below) for above, below in pairwise(blocks) if below.startswith("|")]
    assert len(typed) > 5
    assert [below.splitlines()[0] for above, below in typed if tables.UNLOGGED not in above] == []


def test_the_papers_numbers_are_those_of_reports(tables: ModuleType) -> None:
    starts = {"from nothing": NO_START, "OSCAR": OSCAR, "PREVALENT": PREVALENT}
    for task, metrics in (("r2r", R2R_METRICS), ("reverie", REVERIE_METRICS)):
        for start, scores in tables.PAPER[task].items():
            printed = dict(zip(metrics, map(float, ROWS[f"{task}/val_unseen"][starts[start]].split()), strict=True))
            assert scores == {metric: printed[metric] for metric in scores}


def test_two_protocols_side_by_side(tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two seeds: val_unseen chooses the best on itself, held-out houses the best on them; runs may be added."""
    measured = tmp_path / "measured"
    measured.mkdir()
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    assert tables.held_out().startswith("Not measured yet")

    def line(seed: int, iteration: int, dev: float, unseen: float) -> str:
        splits = {"r2r/dev_unseen": {"sr": dev, "spl": dev}, "r2r/val_unseen": {"sr": unseen + 0.1, "spl": unseen}}
        return json.dumps({"run": "small", "seed": seed, "commit": "abc1234", "iteration": iteration, "scores": splits})

    log = [line(0, 1, 0.3, 0.2), line(0, 2, 0.2, 0.4), line(1, 1, 0.1, 0.3), line(1, 2, 0.2, 0.2)]
    (measured / "small-192.jsonl").write_text("\n".join(log) + "\n")
    (row,) = tables.held_out().splitlines()[2:]
    assert row == "| `small` | abc1234 | R2R | 2 | 45.0 / 35.0 | 30.0 / 20.0 |"
    (measured / "held-out.jsonl").write_text(log[0].replace("small", "large"))
    assert [row.split(" | ")[0] for row in tables.held_out().splitlines()[2:]] == ["| `large`", "| `small`"]
