"""Reports and curves from Python."""

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT, TINY


def test_a_report_names_the_scores(trained: vln.Run, data: vln.Data, tmp_path: Path) -> None:
    path = vln.report(trained, str(tmp_path / "report.html"), data, episodes=2, title="A <report>", bar=False)
    assert path == tmp_path / "report.html"
    html = path.read_text()
    assert "A &lt;report&gt;" in html
    for agent in (trained, "random", "shortest"):
        steps = trained.experiment.training.max_steps
        scores = vln.evaluate(agent, data, SPLIT, max_steps=steps, bar=False).scores[SPLIT]
        for name in ("sr", "spl", "ndtw"):
            assert f">{100 * scores[name]:.1f}<" in html, (agent, name)  # type: ignore[operator]
        assert f">{scores['ne']:.2f}<" in html
    assert html.count("<article") == 2, "episodes"


def test_cards_tell_of_the_walk_that_was_scored(data: vln.Data, tmp_path: Path) -> None:
    """With the run's own limit of steps, whatever the task's is."""
    short = {**TINY, "iterations": 2, "validate_every": 2, "seed": 2}  # one that has not learned to stop
    run = vln.train("demo", data, tmp_path / "run", **QUIETLY, **short)
    found, steps = vln.evaluate(run, data, SPLIT, bar=False)[SPLIT], TINY["max_steps"]
    assert steps != vln.R2R.max_steps
    assert set(found.outcomes) == {"stopped", "ran out of steps"}
    html = vln.report(run, tmp_path / "report.html", data, episodes=1000, bar=False).read_text()
    cards = [card.split("</article>")[0] for card in html.split("<article")[1:]]
    assert len(cards) == len(found.episodes)
    for card in cards:
        row = found.episodes.row(re.findall(r"episode ([\w]+)<", card)[0])
        metres = f"{found.scores.ne[row]:.2f} m from the goal"  # type: ignore[union-attr]
        told = f"stopped {metres}" if found.outcomes[row] == "stopped" else f"ran out of steps after {steps}, {metres}"
        odd = found.outcomes[row] != "stopped" and bool(found.scores.sr[row])  # type: ignore[union-attr]
        assert f": {told}{' (where it ended is what counts)' if odd else ''}<" in card
        assert card.count("stopped") + card.count("ran out") == 1, "told once"
        assert card.count('<th scope="row">') == min(int(found.trajectories.length[row]), steps)


def test_a_report_is_the_same_twice(trained: vln.Run, tmp_path: Path) -> None:
    """By default of the run's own data and split, wherever it is called from."""
    one, other = (vln.report(trained.folder, tmp_path / name, bar=False) for name in ("a.html", "b.html"))
    assert one.read_bytes() == other.read_bytes()
    third = vln.report(trained, tmp_path / "c.html", split=SPLIT, bar=False)
    assert third.read_bytes() == one.read_bytes()


@pytest.mark.parametrize(("name", "begin"), [("curves.svg", b"<?xml"), ("curves.png", b"\x89PNG"), ("c.pdf", b"%PDF")])
def test_curves(name: str, begin: bytes, trained: vln.Run, tmp_path: Path) -> None:
    figure = vln.curves(trained, tmp_path / name)
    assert isinstance(figure, Figure)
    assert (tmp_path / name).read_bytes().startswith(begin)


def test_curves_of_a_run(trained: vln.Run) -> None:
    shown = trained.curves()._repr_svg_()
    assert shown.startswith("<svg "), "a notebook shows it"
    assert isinstance(vln.curves(str(trained.folder), split=SPLIT), Figure)


def test_a_demo(tmp_path: Path) -> None:
    made = vln.demo(tmp_path / "demo", iterations=2, scans=3, bar=False)
    assert made.report is not None
    assert made.report.is_file()
    assert made.run.progress.iteration == 2
    for word in ("random", "shortest", "navigator", "SPL"):
        assert word in str(made)
        assert word in made._repr_html_()
    before = made.report.read_bytes()
    again = vln.demo(str(tmp_path / "demo"), iterations=2, scans=3, bar=False)
    assert again.run.folder == made.run.folder
    assert again.report is not None
    assert again.report.read_bytes() == before
