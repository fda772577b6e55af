"""The command line, run in this process, and a small house to run it on."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from vlnbert.cli.main import main
from vlnbert.sources.house import generate


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`vlnbert` with some words: its exit code and what it printed."""

    def call(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["vlnbert", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder
