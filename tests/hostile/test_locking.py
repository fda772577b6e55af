"""Two trainings, one folder: the second writes nothing and says one line, whenever it comes."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
import vlnbert.api.training
import vlnbert.learning.runs
from tests.api.conftest import QUIETLY, TINY
from tests.learning.samples import same, weights
from vlnbert.learning.navigator_recipe import NavigatorRecipe


def train(data: Any, out: Path, **changes: Any) -> vln.Run:
    return vln.train("demo", data, out, **{**QUIETLY, **TINY, **changes})


def meanwhile(work: Callable[[], object]) -> list[str]:
    """What somebody else says to some work at this moment; a thread is as good as a process to the lock."""
    said = list[str]()

    def run() -> None:
        try:
            work()
            said.append("done")
        except vln.VlnbertError as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return said


def interrupt_with(monkeypatch: pytest.MonkeyPatch, place: str, work: Callable[[], object]) -> list[str]:
    """Let somebody else do some work just before a step of a run's beginning; what they said."""
    module, name = place.rsplit(".", 1)
    homes = {"runs": vlnbert.learning.runs, "training": vlnbert.api.training, "recipe": NavigatorRecipe}
    home: Any = homes[module]
    real, said, busy = getattr(home, name), list[str](), threading.Lock()

    def step(*words: Any, **more: Any) -> Any:
        if busy.acquire(blocking=False):  # the other comes through here too
            said.extend(meanwhile(work))
        return real(*words, **more)

    monkeypatch.setattr(home, name, step)
    return said


STEPS = ("runs.fingerprints", "recipe.initial", "recipe.make_trainer", "runs.write_record", "training._train")


@pytest.mark.parametrize("step", STEPS)
def test_who_comes_second_writes_nothing(
    data: vln.Data, trained: vln.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    out = tmp_path / "run"
    said = interrupt_with(monkeypatch, step, lambda: train(data, out, seed=5, iterations=9))
    run = train(data, out)
    assert said == [f"{out}: is in use by another process; wait for it to end, or choose another folder"]
    assert run.experiment == trained.experiment, "run.json says what was trained"
    assert same(weights(out), weights(trained.folder))


def test_a_longer_run_is_kept_from_the_record_to_the_end(
    data: vln.Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    train(data, out, schedule="constant")
    copy = shutil.copytree(out, tmp_path / "copy")
    with monkeypatch.context() as patch:
        said = interrupt_with(patch, "training._train", lambda: vln.resume(out, data, iterations=9, **QUIETLY))
        run = vln.resume(out, data, iterations=7, **QUIETLY)
    assert said == [f"{out}: is in use by another process; wait for it to end, or choose another folder"]
    assert run.progress.iteration == run.experiment.training.iterations == 7
    vln.resume(copy, data, iterations=7, **QUIETLY)
    assert same(weights(out), weights(copy))


def test_who_comes_after_the_end_is_told_of_the_run(data: vln.Data, tmp_path: Path) -> None:
    train(data, tmp_path / "run", iterations=1)
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(vln.DataError, match="holds a run of demo; resume it with"):
        train(data, tmp_path / "run", seed=5)
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_what_cannot_begin_leaves_no_lock(data: vln.Data, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.txt").touch()
    for name, problem in {"used": "the folder is not empty", "new/deep": "withholds its goals"}.items():
        with pytest.raises(vln.VlnbertError, match=problem):
            train(data, tmp_path / name, train_on="r2r/test")
    assert not (tmp_path / "new").exists()
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["thesis.txt"]


LINKED = {"lock": "is a link, a pipe", "log.jsonl": "is a link, a pipe", "tensorboard": "is a link or a file"}


@pytest.mark.parametrize("name", LINKED)
def test_links_in_a_runs_folder_lead_nowhere(data: vln.Data, trained: vln.Run, tmp_path: Path, name: str) -> None:
    """They would empty their target, or write to it."""
    out = shutil.copytree(trained.folder, tmp_path / "run")
    target = tmp_path / "target"
    if name == "tensorboard":
        shutil.rmtree(out / name)
        target.mkdir()
    else:
        (out / name).unlink()
        target.write_text("keep")
    for folder in ("checkpoints", "best"):
        shutil.rmtree(out / folder)
    (out / "last.json").unlink()
    (out / name).symlink_to(target)
    with pytest.raises(vln.DataError, match=f"{name}: {LINKED[name]}.* move it away$"):
        vln.resume(out, data, **{**QUIETLY, "tensorboard": True})
    assert list(target.iterdir()) == [] if name == "tensorboard" else target.read_text() == "keep"
