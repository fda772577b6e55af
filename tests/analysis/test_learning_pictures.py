"""Curves of a training."""

import sys
from subprocess import run

from vlnbert.analysis import figure_svg
from vlnbert.analysis.curves import draw_curves

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


def test_curves_of_a_run_that_has_just_begun() -> None:
    assert "<svg" in figure_svg(draw_curves([], "val_unseen", {}))


def test_the_explorer_does_not_load_matplotlib() -> None:
    told = "import sys, vlnbert.explorer.app, vlnbert.api.exploring; print('matplotlib' in sys.modules)"
    done = run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
