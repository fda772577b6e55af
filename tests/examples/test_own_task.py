"""A task outside the package: trained, resumed and evaluated, from Python and from the command line."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import vlnbert as vln
from tests.cli.conftest import TINY, called
from tests.learning.samples import same, weights
from vlnbert.errors import UsageError
from vlnbert.house import generate
from vlnbert.plugins import load_plugin
from vlnbert.tasks.task import GROUNDING, NAVIGATION, TASKS

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_task.py"
SPLITS = {"train_on": "exact/train", "validate_on": "exact/val_unseen", "best_on": "exact/val_unseen"}
SMALL = {"batch": 4, "max_steps": 8, "hidden": 16, "heads": 2, "inner": 32, "iterations": 6, "validate_every": 3}


@pytest.fixture(autouse=True)
def plugin(forget_plugins: Callable[[], None]) -> Callable[[], None]:
    """The example is loaded; what is given back forgets it, as a new process would."""
    load_plugin(EXAMPLE)
    return forget_plugins


def test_one_file(data: vln.Data) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    assert "exact/val_unseen" in data.splits


def test_who_follows_its_teacher_succeeds(data: vln.Data) -> None:
    found = vln.evaluate("shortest", data, ["exact/val_unseen", "r2r/val_unseen"], bar=False).scores
    assert found["exact/val_unseen"]["sr"] == 1.0
    episodes = data.episodes("exact/val_unseen")
    nearest = data.world.neighbour[episodes.goal]  # [row, slot] the goal's neighbours, and itself for the stop
    exact, near = (TASKS[name].arrived(data.world, nearest, episodes) for name in ("exact", "r2r"))
    assert bool(exact[:, 0].all())
    assert int(exact.sum()) < int(near.sum()), "it asks for more"


def test_it_trains_resumes_and_evaluates(data: vln.Data, tmp_path: Path) -> None:
    run = vln.train("demo", data, tmp_path / "run", bar=False, tensorboard=False, **SPLITS, **SMALL)
    best = max(line["scores"]["exact/val_unseen"]["gp"] for line in run.log if "scores" in line)
    assert run.progress.best == best, "its own metric chooses"
    assert run.resume(bar=False, tensorboard=False).progress == run.progress
    assert vln.evaluate(run, split="exact/val_unseen", bar=False).scores["exact/val_unseen"]["gp"] == best


def test_its_metric_is_wherever_scores_are(data: vln.Data, tmp_path: Path) -> None:
    """In the log, TensorBoard, the model card's folder, tables, JSON, comparisons, reports and episodes."""
    run = vln.train("demo", data, tmp_path / "run", bar=False, **SPLITS, **SMALL)
    lines = [line for line in run.log if "scores" in line]
    assert {line["best_metric"] for line in lines} == {"gp"}
    logged = [line["scores"]["exact/val_unseen"]["gp"] for line in lines]
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload().Scalars("exact/val_unseen/gp")
    assert [point.value for point in events] == pytest.approx(logged)
    assert f"best GP m {max(logged):.2f} on exact/val_unseen" in str(run)
    assert [column.split()[0] for column in run.table().columns] == ["updates", "SR", "SPL", "GP"]

    found = vln.evaluate(run, split="exact/val_unseen", bar=False)
    single = [one["gp"] for one in found.per_episode["exact/val_unseen"].values()]
    assert sum(map(float, single)) / len(single) == pytest.approx(found.scores["exact/val_unseen"]["gp"])
    assert "GP m" in found.table().columns
    (written,) = found.write(tmp_path)
    assert vln.score(written, data, "exact/val_unseen").summary == found.scores["exact/val_unseen"]
    compared = json.loads(vln.compare([run, "shortest"], split="exact/val_unseen", bar=False).to_json())
    mine, shortest = (compared["scores"][agent]["gp"] for agent in compared["agents"])
    assert compared["differences"]["shortest"]["gp"] == pytest.approx(shortest - mine)
    id, value = next(iter(found.per_episode["exact/val_unseen"].items()))
    episode = vln.episode(run, id, split="exact/val_unseen", bar=False)
    assert json.loads(episode.to_json())["scores"]["gp"] == value["gp"]
    page = vln.report(run, tmp_path / "report.html", bar=False).read_text()
    assert "goal progress: how much nearer to the goal it ended" in page
    assert f"GP {value['gp']:.2f} m" in page or "GP " in page


def test_lower_may_be_better(data: vln.Data, tmp_path: Path, plugin: Callable[[], None]) -> None:
    """The best weights are those with the lowest value of a metric that says so."""
    plugin()
    (tmp_path / "lower.py").write_text(
        EXAMPLE.read_text()
        .replace('"gp", "GP", unit="m"', '"gp", "GP", unit="m", higher=False')
        .replace("left[:, 0] - left[:, -1]", "left[:, -1]")
    )
    load_plugin(tmp_path / "lower.py")
    run = vln.train("demo", data, tmp_path / "run", bar=False, tensorboard=False, **SPLITS, **SMALL)
    values = [line["scores"]["exact/val_unseen"]["gp"] for line in run.log if "scores" in line]
    assert len(values) == 2
    assert run.progress.best == min(values)


WORDS = [word for name, split in SPLITS.items() for word in (f"--{name.replace('_', '-')}", split)]


def test_from_the_command_line(data: vln.Data, house: Path, tmp_path: Path, plugin: Callable[[], None]) -> None:
    """Trained, resumed, evaluated and reported; the run remembers its plugin."""
    changes: dict[str, Any] = {"batch": 4, "max_steps": 4, "report_every": 1, "hidden": 16, "heads": 2, "inner": 32}
    updates = {"iterations": 4, "validate_every": 2}
    quietly = {"threads": 1, "bar": False, "tensorboard": False}
    expected = vln.train("demo", data, tmp_path / "python", **SPLITS, **changes, **updates, **quietly)
    plugin()
    options = ("--training.iterations", "4", "--training.validate-every", "2", *WORDS, *TINY)
    outcome = called("--plugin", EXAMPLE, "train", "demo", "--data", house, "--out", tmp_path / "run", *options)
    assert outcome.code == 0, outcome.err
    assert "GP m" in outcome.out, "its own metric chooses"
    assert same(weights(tmp_path / "run"), weights(expected.folder))
    plugin()
    resumed = called("train", "--resume", tmp_path / "run")
    assert resumed.code == 0, resumed.err
    plugin()
    scored = called("evaluate", tmp_path / "run", "--data", house, "--splits", "val_unseen", "--json")
    scores = vln.evaluate(expected, split="exact/val_unseen", bar=False).scores["exact/val_unseen"]
    assert json.loads(scored.out)["exact/val_unseen"] == scores
    plugin()
    report = tmp_path / "report.html"
    for words in (("report", tmp_path / "run", "--out", report), ("curves", tmp_path / "run", "--out", "curves.svg")):
        outcome = called(*words[:-1], tmp_path / words[-1])
        assert outcome.code == 0, outcome.err
        plugin()
    assert "exact/val_unseen" in vln.open_run(tmp_path / "run").table().text()
    walked = called("--plugin", EXAMPLE, "evaluate", "--agent", "shortest", "--task", "exact", "--data", house)
    assert walked.code == 0, walked.err
    plugin()
    missed = called("evaluate", "--agent", "shortest", "--task", "exact", "--data", house)
    assert (missed.code, len(missed.err.splitlines())) == (2, 1)
    assert "no task 'exact'; known: r2r, r4r, reverie; or load its plugin: --plugin FILE" in missed.err


def test_it_is_a_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], plugin: Callable[[], None]
) -> None:
    """With a smaller house and fewer updates than it asks for."""

    def house(folder: Path, scans: int) -> vln.Data:
        generate(folder, scans=3, paths_per_scan=8)
        return vln.open_data(folder)

    plugin()
    train = vln.train
    monkeypatch.setattr(vln, "generate_house", house, raising=False)
    monkeypatch.setattr(vln, "train", lambda *words, **more: train(*words, **{**more, **SMALL}), raising=False)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    assert "exact/val_unseen" in out
    assert "r2r/val_unseen" in out


@pytest.mark.parametrize("task", ["r2r", "reverie"])
def test_every_metric_that_can_rank_weights_is_in_a_validation_s_scores(data: vln.Data, task: str) -> None:
    scores = vln.evaluate("stop", data, f"{task}/val_unseen", bar=False).scores[f"{task}/val_unseen"]
    known = {name for name, score in scores.items() if score is not None} - {"tl", "episodes"}
    assert known == {*NAVIGATION, *(GROUNDING if task == "reverie" else ())}


def test_faults_are_one_line() -> None:
    with pytest.raises(UsageError, match="the task Nameless has no name; give it one"):
        vln.register_task(type("Nameless", (vln.Task,), {}))
    with pytest.raises(UsageError, match=r"the task mute has no reader; define read\(self, path\)"):
        vln.register_task(type("Mute", (vln.Task,), {"name": "mute"}))
    for metric, kind in (
        ("spll", vln.REVERIE),
        ("rgs", vln.R2R),
        ("tl", vln.R2R),
        (None, vln.R2R),
        ("episodes", vln.R2R),
    ):
        told = f"the task odd cannot choose its best weights by {metric!r}; set best_metric to one of sr, osr, spl, "
        with pytest.raises(UsageError, match=f"^{told}"):
            vln.register_task(type("Odd", (kind,), {"name": "odd", "best_metric": metric}))
    assert "odd" not in TASKS, "nothing is registered"
    with pytest.raises(UsageError, match="two tasks are called 'r2r'"):
        vln.register_task(type("Again", (vln.R2R,), {"__module__": "elsewhere"}))
