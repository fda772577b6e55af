"""Disks that are full, in a training and for every verb that writes: one line, nothing half-written, room mends it."""

import ctypes
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, called
from tests.hostile import full_disks
from tests.learning.samples import same, weights
from tests.processes import limit_files, spoken_with_room
from vlnbert.errors import DataError
from vlnbert.learning.run_folder import save_trained
from vlnbert.learning.runs import resume_run
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.tasks.tokens import load_tokenizer


@pytest.mark.slow
def test_a_full_disk_costs_nothing_that_was_trained(tmp_path: Path) -> None:
    found = full_disks.at_operations(tmp_path / "work", seed=0, count=5)
    assert len(found) == 5
    assert [one for one in found if one.fault] == []


WORDS = (*TINY, "--training.iterations", "2", "--training.validate-every", "2", "--threads", "1")
NAVIGATOR = NavigatorConfig(
    hidden=4, heads=2, inner=8, layers=1, vocabulary=20_000, positions=8, feature_width=4, angle_width=4, critic_width=4
)


@contextmanager
def limited(room: int) -> Iterator[None]:
    """Within the block no file of this process may have more bytes than `room`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    bytecode = sys.dont_write_bytecode
    limit_files(room)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = bytecode


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def run(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("full") / "run"
    assert called("train", "demo", "--data", house, "--out", path, *WORDS).code == 0
    return path


def test_a_house(tmp_path: Path) -> None:
    words = ("house", tmp_path / "house", "--scans", 3)
    code, said = spoken_with_room(300_000, *words)  # more than any document has, and less than the features
    lines = said.splitlines()
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith(f"vlnbert: {tmp_path / 'house'}: cannot be written (File too large); free some space")
    assert left(tmp_path) == []
    assert called(*words).code == 0


@pytest.mark.parametrize("ending", ["svg", "png", "pdf", "ps"])
def test_curves(run: Path, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"curves.{ending}"
    with limited(100):
        outcome = called("curves", run, "--out", target)
    words = f"vlnbert: {target}: cannot be written (File too large); free some space or choose another folder"
    assert (outcome.code, outcome.err.splitlines()) == (2, [words])
    assert left(tmp_path) == []
    assert called("curves", run, "--out", target).code == 0


def test_a_tokenizer(tmp_path: Path) -> None:
    navigator = Navigator(NAVIGATOR)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"a-piece-with-a-longer-name-{n}" for n in range(4, 20_000))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    navigator.tokenizer = load_tokenizer(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").unlink()
    with limited(500_000), pytest.raises(DataError, match=r"best: cannot be written \(File too large\); free some"):
        save_trained(tmp_path / "best", navigator, {})
    assert left(tmp_path) == []
    save_trained(tmp_path / "best", navigator, {})
    assert Navigator.from_pretrained(tmp_path / "best").tokenizer.get_vocab_size() == 20_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte, where we may make one."""
    place, libc = tmp_path / "disk", ctypes.CDLL(None, use_errno=True)
    place.mkdir()
    if libc.mount(b"none", os.fsencode(place), b"tmpfs", 0, b"size=1m"):
        pytest.skip(f"cannot mount a small disk ({os.strerror(ctypes.get_errno())})")
    yield place
    libc.umount2(os.fsencode(place), 2)  # even where somebody still looks at it


def test_a_real_disk_that_is_full(small_disk: Path, run: Path) -> None:
    room = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"\0" * (room.f_bavail * room.f_bsize - 16384))
    outcome = called("house", small_disk / "house", "--scans", 3)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err
    assert "cannot be written (No space left on device); free some space" in outcome.err
    outcome = called("curves", run, "--out", small_disk / "curves.png")
    assert outcome.code == 2
    assert "cannot be written (No space left on device); free some space" in outcome.err
    assert left(small_disk) == ["ballast"]
    (small_disk / "ballast").unlink()
    assert called("curves", run, "--out", small_disk / "curves.png").code == 0


LONGER = (*TINY, "--training.iterations", "4", "--training.validate-every", "2")


@pytest.fixture(scope="module")
def whole(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("full") / "whole"
    assert called("train", "demo", "--data", house, "--out", run, *LONGER).code == 0
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
