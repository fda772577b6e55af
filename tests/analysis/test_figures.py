"""Curves of a training."""

import sys
from collections.abc import Callable
from subprocess import run

from vlnbert.analysis import figure_svg
from vlnbert.analysis.figures import draw_curves
from vlnbert.analysis.report import headline, how_well
from vlnbert.tables import Table
from vlnbert.tasks.task import METRICS, Metric

LOG = [
    {"iteration": 10, "total": 9.0, "imitation": 8.0, "value": 1.0},
    {"iteration": 20, "total": 5.0, "imitation": 4.5, "value": 0.5},
    {"iteration": 20, "scores": {"val_unseen": {"sr": 0.25}, "val_seen": {"sr": 0.5}}},
]


def test_curves_show_the_losses_and_the_split() -> None:
    figure = draw_curves(LOG, "val_unseen", {"random": 0.1})
    left, right = figure.axes
    assert [line.get_ydata().tolist() for line in left.lines] == [[8.0, 4.5], [1.0, 0.5]]
    assert right.lines[0].get_ydata().tolist() == [25.0]
    assert right.texts[0].get_text() == "random"
    assert figure_svg(figure) == figure_svg(draw_curves(LOG, "val_unseen", {"random": 0.1}))


def test_curves_show_the_parts_that_a_training_has() -> None:
    log = [{**line, "grounding": 0.0, "alignment": line["value"] / 2} if "total" in line else line for line in LOG]
    left, _ = draw_curves(log, "val_unseen", {}).axes
    assert [line.get_label() for line in left.lines] == ["imitation loss", "value loss", "alignment loss"]
    assert left.lines[2].get_ydata().tolist() == [0.5, 0.25]


def test_curves_show_the_rates_that_a_task_adds(forget_plugins: Callable[[], None]) -> None:
    """Those in other units have no place on a scale of percent."""
    for metric in (Metric("rooms", "Rooms", "%"), Metric("doors", unit="%"), Metric("gp", "GP", "m")):
        METRICS.register(metric.name, metric, "mine")
    scores = {"sr": 0.25, "rooms": 0.5, "gp": 3.0, "doors": 0.1, "unknown": 0.7}
    _, right = draw_curves([{"iteration": 20, "scores": {"val_unseen": scores}}], "val_unseen", {}).axes
    drawn = {line.get_label(): (line.get_ydata().tolist(), line.get_linestyle()) for line in right.lines}
    assert drawn == {"SR": ([25.0], "-"), "Rooms": ([50.0], "-"), "doors": ([10.0], "--")}


def test_a_report_tells_the_units_of_what_a_task_adds(forget_plugins: Callable[[], None]) -> None:
    for metric in (Metric("rooms", unit="%", meaning="rooms that were seen"), Metric("gp", "GP", "m"), Metric("turns")):
        METRICS.register(metric.name, metric, "mine")
    scores = {"navigator": {"sr": 0.25, "ne": 4.0, "rooms": 0.5, "gp": 3.0, "turns": 2.0, "episodes": 4}}
    assert headline("r2r", scores, "navigator")[2:] == [
        ("50.0", "%", "rooms that were seen"),
        ("3.00", "m", "GP"),
        ("2.00", "", "turns"),
    ]
    table, meanings, unit = how_well("r2r", scores, "navigator", {}, "").parts
    assert isinstance(table, Table)
    assert table.columns == ["agent", "SR", "NE m", "rooms", "GP m", "turns", "episodes"]
    assert str(meanings).endswith("<dt>rooms</dt><dd>rooms that were seen</dd></dl>")
    assert ">TL and NE are in metres, GP in m, turns has no unit, the other scores in percent" in str(unit)


def test_curves_of_a_run_that_has_just_begun() -> None:
    assert "<svg" in figure_svg(draw_curves([], "val_unseen", {}))


def test_the_explorer_does_not_load_matplotlib() -> None:
    told = "import sys, vlnbert.explorer.app, vlnbert.api.exploring; print('matplotlib' in sys.modules)"
    done = run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
