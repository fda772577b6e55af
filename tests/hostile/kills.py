"""Trainings that are killed, at file operations or at random, and resumed: the same bits, and nothing is left."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

from tests.hostile.training import (
    Outcome,
    difference,
    ended,
    finish,
    forked,
    go_on,
    in_a_process,
    kill_me,
    noted_operations,
    some_of,
    text_of,
    unreadable,
    watch_operations,
)
from vlnbert.data.data import Data


def at_operations(folder: Path, seed: int = 0, count: int | None = None) -> list[Outcome]:
    """Kill a training before each file operation from its beginning to its end, or before `count` of them."""
    return in_a_process(_at_operations, folder, seed, count)


def at_random(folder: Path, seed: int = 0, count: int = 100) -> list[Outcome]:
    """Kill trainings `count` times at random moments; each is resumed until it comes to its end."""
    return in_a_process(_at_random, folder, seed, count)


def _at_operations(folder: Path, data: Data, seed: int, count: int | None) -> list[Outcome]:
    names = noted_operations(folder, data)
    numbers = some_of(list(range(1, len(names) + 1)), seed, count)
    return [_at(number, names[number - 1], folder / "killed", folder / "whole", data) for number in numbers]


def _at(number: int, name: str, run: Path, whole: Path, data: Data) -> Outcome:
    tried, told = f"killed before operation {number}, {name}", run.with_name("told")
    shutil.rmtree(run, ignore_errors=True)

    def train() -> None:
        watch_operations(run, lambda done, _: kill_me() if done == number else None)
        go_on(run, data)

    if (code := ended(forked(train, told))) != -signal.SIGKILL:
        return Outcome(tried, f"it ended with {code} instead: {text_of(told)}")
    if fault := unreadable(run):
        return Outcome(tried, fault)
    if ended(forked(lambda: go_on(run, data), told)) != 0:
        return Outcome(tried, f"it cannot be resumed: {text_of(told)}")
    return Outcome(tried, difference(run, whole))


def _at_random(folder: Path, data: Data, seed: int, count: int) -> list[Outcome]:
    whole, told, rng = folder / "whole", folder / "told", random.Random(seed)
    began = time.monotonic()
    finish(forked(lambda: go_on(whole, data), told), told)
    lasts = time.monotonic() - began
    outcomes, run, kills = list[Outcome](), folder / "killed", 0
    while kills < count:
        child, wait = forked(lambda: go_on(run, data), told), rng.uniform(0, lasts)
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)  # one that has ended waits to be asked how, so that its number is still its own
        code, tried = ended(child), f"killed after {wait:.3f} s"
        if code == -signal.SIGKILL:
            kills += 1
            outcomes.append(Outcome(tried, unreadable(run)))
        elif code != 0:
            return [*outcomes, Outcome(tried, f"it ended with {code}: {text_of(told)}")]
        else:  # it was faster; another one is to be killed
            outcomes += _ended(run, whole)
            shutil.rmtree(run)
    finish(forked(lambda: go_on(run, data), told), told)
    return [*outcomes, *_ended(run, whole)]


def _ended(run: Path, whole: Path) -> list[Outcome]:
    """A run that came to its end all the same, if something is wrong with it."""
    fault = difference(run, whole)
    return [Outcome("killed and resumed to its end", fault)] if fault else []
