"""A small house to be measured in, and the benches, run in this process."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from tests.cli.conftest import Outcome
from vlnbert.house import generate


def benched(*words: object) -> Outcome:
    """`python -m benchmarks` with some words: its exit code and what it printed."""
    out, err, code = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([*map(str, words)])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmarks") / "house"
    generate(folder, scans=4, paths_per_scan=8)
    return folder
