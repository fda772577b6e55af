"""Ctrl-C, once and again: what is waited for is said, and what was trained is kept."""

import signal
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.api.conftest import QUIETLY, TINY
from tests.learning.samples import Watcher, same, weights
from vlnbert.learning.navigator_recipe import NavigatorRecipe
from vlnbert.learning.trainer import Trainer


def train(data: Any, out: Path, **changes: Any) -> vln.Run:
    return vln.train("demo", data, out, **{**QUIETLY, **TINY, "bar": True, **changes})


class Interrupting(Watcher):
    """Asks to stop, as often as told, when the losses of an update are reported."""

    def __init__(self, after: int, times: int = 1, kind: signal.Signals = signal.SIGINT) -> None:
        super().__init__()
        self.after, self.times, self.kind = after, times, kind

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        super().updated(iteration, learning_rate, parts)
        if iteration == self.after:
            for _ in range(self.times):
                signal.raise_signal(self.kind)


@pytest.fixture
def interrupted_walk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first number is how often Ctrl-C is pressed in the next validation; a negative one is SIGTERM's."""
    real, presses = NavigatorRecipe.scores, [0]

    def walk(*words: Any, **more: Any) -> Any:
        times, presses[0] = presses[0], 0
        for _ in range(abs(times)):
            signal.raise_signal(signal.SIGINT if times > 0 else signal.SIGTERM)
        return real(*words, **more)

    monkeypatch.setattr(NavigatorRecipe, "scores", walk)
    return presses


def finish(run: vln.Run, trained: vln.Run) -> None:
    """Resumed, it has the bits, the scores and the log of a run that nobody interrupted."""
    again = run.resume(**QUIETLY)
    assert not again.interrupted
    assert again.progress == trained.progress
    assert same(weights(again.folder), weights(trained.folder))
    assert same(again.navigator.state_dict(), trained.navigator.state_dict())
    one, other = ([{**line, "time": 0} for line in run.log] for run in (again, trained))
    assert one == other


def said(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("stopping")]


def test_the_update_under_way_is_waited_for(
    data: vln.Data, trained: vln.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = train(data, tmp_path / "run", callbacks=[Interrupting(4)])
    assert said(capfd) == ["stopping after the update under way is saved"]
    assert run.interrupted
    finish(run, trained)


def test_a_validation_that_is_due_is_announced(
    data: vln.Data, trained: vln.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = train(data, tmp_path / "run", callbacks=[Interrupting(2)], report_every=1)
    assert said(capfd) == [
        "stopping after the update under way is saved and validated; another Ctrl-C leaves out the validation"
    ]
    assert run.progress.iteration == 2
    finish(run, trained)


def test_a_validation_is_waited_for(
    data: vln.Data, trained: vln.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str], interrupted_walk: list[int]
) -> None:
    interrupted_walk[0] = 1
    run = train(data, tmp_path / "run")
    assert said(capfd) == [
        "stopping after the validation under way; another Ctrl-C leaves it to whoever resumes the run"
    ]
    assert run.interrupted
    assert run.progress.iteration == 3, "no update more"
    assert run.progress.validated
    finish(run, trained)


@pytest.mark.parametrize("last", [False, True])
def test_a_second_one_leaves_the_validation_to_whoever_resumes(
    data: vln.Data, trained: vln.Run, tmp_path: Path, interrupted_walk: list[int], last: bool
) -> None:
    """Also that of the last update."""
    changes = {"validate_every": 6} if last else {}
    interrupted_walk[0] = 2
    run = train(data, tmp_path / "run", **changes)
    assert run.interrupted
    assert run.progress.iteration == (6 if last else 3)
    assert not run.progress.validated
    if last:
        again = run.resume(**QUIETLY)
        assert again.progress.best_iteration == 6
        assert not again.interrupted
        assert same(weights(again.folder), weights(trained.folder))
    else:
        finish(run, trained)


def test_a_second_one_waits_for_the_update_and_no_longer(
    data: vln.Data, trained: vln.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """All updates since the last checkpoint would be lost otherwise."""
    run = train(data, tmp_path / "run", callbacks=[Interrupting(3, times=2)])
    assert said(capfd) == [
        "stopping after the update under way is saved and validated; another Ctrl-C leaves out the validation",
        "stopping after the update under way is saved; another Ctrl-C ends at once, and loses what is not saved",
    ]
    assert run.interrupted
    assert run.progress.iteration == 3
    assert not run.progress.validated
    finish(run, trained)


def test_a_third_one_ends_at_once(data: vln.Data, trained: vln.Run, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "run", callbacks=[Interrupting(5, times=3)])
    run = vln.open_run(tmp_path / "run")
    assert run.progress.iteration == 3, "the last checkpoint"
    finish(run, trained)


def test_sigterm_leaves_a_validation_under_way_to_whoever_resumes(
    data: vln.Data, trained: vln.Run, tmp_path: Path, interrupted_walk: list[int]
) -> None:
    interrupted_walk[0] = -1
    run = train(data, tmp_path / "run")
    assert (run.interrupted, run.stopped_by) == (True, signal.SIGTERM)
    assert (run.progress.iteration, run.progress.validated) == (3, False)
    interrupted_walk[0] = -1
    again = run.resume(**QUIETLY)
    assert again.interrupted, "also that with which a resumed run begins"
    assert (again.progress.iteration, again.progress.validated) == (3, False)
    finish(run, trained)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("after", [2, 3, 4])
def test_sigterm_waits_for_the_update_alone(
    data: vln.Data, trained: vln.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str], after: int, times: int
) -> None:
    """Once or again: schedulers send it to all processes, and torchrun passes it on."""
    run = train(data, tmp_path / "run", callbacks=[Interrupting(after, times, signal.SIGTERM)])
    assert said(capfd) == [
        "stopping after the update under way is saved; another Ctrl-C ends at once, and loses what is not saved"
    ]
    assert (run.interrupted, run.stopped_by) == (True, signal.SIGTERM)
    assert (run.progress.iteration, run.progress.validated) == (after, after != 3)
    finish(run, trained)


def test_sigterm_after_ctrl_c_leaves_out_the_validation(data: vln.Data, trained: vln.Run, tmp_path: Path) -> None:
    both = [Interrupting(3), Interrupting(3, kind=signal.SIGTERM)]
    run = train(data, tmp_path / "run", callbacks=both)
    assert not run.progress.validated
    finish(run, trained)


def test_ctrl_c_after_sigterm_ends_at_once(data: vln.Data, trained: vln.Run, tmp_path: Path) -> None:
    both = [Interrupting(5, kind=signal.SIGTERM), Interrupting(5)]
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "run", callbacks=both)
    run = vln.open_run(tmp_path / "run")
    assert run.progress.iteration == 3, "the last checkpoint"
    finish(run, trained)


def test_a_signal_just_before_a_validation_leaves_it_out(
    data: vln.Data, trained: vln.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the last question whether to stop has been asked."""
    real = Trainer._validate

    def validate(self: Trainer) -> None:
        signal.raise_signal(signal.SIGTERM)
        real(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_validate", validate)
        run = train(data, tmp_path / "run")
    assert (run.progress.iteration, run.progress.validated) == (3, False)
    finish(run, trained)
