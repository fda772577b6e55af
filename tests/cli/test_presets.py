"""`vlnbert presets`: the menu, for people and for programs."""

import json
from collections.abc import Callable

from vlnbert.learning.experiment import Experiment
from vlnbert.learning.presets import PRESETS
from vlnbert.learning.records import from_plain


def test_the_table_has_a_row_for_each(run: Callable) -> None:
    outcome = run("presets")
    assert outcome.code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in outcome.out.splitlines() if "│" in line]
    expected = [[preset.name, preset.description, ", ".join(preset.needs)] for preset in PRESETS]
    assert rows == expected


def test_programs_get_every_setting(run: Callable) -> None:
    found = json.loads(run("presets", "--json").out)
    assert list(found) == [preset.name for preset in PRESETS]
    for preset in PRESETS:
        assert found[preset.name]["description"] == preset.description
        assert found[preset.name]["needs"] == list(preset.needs)
        assert from_plain(Experiment, found[preset.name]["experiment"]) == preset.experiment
