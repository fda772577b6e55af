"""A disk that is full, in the middle of a training: one line, and the last checkpoint is whole."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, called
from tests.learning.samples import same, weights
from tests.processes import spoken_with_room
from vlnbert.learning.runs import resume_run

WORDS = (*TINY, "--training.iterations", "4", "--training.validate-every", "2")


@pytest.fixture(scope="module")
def whole(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("full") / "whole"
    assert called("train", "demo", "--data", house, "--out", run, *WORDS).code == 0
    return run


@pytest.fixture(scope="module")
def stopped(whole: Path) -> Path:
    """A run that stopped after its first update."""
    run = whole.with_name("stopped")
    run.mkdir()
    shutil.copy(whole / "run.json", run)
    trainer = resume_run(run)
    trainer.stopping = True
    trainer.train()
    assert trainer.progress.iteration == 1
    return run


@pytest.fixture
def begun(stopped: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stopped, tmp_path / "begun")


def resumed(run: Path, room: int) -> list[str]:
    """What is said where no file may have more bytes than `room`."""
    code, said = spoken_with_room(room, "train", "--resume", run, "--threads", "1")
    assert code == 2
    return said.splitlines()


def no_room_for_weights(run: Path) -> int:
    return size(run, "model.safetensors") - 1


def no_room_for_moments(run: Path) -> int:
    return size(run, "trainer.safetensors") - 64  # its header, which tells the best score, may become shorter


def no_room_for_lines(run: Path) -> int:
    (run / "log.jsonl").write_text("\n" * size(run, "trainer.safetensors"))
    return size(run, "trainer.safetensors") + 1


def size(run: Path, name: str) -> int:
    return (run / "checkpoints" / "0000001" / name).stat().st_size


CASES = {
    "weights": (no_room_for_weights, "checkpoints/0000002"),
    "moments": (no_room_for_moments, "checkpoints/0000002"),
    "lines": (no_room_for_lines, "log.jsonl"),
}


@pytest.mark.parametrize(("prepare", "where"), CASES.values(), ids=CASES)
def test_a_full_disk_loses_nothing(whole: Path, begun: Path, prepare: Callable[[Path], int], where: str) -> None:
    room, before = prepare(begun), weights(begun)
    lines = [line for line in resumed(begun, room) if not line.startswith("after ")]  # how it went until then
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"vlnbert: {begun / where}: cannot be written (")
    assert "free some space" in lines[0]
    assert same(weights(begun), before)
    assert not [path for path in begun.rglob("*") if path.name.startswith(".")], "nothing is left lying about"
    (begun / "log.jsonl").unlink(missing_ok=True)
    assert called("train", "--resume", begun, "--threads", "1").code == 0
    assert same(weights(begun), weights(whole))
