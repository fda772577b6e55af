"""Trainings whose disk is full at a file operation: one line, nothing spoilt, and the same bits once there is room."""

import errno
import shutil
from pathlib import Path

from tests.hostile.training import (
    Outcome,
    difference,
    ended,
    forked,
    go_on,
    in_a_process,
    noted_operations,
    some_of,
    text_of,
    unreadable,
    watch_operations,
)
from vlnbert.data.data import Data

NEED_ROOM = ("open", "os.mkdir", "half", "fsync")  # operations that fail on a full disk


def at_operations(folder: Path, seed: int = 0, count: int | None = None) -> list[Outcome]:
    """Let each operation that needs room, or `count` of them, fail as on a full disk; then there is room again."""
    return in_a_process(_at_operations, folder, seed, count)


def _at_operations(folder: Path, data: Data, seed: int, count: int | None) -> list[Outcome]:
    names = noted_operations(folder, data)
    numbers = some_of([n for n, name in enumerate(names, 1) if name.split()[0] in NEED_ROOM], seed, count)
    return [_at(number, names[number - 1], folder / "filled", folder / "whole", data) for number in numbers]


def _at(number: int, name: str, run: Path, whole: Path, data: Data) -> Outcome:
    tried, told = f"full at operation {number}, {name}", run.with_name("told")
    shutil.rmtree(run, ignore_errors=True)

    def fill(done: int, _: str) -> None:
        if done == number:
            raise OSError(errno.ENOSPC, "No space left on device")

    def train() -> None:
        watch_operations(run, fill)
        go_on(run, data)

    told.unlink(missing_ok=True)
    code = ended(forked(train, told))
    if code not in (0, 2):  # some operations can be done without
        return Outcome(tried, f"it ended with {code}: {text_of(told)}")
    if code == 2 and len(text_of(told).splitlines()) != 1:
        return Outcome(tried, f"more than a line: {text_of(told)}")
    if fault := unreadable(run):
        return Outcome(tried, fault)
    if code == 2 and ended(forked(lambda: go_on(run, data), told)) != 0:
        return Outcome(tried, f"it cannot be resumed: {text_of(told)}")
    return Outcome(tried, difference(run, whole))
