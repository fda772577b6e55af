"""A plugin of pytest that notes which test, or which file, failed first."""

import os
from pathlib import Path

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    path = Path(os.environ["FIRST_FAILURE"])
    if report.failed and not path.exists():
        path.write_text(report.nodeid)
