"""The log and the curves of a training: what is written is read, also after a kill and a resume."""

import errno
import os
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vlnbert.errors import DataError
from vlnbert.learning.callbacks import JsonLog, ProgressBar, TensorBoard, read_log
from vlnbert.progress import Bar

PARTS = {"total": 2.0, "imitation": 1.0}


def test_a_log_is_read_back(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "runs" / "run" / "log.jsonl")
    for iteration in (2, 4):
        log.updated(iteration, 0.1, PARTS)
    log.validated(4, {"r2r/val_unseen": {"sr": 0.5}})
    lines = read_log(log.path)
    assert [(line["iteration"], "scores" in line) for line in lines] == [(2, False), (4, False), (4, True)]
    assert lines[0]["total"] == 2.0
    assert lines[2]["scores"] == {"r2r/val_unseen": {"sr": 0.5}}


def test_what_a_resumed_run_repeats_holds_once(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.jsonl")
    log.updated(1, 0.1, PARTS)
    log.updated(2, 0.1, PARTS)
    with log.path.open("a") as file:
        file.write('{"iteration": 3, "tot')  # cut by a kill
        file.write("\n")
    log.updated(2, 0.1, {"total": 9.0})
    log.updated(3, 0.1, PARTS)
    assert [(line["iteration"], line["total"]) for line in read_log(log.path)] == [(1, 2.0), (2, 9.0), (3, 2.0)]


def test_a_line_that_was_cut_takes_no_other_with_it(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.jsonl")
    log.updated(1, 0.1, PARTS)
    with log.path.open("a") as file:
        file.write('{"iteration": 2, "tot')
    log.updated(2, 0.1, PARTS)
    log.updated(3, 0.1, PARTS)
    assert [line["iteration"] for line in read_log(log.path)] == [1, 2, 3]
    assert len(log.path.read_text().splitlines()) == 4


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_log_is_a_file_of_its_own(tmp_path: Path, kind: str) -> None:
    """What a link leads to is left alone, and nobody waits for a reader of a pipe."""
    (tmp_path / "precious").write_text("keep")
    log = JsonLog(tmp_path / "log.jsonl")
    if kind == "pipe":
        os.mkfifo(log.path)
    else:
        log.path.symlink_to("precious")
    with pytest.raises(DataError, match=r"log.jsonl: is a link, a pipe or a folder, where a file .*; move it away"):
        log.updated(1, 0.1, PARTS)
    assert (tmp_path / "precious").read_text() == "keep"


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would draw."""
    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_curves_are_drawn(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path, done=0)
    board.updated(1, 0.5, PARTS)
    board.updated(2, 0.25, PARTS)
    board.validated(2, {"r2r/val_unseen": {"spl": 0.75, "rgs": None}})
    shown = curves(tmp_path)
    assert shown["training/total"] == [(1, 2.0), (2, 2.0)]
    assert shown["training/learning_rate"] == [(1, 0.5), (2, 0.25)]
    assert shown["r2r/val_unseen/spl"] == [(2, 0.75)]
    assert "r2r/val_unseen/rgs" not in shown


@pytest.mark.parametrize("done", [0, 2])
def test_what_a_resumed_run_repeats_is_drawn_once(tmp_path: Path, done: int) -> None:
    """A run that was killed after three updates goes on from its last checkpoint."""
    killed = TensorBoard(tmp_path, done=0)
    for iteration in (1, 2, 3):
        killed.updated(iteration, 0.1, {"total": float(iteration)})
    board = TensorBoard(tmp_path, done)
    for iteration in range(done + 1, 5):
        board.updated(iteration, 0.1, {"total": 10.0 * iteration})
    expected = [(step, float(step) if step <= done else 10.0 * step) for step in range(1, 5)]
    assert curves(tmp_path)["training/total"] == expected


def full_after(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """A disk with room for so many bytes: the call that crosses its end writes some, the next none."""
    write, left = os.write, [room]

    def limited(descriptor: int, content: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, content[: left[0]])
        left[0] -= written
        return written

    monkeypatch.setattr(os, "write", limited)


@pytest.mark.parametrize("room", [0, 7, 60])
def test_curves_that_cannot_be_written_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    board = TensorBoard(tmp_path, done=0)
    board.updated(1, 0.1, PARTS)
    with monkeypatch.context() as patch:
        full_after(patch, room)
        with pytest.raises(DataError, match=rf"^{tmp_path}: cannot be written \(No space left on device\); free some"):
            board.updated(2, 0.1, PARTS)
    assert curves(tmp_path)["training/total"] == [(1, 2.0)]
    board.updated(2, 0.1, PARTS)  # once there is room
    assert curves(tmp_path)["training/total"] == [(1, 2.0), (2, 2.0)]


@pytest.mark.parametrize("room", [0, 1, 30])
def test_a_log_line_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    log = JsonLog(tmp_path / "log.jsonl")
    log.updated(1, 0.1, PARTS)
    before = log.path.read_bytes()
    with monkeypatch.context() as patch:
        full_after(patch, room)
        with pytest.raises(DataError, match="No space left on device"):
            log.updated(2, 0.1, PARTS)
    assert log.path.read_bytes() == before
    log.updated(2, 0.1, PARTS)
    assert [line["iteration"] for line in read_log(log.path)] == [1, 2]


@pytest.mark.parametrize(
    ("seconds", "done", "expected"),
    [
        (0.01, 0, ""),
        (2.0, 0, "an update takes 2.00 s here, so the 7,496 that are left about 4 h 10 min, validations aside; Ctrl-C"),
        (2.0, 6000, "an update takes 2.00 s here, so the 1,496 that are left about 50 min, validations aside; Ctrl-C"),
        (2.0, 7000, ""),
    ],
)
def test_a_long_training_is_told_beforehand(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], seconds: float, done: int, expected: str
) -> None:
    """Once, from the updates behind the first, which takes longer than others."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with Bar("training", 7500, done) as bar:
        shown = ProgressBar(bar)
        for update in range(1, 9):
            clock[0] += 100 if update == 1 else seconds
            shown.advanced(done + update)
            assert bar.done == done + update, "it moves with every update"
    lines = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("training: ")]
    assert len(lines) == (1 if expected else 0)
    assert all(line.startswith(expected) for line in lines)


def test_what_a_gpu_was_told_to_do_tells_no_time(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with Bar("training", 7500) as bar:
        shown = ProgressBar(bar, timed=False)
        for update in range(1, 9):
            shown.advanced(update)
    assert all(line.startswith("training: ") for line in capfd.readouterr().err.splitlines())
