"""Training from Python: the same bits as by the command line, however it is asked for, stopped and resumed."""

import dataclasses
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT, TINY
from tests.cli.conftest import called
from tests.learning.samples import Watcher, same, weights
from vlnbert.learning.presets import presets
from vlnbert.learning.rewards import REWARDS
from vlnbert.learning.trainer import Trainer
from vlnbert.ranks import RankError
from vlnbert.records import with_changes

ITERATIONS = TINY["iterations"]


def train(data: Any, out: Any, **changes: Any) -> vln.Run:
    return vln.train("demo", data, out, **{**QUIETLY, **TINY, **changes})


def bits(run: vln.Run) -> dict[str, Any]:
    return weights(run.folder)


def test_a_run_leaves_what_it_promised(trained: vln.Run) -> None:
    left = {path.name for path in trained.folder.iterdir()}
    assert {"run.json", "log.jsonl", "tensorboard", "best", "checkpoints", "last.json"} <= left
    assert trained.preset == "demo"
    assert not trained.interrupted
    assert trained.progress.iteration == ITERATIONS == trained.experiment.training.iterations
    assert trained.experiment.navigator.hidden == 16
    assert [line["iteration"] for line in trained.log if "scores" not in line] == list(range(1, ITERATIONS + 1))
    assert [line["iteration"] for line in trained.log if "scores" in line] == [3, 6]
    assert str(trained).startswith(f"{trained.folder}: demo, 6 of 6 updates, best SPL ")
    assert repr(trained) == f"Run({str(trained.folder)!r})"


def test_a_run_is_opened_again(trained: vln.Run) -> None:
    for folder in (trained.folder, str(trained.folder)):
        again = vln.open_run(folder)
        assert again.folder == trained.folder
        assert again.experiment == trained.experiment
        assert again.progress == trained.progress
        assert again.log == trained.log
        assert same(again.navigator.state_dict(), trained.navigator.state_dict())
    assert vln.open_run(trained) is trained


def test_a_run_in_a_notebook_is_a_table(trained: vln.Run) -> None:
    html = trained._repr_html_()
    assert html.count("<tr>") == 3, "a head and two validations"
    assert f"SPL {SPLIT}" in html
    assert "SR r2r/val_unseen" in str(trained.table())


def test_without_logs(data: vln.Data, trained: vln.Run, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", log=False)
    assert not (run.folder / "log.jsonl").exists()
    assert not (run.folder / "tensorboard").exists()
    assert (run.folder / "best").is_dir()
    assert same(bits(run), bits(trained))
    assert run.table().rows == []
    with pytest.raises(vln.DataError, match="no such log; train for a while first, with log=True"):
        _ = run.log


def test_nothing_is_printed_without_a_bar(data: vln.Data, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = train(data, tmp_path / "quiet", iterations=2, validate_every=2)
    vln.evaluate(run, split=SPLIT, out=tmp_path / "results", bar=False)
    assert capfd.readouterr() == ("", "")
    train(data, tmp_path / "loud", iterations=2, validate_every=2, bar=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"after 2 updates, {SPLIT}: SR ")
    assert len(err.splitlines()) == 1


def test_the_command_line_trains_the_same(house: Path, trained: vln.Run, tmp_path: Path) -> None:
    def place(name: str) -> str:
        group = "navigator" if name in ("hidden", "heads", "inner") else "training"
        return f"--{group}.{name}".replace("_", "-")

    words = [word for name, value in TINY.items() for word in (place(name), value)]
    outcome = called("train", "demo", "--data", house, "--out", tmp_path / "run", "--threads", 1, *words)
    assert outcome.code == 0, outcome.err
    by_words = vln.open_run(tmp_path / "run")
    assert same(bits(by_words), bits(trained))
    assert by_words.experiment == trained.experiment
    assert by_words.record.fingerprints == trained.record.fingerprints
    assert [line.get("scores") for line in by_words.log] == [line.get("scores") for line in trained.log]


def asked(how: str, house: Path, out: Path) -> vln.Run:
    """The same training, asked for in another way."""
    experiment = with_changes(presets["demo"].experiment, TINY)
    if how == "text":
        return train(str(house), str(out))
    if how == "path":
        return train(house, out)
    if how == "place":
        group = {"hidden": "navigator", "heads": "navigator", "inner": "navigator"}
        changes = {f"{group.get(name, 'training')}.{name}": value for name, value in TINY.items()}
        return vln.train("demo", house, out, **QUIETLY, **changes)
    if how == "preset":
        return vln.train(presets["demo"], house, out, **QUIETLY, **TINY)
    if how == "experiment":
        return vln.train(experiment, house, out, **QUIETLY)
    if how == "groups":
        return vln.train("demo", house, out, **QUIETLY, training=experiment.training, navigator=experiment.navigator)
    views = house / "features" / "views.hdf5"
    if how == "features":
        return train(house, out, features=views)
    if how == "spec":
        return train(house, out, features=vln.FeatureSpec(views=str(views)))
    return train(vln.open_data(house, features=views), out)


HOWS = ("text", "path", "place", "preset", "experiment", "groups", "features", "spec", "data with features")


@pytest.mark.parametrize("how", HOWS)
def test_however_it_is_asked_for(how: str, house: Path, trained: vln.Run, tmp_path: Path) -> None:
    run = asked(how, house, tmp_path / "run")
    assert same(bits(run), bits(trained))
    assert run.experiment.training == trained.experiment.training
    assert run.preset == ("custom" if how == "experiment" else "demo")


def test_a_text_is_one_of_several(data: vln.Data, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", iterations=1, validate_on="r2r/val_seen", best_on="r2r/val_seen")
    assert run.experiment.validate_on == ("r2r/val_seen",)


def test_callbacks_are_told(data: vln.Data, trained: vln.Run, tmp_path: Path) -> None:
    one, other = Watcher(), Watcher()
    run = train(data, tmp_path / "run", callbacks=[one, other])
    assert list(one.losses) == list(range(1, ITERATIONS + 1))
    assert list(one.scores) == [3, 6]
    assert other.losses == one.losses
    logged = {line["iteration"]: line["total"] for line in run.log if "scores" not in line}
    assert {iteration: parts["total"] for iteration, parts in one.losses.items()} == pytest.approx(logged)
    assert same(bits(run), bits(trained))


class Interrupter(Watcher):
    """Sends itself a signal after an update, as Ctrl-C would."""

    def __init__(self, after: int, kind: signal.Signals = signal.SIGINT) -> None:
        super().__init__()
        self.after, self.kind = after, kind

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        super().updated(iteration, learning_rate, parts)
        if iteration == self.after:
            signal.raise_signal(self.kind)


@pytest.mark.parametrize(("after", "kind"), [(1, signal.SIGINT), (4, signal.SIGTERM)])
def test_interrupted_and_resumed(
    after: int, kind: signal.Signals, data: vln.Data, trained: vln.Run, tmp_path: Path
) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    run = train(data, tmp_path / "run", callbacks=[Interrupter(after, kind)])
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert (run.interrupted, run.stopped_by) == (True, kind)
    assert run.progress.iteration == after
    assert not same(bits(run), bits(trained))
    again = run.resume(**QUIETLY)
    assert (again.interrupted, again.stopped_by) == (False, None)
    assert again.progress == trained.progress
    assert same(bits(again), bits(trained))
    assert [line.get("total") for line in again.log] == [line.get("total") for line in trained.log]
    assert not run.resume(**QUIETLY).interrupted, "there is nothing left to do"


def test_resumed_elsewhere(house: Path, trained: vln.Run, tmp_path: Path) -> None:
    """Run and data were moved."""
    shutil.copytree(house, tmp_path / "here")
    run = train(tmp_path / "here", tmp_path / "run", callbacks=[Interrupter(2)])
    (tmp_path / "here").rename(tmp_path / "there")
    run.folder.rename(tmp_path / "moved")
    again = vln.resume(tmp_path / "moved", data=str(tmp_path / "there"), **QUIETLY)
    assert same(bits(again), bits(trained))


def test_interrupted_at_its_end(data: vln.Data, trained: vln.Run, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", callbacks=[Interrupter(ITERATIONS)])
    assert not run.interrupted
    assert same(bits(run), bits(trained))


def test_in_a_thread(data: vln.Data, trained: vln.Run, tmp_path: Path) -> None:
    """Where no signal handler may be set."""
    found: list[vln.Run] = []
    handlers = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: found.append(train(data, tmp_path / "run")))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is handlers
    assert same(bits(found[0]), bits(trained))


def test_other_features_are_seen(house: Path, tmp_path: Path, write_features: Callable[..., Path]) -> None:
    """Features that the data names are trained on and kept, and evaluating needs not name them again."""
    import torch

    world = vln.open_data(house).world
    generator = torch.Generator().manual_seed(0)
    features = {
        (world.scans[int(world.scan_of[number])], name): torch.rand(36, 5, generator=generator).numpy()
        for number, name in enumerate(world.viewpoints)
    }
    other = write_features(tmp_path / "other.hdf5", features)
    run = train(vln.open_data(house, features=other), tmp_path / "run")
    assert run.experiment.features.views == str(other)
    assert run.navigator.config.feature_width == 5
    plain = vln.evaluate(run, split=SPLIT, bar=False).scores
    named = vln.evaluate(run, vln.open_data(house, features=other), SPLIT, bar=False).scores
    moved = other.rename(tmp_path / "moved.hdf5")
    assert plain == named == vln.evaluate(run, house, SPLIT, features=moved, bar=False).scores
    assert vln.evaluate(run, vln.open_data(house, features=moved), SPLIT, bar=False).scores == plain
    assert vln.report(run, tmp_path / "report.html", vln.open_data(house, features=moved), bar=False).is_file()
    with pytest.raises(vln.DataError, match=r"other.hdf5: no such feature file; "):
        vln.evaluate(run, split=SPLIT, bar=False)


def test_an_experiment_keeps_its_own_features(trained: vln.Run) -> None:
    assert trained.experiment.features == vln.FeatureSpec()
    assert dataclasses.asdict(trained.experiment) == dataclasses.asdict(vln.open_run(trained.folder).experiment)


class Refusing(Watcher):
    """Raises after some updates."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        if iteration == self.after:
            raise vln.UsageError("enough")


@pytest.fixture
def failing() -> Iterator[list[Path]]:
    """The name of a reward that fails in the first update; it writes notes in the folders that the list is given."""
    folders = list[Path]()

    def fail(*_: object) -> None:
        for folder in folders:
            (folder / "notes.txt").write_text("keep")
        raise RuntimeError("no reward")

    REWARDS.register("failing", fail)
    yield folders
    del REWARDS._things["failing"], REWARDS._homes["failing"]


def test_what_never_learned_leaves_nothing(data: vln.Data, tmp_path: Path, failing: list[Path]) -> None:
    with pytest.raises(RuntimeError, match="no reward"):
        train(data, tmp_path / "run", reward="failing", tensorboard=True)
    assert not (tmp_path / "run").exists()
    (tmp_path / "made").mkdir()
    with pytest.raises(RuntimeError, match="no reward"):
        train(data, tmp_path / "made", reward="failing")
    assert list((tmp_path / "made").iterdir()) == [], "a folder that was there stays"


def test_a_process_that_is_lost_at_once_leaves_the_run(
    data: vln.Data, trained: vln.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line says how to resume it."""

    def lose(*_: object) -> None:
        raise RankError("another process of this training has ended")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", lose)
        with pytest.raises(RankError, match="has ended"):
            train(data, tmp_path / "run")
    assert same(bits(vln.resume(tmp_path / "run", **QUIETLY)), bits(trained))


def test_no_signal_comes_between_a_run_and_its_removal(
    data: vln.Data, tmp_path: Path, failing: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchrun terminates the others as soon as one has failed."""
    real = shutil.rmtree

    def signalled(path: Path, ignore_errors: bool = False) -> None:
        assert not (tmp_path / "run" / "run.json").exists(), "what is killed here is no run that cannot be resumed"
        signal.raise_signal(signal.SIGINT)
        real(path, ignore_errors=ignore_errors)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", signalled)
        with pytest.raises(RuntimeError, match="no reward"):
            train(data, tmp_path / "run", reward="failing")
    assert not (tmp_path / "run").exists()


def test_files_of_others_stay(data: vln.Data, tmp_path: Path, failing: list[Path]) -> None:
    """Also where the run's folder is a link."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    failing += [tmp_path / "there"]
    with pytest.raises(RuntimeError, match="no reward"):
        train(data, tmp_path / "link", reward="failing")
    assert (tmp_path / "link").is_symlink()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["notes.txt"]


def test_a_failure_before_the_first_checkpoint_leaves_no_run(
    data: vln.Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the third update, as where a GPU begins to record; files that others put into its folders stay."""
    advance, run, updates = Trainer.advance, tmp_path / "run", list[int]()

    def failing_third(trainer: Trainer, iteration: int) -> None:
        updates.append(iteration)
        if iteration == 2:
            assert (run / "checkpoints" / "0000000").is_dir(), "the initial weights"
            assert {path.name for path in run.iterdir()} >= {"run.json", "last.json", "log.jsonl", "tensorboard"}
            for path in others:
                path.write_text("keep")
            raise RuntimeError("waits for the device")
        advance(trainer, iteration)

    monkeypatch.setattr(Trainer, "advance", failing_third)
    for others in ([], [run / place / "notes.txt" for place in (".", "checkpoints", "tensorboard")]):
        with pytest.raises(RuntimeError, match="waits for the device"):
            train(data, run, validate_every=6, report_every=1, log=True, tensorboard=True)
        assert sorted(path for path in run.rglob("*") if path.is_file()) == sorted(others)
        assert run.exists() == bool(others)
    assert updates == [0, 1, 2, 0, 1, 2]


def test_what_was_saved_stays(data: vln.Data, tmp_path: Path) -> None:
    with pytest.raises(vln.UsageError, match="enough"):
        train(data, tmp_path / "run", callbacks=[Refusing(4)], validate_every=3, tensorboard=True)
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left >= {"run.json", "last.json", "checkpoints", "tensorboard"}
    assert (tmp_path / "run" / "checkpoints" / "0000003").is_dir()
    assert vln.resume(tmp_path / "run", **QUIETLY).progress.iteration == ITERATIONS


def test_a_saved_preset_trains(data: vln.Data, trained: vln.Run, tmp_path: Path) -> None:
    """It says all settings, also of what R2R does not show and of sizes that the data decides."""
    saved = vln.save_experiment(presets["demo"], tmp_path / "saved.json")
    run = vln.train(saved, data, tmp_path / "run", **QUIETLY, **TINY)
    assert same(bits(run), bits(trained))
