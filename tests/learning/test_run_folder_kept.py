"""Checkpoints before the newest: how many are kept, what they are good for, and what is never removed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.learning.samples import CONFIG, SCORED, SHAPE, same, weights
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.learning.callbacks import JsonLog
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.run_folder import last_checkpoint, read_log, read_progress
from vlnbert.learning.runs import begin_run, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator
from vlnbert.sources.writing import replaced, temporary_name

TRAINING = replace(CONFIG, iterations=6)


def experiment(training: TrainConfig = TRAINING) -> Experiment:
    return Experiment(validate_on=(SCORED,), navigator=SHAPE, training=training)


def logged(trainer: Trainer) -> Trainer:
    trainer.callbacks = [JsonLog(trainer.run / "log.jsonl")]
    return trainer


@pytest.fixture(scope="module", params=[0.0, 0.9], ids=["plain", "averaged"])
def whole(request: pytest.FixtureRequest, house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    run = tmp_path_factory.mktemp("kept") / "whole"
    logged(begin_run("mine", experiment(replace(TRAINING, ema=request.param)), open_data(house), run)).train()
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(whole, tmp_path / "run")


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def lines(run: Path) -> list[dict[str, object]]:
    return [{**line, "time": 0} for line in read_log(run / "log.jsonl")]


def check_same(run: Path, whole: Path) -> None:
    """Weights, the best ones, moments, progress and log, to the last bit."""
    assert same(weights(run), weights(whole))
    assert same(*(Navigator.from_pretrained(folder / "best").state_dict() for folder in (run, whole)))
    assert read_progress(run) == read_progress(whole)
    for path in last_checkpoint(whole).iterdir():
        assert path.read_bytes() == (last_checkpoint(run) / path.name).read_bytes(), path.name
    assert lines(run) == lines(whole)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(("keep", "left"), [(1, 1), (2, 2), (9, 4)])
def test_as_many_are_kept_as_was_said(house: Path, tmp_path: Path, keep: int, left: int) -> None:
    begin_run("mine", experiment(replace(TRAINING, keep=keep)), open_data(house), tmp_path / "run").train()
    assert names(tmp_path / "run") == ["0000000", "0000002", "0000004", "0000006"][-left:]
    pointer = json.loads((tmp_path / "run" / "last.json").read_text())
    assert pointer["kept"] == names(tmp_path / "run")[::-1]


def test_two_are_kept_by_default() -> None:
    assert TrainConfig().keep == 2
    with pytest.raises(UsageError, match="keep is 0; choose 1 to"):
        TrainConfig(keep=0)


FILES = ("model.safetensors", "trainer.safetensors", "config.json", "tokenizer.json", "digests.json")


@pytest.mark.parametrize("name", FILES)
def test_where_the_newest_is_damaged_the_one_before_serves(house: Path, whole: Path, run: Path, name: str) -> None:
    """One bit of it is another; what is made again has the bits of a run that nothing happened to."""
    flip(last_checkpoint(run) / name)
    said = list[str]()
    one = resume_run(run, open_data(house), tell=said.append)
    assert len(said) == 1
    assert said[0].startswith(f"{run / 'checkpoints' / '0000006'}")
    assert said[0].endswith("; going on from the checkpoint before, after 4 updates")
    assert one.progress.iteration == 4
    logged(one).train()
    check_same(run, whole)
    assert names(run) == names(whole)
    said.clear()
    resume_run(run, open_data(house), tell=said.append)
    assert said == []


def test_one_that_is_gone_is_as_one_that_is_damaged(house: Path, whole: Path, run: Path) -> None:
    shutil.rmtree(last_checkpoint(run))
    said = list[str]()
    one = resume_run(run, open_data(house), tell=said.append)
    assert said == [
        f"{run / 'checkpoints' / '0000006'}: the checkpoint is missing; "
        "going on from the checkpoint before, after 4 updates"
    ]
    logged(one).train()
    check_same(run, whole)


def test_a_kill_right_after_changes_nothing(house: Path, whole: Path, run: Path) -> None:
    flip(last_checkpoint(run) / "model.safetensors")
    resume_run(run, open_data(house))
    assert last_checkpoint(run).name == "0000004"
    best = read_progress(run).best_iteration
    assert best == read_progress(whole).best_iteration, "as best/ holds it, be it newer than the checkpoint"
    logged(resume_run(run, open_data(house))).train()
    check_same(run, whole)


def test_a_stop_before_it_is_made_again(house: Path, whole: Path, run: Path) -> None:
    """The next checkpoint may know of best weights that are newer than it."""
    flip(last_checkpoint(run) / "model.safetensors")
    one = logged(resume_run(run, open_data(house)))
    one.stopping = True
    one.train()
    assert last_checkpoint(run).name == "0000005"
    logged(resume_run(run, open_data(house))).train()
    check_same(run, whole)


def test_one_that_was_not_validated_yet_may_be_damaged_too(house: Path, whole: Path, run: Path) -> None:
    """The pointer tells of no validation then, and the one before is validated again."""
    pointer = json.loads((run / "last.json").read_text())
    (run / "last.json").write_text(json.dumps({"checkpoint": pointer["checkpoint"]}))
    flip(last_checkpoint(run) / "model.safetensors")
    one = resume_run(run, open_data(house))
    assert not one.progress.validated
    logged(one).train()
    check_same(run, whole)


def test_where_all_are_damaged_the_newest_is_told(house: Path, run: Path) -> None:
    for name in names(run):
        flip(run / "checkpoints" / name / "model.safetensors")
    with pytest.raises(DataError, match=r"0000006/model\.safetensors: .*by its digest"):
        resume_run(run, open_data(house))
    assert names(run) == ["0000004", "0000006"]


def linked(run: Path, shelf: Path) -> Path:
    """The run's checkpoints on a shelf where others' lie too, behind a link."""
    (run / "checkpoints").rename(shelf)
    (run / "checkpoints").symlink_to(shelf)
    for name in ("0000001", "0000003", "0000099", "0000098.old", "0000097.new"):
        shutil.copytree(last_checkpoint(run), shelf / name)
    (shelf / "notes.txt").write_text("mine")
    return shelf


OTHERS = {"0000001", "0000003", "0000099", "0000098.old", "0000097.new", "notes.txt"}


def stopped(house: Path, run: Path) -> Path:
    """A run that was stopped after 4 updates of 6."""
    one = logged(begin_run("mine", experiment(), open_data(house), run))
    one.advanced = lambda iteration: setattr(one, "stopping", iteration == 4)
    one.train()
    return run


def test_behind_a_link_nothing_of_others_is_removed(house: Path, tmp_path: Path) -> None:
    run = stopped(house, tmp_path / "run")
    shelf = linked(run, tmp_path / "shelf")
    logged(resume_run(run, open_data(house))).train()
    assert {path.name for path in shelf.iterdir()} == {*OTHERS, "0000004", "0000006"}, "its own are, as elsewhere"
    assert last_checkpoint(run).name == "0000006"


def test_behind_a_link_what_another_writes_stays(house: Path, tmp_path: Path) -> None:
    run = stopped(house, tmp_path / "run")
    shelf = linked(run, tmp_path / "shelf")
    left = temporary_name(shelf / "0000008")
    left.mkdir()
    with replaced(shelf / "0000007") as beside:
        resume_run(run, open_data(house))
        assert beside.exists()
    assert not left.exists(), "of a process that was killed"
    assert (shelf / "0000007").exists()


def test_behind_a_link_another_runs_checkpoint_is_not_replaced(house: Path, tmp_path: Path) -> None:
    run = stopped(house, tmp_path / "run")
    shelf = linked(run, tmp_path / "shelf")
    other = shutil.copytree(shelf / "0000099", shelf / "0000006")
    before = {path: path.read_bytes() for path in other.iterdir()}
    problem = r"0000006: is there already, and may be another run's, since .*checkpoints is a link; move it away"
    with pytest.raises(DataError, match=problem):
        logged(resume_run(run, open_data(house))).train()
    assert {path: path.read_bytes() for path in other.iterdir()} == before
    assert last_checkpoint(run).name == "0000004"
    other.rename(tmp_path / "away")
    logged(resume_run(run, open_data(house))).train()
    assert last_checkpoint(run).name == "0000006"


def test_behind_a_link_one_that_holds_the_same_is_its_own(house: Path, whole: Path, run: Path, tmp_path: Path) -> None:
    """As where it was killed before its pointer was moved."""
    newest = shutil.copytree(last_checkpoint(run), tmp_path / "newest")
    shutil.rmtree(last_checkpoint(run))
    one = resume_run(run, open_data(house))
    (run / "checkpoints").rename(tmp_path / "shelf")
    (run / "checkpoints").symlink_to(tmp_path / "shelf")
    newest.rename(tmp_path / "shelf" / "0000006")
    logged(one).train()
    check_same(run, whole)


def test_behind_a_link_a_lost_pointer_is_not_guessed(house: Path, tmp_path: Path) -> None:
    run = stopped(house, tmp_path / "run")
    shelf = linked(run, tmp_path / "shelf")
    (run / "last.json").unlink()
    with pytest.raises(
        DataError, match=r"last\.json: is missing, and .*checkpoints is a link, so that what lies there"
    ):
        resume_run(run, open_data(house))
    assert {path.name for path in shelf.iterdir()} == {*OTHERS, "0000002", "0000004"}


@pytest.mark.parametrize("updates", [1, 3, 4, 5])
def test_a_stop_between_two_reports_leaves_no_trace_in_the_log(house: Path, tmp_path: Path, updates: int) -> None:
    """Its losses are told with those that come after, as if nothing had been."""
    training = replace(TRAINING, report_every=4, validate_every=6, accumulate=2)
    logged(begin_run("mine", experiment(training), open_data(house), tmp_path / "whole")).train()
    one = logged(begin_run("mine", experiment(training), open_data(house), tmp_path / "run"))
    one.advanced = lambda iteration: setattr(one, "stopping", iteration == updates)
    one.train()
    assert last_checkpoint(tmp_path / "run").name == f"{updates:07d}"
    logged(resume_run(tmp_path / "run", open_data(house))).train()
    assert lines(tmp_path / "run") == lines(tmp_path / "whole")
    check_same(tmp_path / "run", tmp_path / "whole")
