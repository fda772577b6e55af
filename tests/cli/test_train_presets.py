"""`vlnbert presets`: the menu, for people and for programs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from vlnbert.cli import output
from vlnbert.learning.presets import UNTRAINED, presets
from vlnbert.records import from_plain


def test_the_table_has_a_row_for_each(run: Callable) -> None:
    outcome = run("presets")
    assert outcome.code == 0
    *rows, blank, note = outcome.out.splitlines()[-len(presets) - 2 :]
    assert (blank.strip(), note) == ("", UNTRAINED)
    for row, preset in zip(rows, presets.values(), strict=True):
        assert row.split() == f"{preset.name} {preset.description} {', '.join(preset.experiment.needs)}".split()


@pytest.mark.parametrize("columns", [10, 40, 80])
def test_names_are_whole_in_any_terminal(run: Callable, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(output, "WIDE", columns)
    shown = run("presets").out
    assert all(name in shown for name in presets)


@pytest.mark.parametrize("columns", [40, 80])
def test_names_are_whole_where_a_folder_is_checked(
    run: Callable, house: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(output, "WIDE", columns)
    shown = run("data", "check", house).out
    assert all(name in shown for name in presets)


def test_programs_get_every_setting(run: Callable) -> None:
    found = json.loads(run("presets", "--json").out)
    assert list(found) == list(presets)
    for preset in presets.values():
        assert found[preset.name]["description"] == preset.description
        assert found[preset.name]["needs"] == list(preset.experiment.needs)
        assert from_plain(type(preset.experiment), found[preset.name]["experiment"]) == preset.experiment
