"""Readers of a run while another process saves one checkpoint after the other: each reads a whole one."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count as counted
from pathlib import Path

import vlnbert as vln
from tests.hostile.training import Outcome, ended, experiment, forked, in_a_process, text_of
from vlnbert.api.runs import load_agent
from vlnbert.data.data import Data
from vlnbert.learning.run_folder import POINTER
from vlnbert.learning.runs import begin_run

READERS: dict[str, Callable[[Path], object]] = {
    "progress": lambda run: vln.open_run(run).progress,
    "navigator": lambda run: vln.open_run(run).navigator,
    "last checkpoint": lambda run: load_agent(run, "last").agent,
}
PATIENCE = 120  # seconds until the first checkpoint
PAUSE = 0.25  # seconds between checkpoints, less than any training takes, and enough to read one


def run(folder: Path, seed: int = 0, count: int = 200) -> list[Outcome]:
    """Read `count` times, by each reader in turn; nothing is drawn."""
    return in_a_process(_run, folder, count)


def _run(folder: Path, data: Data, count: int) -> list[Outcome]:
    run, told = folder / "saved", folder / "told"
    shutil.rmtree(run, ignore_errors=True)
    child = forked(lambda: _save_for_ever(run, data), told)
    try:
        end = time.monotonic() + PATIENCE
        while not (run / POINTER).exists() and time.monotonic() < end:
            time.sleep(0.01)
        return list(_outcomes(run, count))
    finally:
        os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL, text_of(told)


def _save_for_ever(run: Path, data: Data) -> None:
    """What a training does between its updates, without them; nothing is validated, so that there is no best."""
    trainer = begin_run("hostile", experiment(), data, run)
    for iteration in counted():
        trainer.progress = replace(trainer.progress, iteration=iteration)
        trainer._save()
        time.sleep(PAUSE)


def _outcomes(run: Path, count: int) -> Iterator[Outcome]:
    for number in range(count):
        name = list(READERS)[number % len(READERS)]
        try:
            READERS[name](run)
            yield Outcome(f"{name} read")
        except Exception as error:  # also what is no error of ours
            yield Outcome(f"{name} read", f"{type(error).__name__}: {error}")
