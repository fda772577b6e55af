"""The command line, run in this process."""

import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

import pytest

from vlnbert.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]
# Settings with which an update takes a few hundredths of a second.
TINY = (
    *("--training.batch", "4", "--training.max-steps", "4", "--training.report-every", "1"),
    *("--threads", "1", "--navigator.hidden", "16", "--navigator.heads", "2", "--navigator.inner", "32"),
)


def called(*words: object) -> Outcome:
    """`vlnbert` with some words: its exit code and what it printed."""
    out, err, code = StringIO(), StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["vlnbert", *map(str, words)])
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture
def run() -> Run:
    return called
