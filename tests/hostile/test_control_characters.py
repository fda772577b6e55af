"""What files call things is shown on a terminal, never obeyed by it."""

import json
from pathlib import Path

import pytest
import torch

from tests.cli.conftest import called
from tests.conftest import TinyData
from vlnbert.analysis.report import Report, Section, paragraph, terms, write_report
from vlnbert.progress import Bar, say
from vlnbert.tables import Table

NASTY = "\x1b]0;owned\x07\x9b31m\u202e"
SHOWN = r"\x1b]0;owned\x07\x9b31m\u202e"


def nothing_is_sent(text: str) -> None:
    assert SHOWN in text
    assert not set(NASTY).difference("]0;owned31m") & set(text)


def test_tables() -> None:
    table = Table([f"name{NASTY}", "value"], [[f"a{NASTY}", "1"]], title=f"title{NASTY}", note=f"note{NASTY}")
    for text in (table.text(), table.html()):
        nothing_is_sent(text)
        assert text.count(SHOWN) == 4


def test_lines_and_bars(capfd: pytest.CaptureFixture[str]) -> None:
    say(f"a{NASTY}")
    with Bar(f"b{NASTY}", 1) as bar:
        bar.say(f"c{NASTY}")
    nothing_is_sent(capfd.readouterr().err + bar.what)


def test_reports(tmp_path: Path) -> None:
    table = Table(["name", "value"], [[NASTY, "1"]], title=NASTY)
    parts = (paragraph(f"walk\nto {NASTY}"), table, terms([(NASTY, NASTY)]))
    write_report(tmp_path / "report.html", Report(title=NASTY, opening=(), sections=[Section(NASTY, parts)]))
    text = (tmp_path / "report.html").read_text()
    nothing_is_sent(text)
    assert f"walk\nto {SHOWN}" in text, "lines of an instruction stay lines"


def test_candidates(tiny: TinyData) -> None:
    def rename(entries: list[dict[str, object]]) -> None:
        entries[0]["image_id"] = f"a0{NASTY}"

    tiny.edit("connectivity/alpha_connectivity.json", rename)
    outcome = called("world", "candidates", "alpha", "--data", tiny.root)
    assert outcome.code == 0
    nothing_is_sent(outcome.out)


def test_weights(tmp_path: Path) -> None:
    torch.save({f"bert.{NASTY}": torch.zeros(1)}, tmp_path / "a.pt")
    outcome = called("weights", "inspect", tmp_path / "a.pt")
    assert not set(NASTY).difference("]0;owned31m") & set(outcome.out + outcome.err)


def test_data_check(tiny: TinyData) -> None:
    tiny.edit("r2r/R2R_train.json", lambda items: items[0].update(path_id=NASTY, path=["a0", "a5"]))
    tiny.edit("captions/alpha.json", lambda views: views.update({NASTY: views.pop(next(iter(views)))}))
    outcome = called("data", "check", tiny.root)
    nothing_is_sent(outcome.out + outcome.err)


def test_json_spells_them_anyhow(tiny: TinyData) -> None:
    tiny.edit("r2r/R2R_train.json", lambda items: items[0].update(path_id=NASTY, path=["a0", "a5"]))
    outcome = called("data", "check", tiny.root, "--json")
    assert json.loads(outcome.out)
    assert "\x1b" not in outcome.out


def test_a_line_of_the_command_line_ends_at_500_characters(tmp_path: Path) -> None:
    for words in (("weights", "inspect", tmp_path / "x" / ("y" * 9000)), ("train", "z" * 9000)):
        outcome = called(*words)
        assert outcome.code == 2
        assert 200 < max(map(len, outcome.err.splitlines())) <= 500
