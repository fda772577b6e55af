"""What a kill leaves in a run's folder: swept, said, validated and gone on from, to the same bits."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import vlnbert as vln
import vlnbert.learning.navigator_recipe
import vlnbert.learning.run_folder
import vlnbert.learning.trainer
import vlnbert.navigator.storage.navigator
from tests.learning.samples import CONFIG, SCORED, SHAPE, Watcher, same, trainer, weights
from tests.processes import together
from vlnbert.api.runs import load_agent
from vlnbert.data.data import open_data
from vlnbert.errors import DataError
from vlnbert.evaluation.metrics import Summary
from vlnbert.learning import run_folder
from vlnbert.learning.callbacks import JsonLog, read_log
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.navigator_recipe import NavigatorRecipe, own_navigator
from vlnbert.learning.run_folder import Progress, best_weights, last_checkpoint, read_progress
from vlnbert.learning.runs import begin_run, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.ranks import Ranks
from vlnbert.sources.writing import aside, temporary_name

TRAINING = replace(CONFIG, iterations=6)
EXPERIMENT = Experiment(validate_on=(SCORED,), navigator=SHAPE, training=TRAINING)
AVERAGED = replace(EXPERIMENT, training=replace(TRAINING, ema=0.9))


class Killed(BaseException):
    """As if the process ended here: nothing handles it."""


def logged(trainer: Trainer) -> Trainer:
    trainer.callbacks = [JsonLog(trainer.run / "log.jsonl")]
    return trainer


@pytest.fixture(scope="module", params=[EXPERIMENT, AVERAGED], ids=["plain", "averaged"])
def whole(request: pytest.FixtureRequest, house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    run = tmp_path_factory.mktemp("leftovers") / "whole"
    logged(begin_run("mine", request.param, open_data(house), run)).train()
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(whole, tmp_path / "run")


def told(run: Path) -> list[dict[str, object]]:
    return [{name: value for name, value in line.items() if name != "time"} for line in read_log(run / "log.jsonl")]


def check_same(run: Path, whole: Path) -> None:
    """Weights, the best ones, moments, progress and log, to the last bit; and nothing else."""
    assert same(weights(run), weights(whole))
    assert same(*(Navigator.from_pretrained(folder / "best").state_dict() for folder in (run, whole)))
    assert read_progress(run) == read_progress(whole)
    for name in ("trainer.safetensors", "model.safetensors"):
        assert (last_checkpoint(run) / name).read_bytes() == (last_checkpoint(whole) / name).read_bytes()
    assert told(run) == told(whole)
    left, expected = (sorted(str(path.relative_to(one)) for path in one.rglob("*")) for one in (run, whole))
    assert left == expected


def begun(house: Path, whole: Path, run: Path) -> Trainer:
    """The same run, before its first update."""
    run.mkdir()
    shutil.copy(whole / "run.json", run)
    return logged(resume_run(run, open_data(house)))


def kill_validation(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """End the process when a part of a validation is reached for the `number`th time."""
    home = NavigatorRecipe if name == "scores" else vlnbert.learning.trainer
    real, calls = getattr(home, name), list[object]()

    def call(*words: object, **more: object) -> object:
        calls.append(None)
        if len(calls) == number:
            raise Killed
        return real(*words, **more)

    monkeypatch.setattr(home, name, call)


@pytest.mark.parametrize("part", ["scores", "save_trained", "point_to"])
def test_what_was_saved_is_validated_by_whoever_resumes(
    house: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The first validation is cut: before it, before its best weights are kept, and before it is noted."""
    run = tmp_path / "run"
    one = begun(house, whole, run)
    kill_validation(monkeypatch, part, 1)
    with pytest.raises(Killed):
        one.train()
    monkeypatch.undo()
    assert last_checkpoint(run).name == "0000002", "saved before it was validated"
    assert not read_progress(run).validated
    again, watcher = logged(resume_run(run, open_data(house))), Watcher()
    again.callbacks = [*again.callbacks, watcher]
    again.train()
    assert list(watcher.scores) == [2, 4, 6]
    assert list(watcher.losses) == [3, 4, 5, 6], "no update is made twice"
    check_same(run, whole)


def test_what_was_validated_is_not_validated_again(
    house: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(house, whole, tmp_path / "run")
    kill_validation(monkeypatch, "save_checkpoint", 3)  # those after 0 and 2 updates are saved
    with pytest.raises(Killed):
        one.train()
    monkeypatch.undo()
    assert read_progress(tmp_path / "run").validated
    again, watcher = logged(resume_run(tmp_path / "run", open_data(house))), Watcher()
    again.callbacks = [*again.callbacks, watcher]
    again.train()
    assert list(watcher.scores) == [4, 6]
    check_same(tmp_path / "run", whole)


def cut_in_its_validation(ranks: Ranks, house: Path, folder: Path, config: TrainConfig) -> tuple[list[int], Progress]:
    """A rank that is killed in the first validation with the others, and resumed with them."""
    real, run = NavigatorRecipe.scores, folder / "cut"

    def kill(*_: object, **more: object) -> None:
        raise Killed

    NavigatorRecipe.scores = kill
    with pytest.raises(Killed):
        trainer(house, run, config, ranks).train()
    NavigatorRecipe.scores = real
    ranks.wait()  # as a new start of all does
    again, watcher = trainer(house, run, config, ranks), Watcher()
    again.resume()
    ranks.wait()
    again.callbacks = [watcher]
    again.train()
    trainer(house, folder / "whole", config, ranks).train()
    return list(watcher.scores), again.progress


def test_ranks_validate_together_what_was_saved(house: Path, tmp_path: Path) -> None:
    config = replace(TRAINING, ema=0.9, iterations=4)
    (one, progress), (other, their_progress) = together(2, tmp_path, cut_in_its_validation, house, tmp_path, config)
    assert one == other == [2, 4]
    assert progress == their_progress == read_progress(tmp_path / "whole")
    assert same(weights(tmp_path / "cut"), weights(tmp_path / "whole"))


def test_a_watcher_that_breaks_takes_no_checkpoint_with_it(house: Path, whole: Path, tmp_path: Path) -> None:
    class Breaking(Watcher):
        def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
            raise RuntimeError

    one = begun(house, whole, tmp_path / "run")
    one.callbacks = [*one.callbacks, Breaking()]
    with pytest.raises(RuntimeError):
        one.train()
    assert last_checkpoint(tmp_path / "run").name == "0000002"
    logged(resume_run(tmp_path / "run", open_data(house))).train()
    check_same(tmp_path / "run", whole)


def test_what_was_left_half_done_is_swept(house: Path, run: Path, whole: Path) -> None:
    """By whoever resumes, and also if there is nothing left to do. Files of others stay."""
    for path in (run / "best", run / "checkpoints" / "0000008", run / "checkpoints" / "0000008.new"):
        beside = temporary_name(path)
        beside.mkdir()
        (beside / "model.safetensors").write_bytes(b"half")
    for path in (run / "last.json", run / "run.json"):
        temporary_name(path).write_text("half")
    shutil.copytree(last_checkpoint(run), run / "checkpoints" / "0000002")  # older than those that are kept
    shutil.copytree(last_checkpoint(run), run / "checkpoints" / "0000007")  # the pointer was not moved yet
    shutil.copytree(run / "best", run / "best.new")
    shutil.copytree(run / "best", aside(run / "best"))
    others = temporary_name(run / "report.html")
    others.write_text("of another process")
    resume_run(run, open_data(house)).train()
    others.unlink()
    check_same(run, whole)


def test_a_beginning_that_was_killed_is_no_obstacle(house: Path, tmp_path: Path) -> None:
    """Between the lock and the record, or while that was written."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "lock").touch()
    temporary_name(run / "run.json").write_text("{")
    begin_run("mine", EXPERIMENT, open_data(house), run)
    assert sorted(path.name for path in run.iterdir()) == ["lock", "run.json"]


def test_a_best_that_was_put_aside_is_found(run: Path) -> None:
    """Where a file system needs two moves, a kill may come between them."""
    (run / "best").rename(aside(run / "best"))
    assert best_weights(run) == aside(run / "best")


def test_a_lost_pointer_is_told_and_the_newest_checkpoint_used(house: Path, run: Path, whole: Path) -> None:
    (run / "last.json").unlink()
    said = list[str]()
    one = resume_run(run, open_data(house), tell=said.append)
    assert said == [f"{run / 'last.json'} is missing; going on from the newest checkpoint, after 6 updates"]
    assert one.progress.iteration == 6
    logged(one).train()
    check_same(run, whole)


def move_on(run: Path, checkpoint: Path) -> None:
    """What a training does meanwhile: the pointer is moved, and the checkpoint that it named is removed."""
    newer = run / "checkpoints" / "0000008"
    if checkpoint.name == "0000006" and checkpoint.is_dir():
        shutil.copytree(checkpoint, newer)
        run_folder.point_to(run, newer, keep=1)
        shutil.rmtree(checkpoint)


def test_how_far_a_run_is_can_be_asked_while_it_goes_on(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks, the checkpoint may go."""
    real = run_folder._saved_progress

    def read(checkpoint: Path) -> Progress:
        move_on(run, checkpoint)
        return real(checkpoint)

    monkeypatch.setattr(run_folder, "_saved_progress", read)
    assert read_progress(run).iteration == 6, "as the copy says"


READERS: dict[str, Callable[[Path], Navigator]] = {
    "open_run": lambda run: vln.open_run(run).navigator,
    "evaluate": lambda run: load_agent(run).agent.trained,
    "evaluate --checkpoint last": lambda run: load_agent(run, "last").agent.trained,
    "--start": lambda run: run_folder.while_trained(run, own_navigator),
}


@pytest.mark.parametrize("reader", READERS)
def test_weights_can_be_read_while_the_run_goes_on(run: Path, monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    """Nothing was validated yet, so that the last checkpoint is read; it goes when its first file is opened."""
    shutil.rmtree(run / "best")
    expected, real = weights(run), vlnbert.navigator.storage.navigator.read_config

    def read(path: Path) -> NavigatorConfig:
        move_on(run, path.parent)
        return real(path)

    monkeypatch.setattr(vlnbert.navigator.storage.navigator, "read_config", read)
    assert same(READERS[reader](run).state_dict(), expected)
    assert last_checkpoint(run).name == "0000008"


def test_the_pointer_may_move_before_its_checkpoint_is_looked_for(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = run_folder._read_pointer

    def read(run: Path) -> dict[str, object]:
        pointer = real(run)
        move_on(run, run / "checkpoints" / str(pointer["checkpoint"]))
        return pointer

    monkeypatch.setattr(run_folder, "_read_pointer", read)
    assert last_checkpoint(run).name == "0000008"


def test_a_lost_pointer_beside_a_damaged_checkpoint(house: Path, run: Path) -> None:
    (run / "last.json").unlink()
    path = last_checkpoint(run) / "trainer.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    older = run / "checkpoints" / "0000004"
    assert last_checkpoint(run) == older
    shutil.rmtree(older)
    with pytest.raises(DataError, match=r"checkpoints: holds no whole checkpoint, and last.json is missing; begin the"):
        resume_run(run, open_data(house))


def test_a_run_without_any_checkpoint_says_that_it_begins(house: Path, run: Path, whole: Path) -> None:
    for name in ("checkpoints", "best"):
        shutil.rmtree(run / name)
    (run / "last.json").unlink()
    said = list[str]()
    one = resume_run(run, open_data(house), tell=said.append)
    assert said == [f"{run} holds no checkpoint; it begins with its first update"]
    logged(one).train()
    check_same(run, whole)


DAMAGES: dict[str, tuple[Callable[[dict[str, object]], object], str]] = {
    "no progress": (lambda pointer: pointer.update(progress=[]), r"is damaged \(Progress is \[\], where"),
    "a text": (lambda pointer: pointer["progress"].update(iteration="6"), r"is damaged \(iteration is '6'"),
    "lacking": (lambda pointer: pointer["progress"].pop("iteration"), "is damaged"),
    "another update": (lambda pointer: pointer["progress"].update(iteration=5), "tells of update 5, its checkpoint"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_pointer_that_tells_of_something_else_is_refused(house: Path, run: Path, kind: str) -> None:
    damage, expected = DAMAGES[kind]
    pointer = json.loads((run / "last.json").read_text())
    del pointer["digest"]  # as in older ones
    damage(pointer)
    (run / "last.json").write_text(json.dumps(pointer))
    with pytest.raises(DataError, match=rf"last.json: {expected}.*; begin the training anew"):
        resume_run(run, open_data(house))


def test_a_pointer_that_was_changed_is_told(house: Path, run: Path) -> None:
    pointer = json.loads((run / "last.json").read_text())
    assert pointer["progress"]["best"] is not None
    (run / "last.json").write_text(json.dumps({**pointer, "progress": {**pointer["progress"], "best": 0.99}}))
    with pytest.raises(DataError, match=r"last\.json: is not as it was written; remove it to go on from the newest"):
        resume_run(run, open_data(house))
    del pointer["digest"]
    (run / "last.json").write_text(json.dumps(pointer))
    assert resume_run(run, open_data(house)).progress.best == pointer["progress"]["best"], "older ones have no digest"
