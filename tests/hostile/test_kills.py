"""Kills lose no run, and what a killed command left is swept by the next run of the same one."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import TINY, called
from tests.hostile import kills
from tests.processes import PATIENCE, PROCESSES
from vlnbert.cli.main import main
from vlnbert.sources.writing import temporary_name


def test_kills_at_file_operations(tmp_path: Path) -> None:
    outcomes = kills.at_operations(tmp_path, seed=0, count=5)
    assert len(outcomes) == 5
    assert [outcome for outcome in outcomes if outcome.fault] == []


def test_kills_at_random(tmp_path: Path) -> None:
    outcomes = kills.at_random(tmp_path, seed=0, count=4)
    assert len(outcomes) == 4
    assert [outcome for outcome in outcomes if outcome.fault] == []


@pytest.fixture(scope="module")
def trained(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("left") / "run"
    short = ("--training.iterations", "2", "--training.validate-every", "2")
    assert called("train", "demo", "--data", house, "--out", run, *TINY, *short).code == 0
    return run


COMMANDS: dict[str, tuple[str, ...]] = {
    "curves.svg": ("curves", "{run}", "--out", "{out}"),
    "report.html": ("report", "{run}", "--episodes", "1", "--out", "{out}"),
    "house": ("house", "{out}", "--scans", "3"),
}


def kill_when_it_is_put_in_its_place(words: list[str], folder: Path) -> None:
    """`vlnbert` with some words, killed when what it wrote beside is about to be renamed."""

    def audit(event: str, paths: tuple[Any, ...]) -> None:
        if event == "os.rename" and str(paths[1]).startswith(str(folder)):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)
    sys.argv = ["vlnbert", *words]
    main()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_next_run_sweeps_what_a_kill_left(trained: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "shelf"
    folder.mkdir()
    words = [word.format(run=trained, out=folder / name) for word in COMMANDS[name]]
    process = PROCESSES.Process(target=kill_when_it_is_put_in_its_place, args=(words, folder))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    [left] = folder.iterdir()
    assert left.name.startswith(f".{name}.")
    kept = [folder / "notes.txt", folder / f".{name}.swp", temporary_name(folder / f"other-{name}")]
    for path in kept:
        path.write_text("of somebody else")
    outcome = called(*words)
    assert outcome.code == 0, outcome.err
    assert sorted(folder.iterdir()) == sorted([folder / name, *kept])
