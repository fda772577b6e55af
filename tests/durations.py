"""How long tests take: recorded into a file, and read from it to choose those that `make test-fast` runs.

    python -m pytest --record-durations tests/durations.json
    python -m pytest --fast

The file names the tests that took longer than a moment, in seconds with what was set up for them; `--fast` leaves these
out, those marked slow, modules that start processes, and whole folders of long work.
"""

import json
from collections import defaultdict
from pathlib import Path

import pytest

RECORDED = Path(__file__).with_name("durations.json")
MOMENT = 0.1  # seconds of one test, beyond which it is not fast
STARTERS = ("subprocess", "PROCESSES", "together")  # what a module imports that starts processes
# Never fast.
ELSEWHERE = ("benchmarks", "browser", "docs", "end_to_end", "examples", "golden", "hostile", "mutants")


class Recorder:
    """Adds up what each test takes, and writes it when all are done."""

    def __init__(self, path: Path) -> None:
        self.path, self.seconds = path, defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return  # what runs the workers hears of every test
        long = {name: round(seconds, 1) for name, seconds in self.seconds.items() if seconds > MOMENT}
        self.path.write_text(json.dumps(dict(sorted(long.items())), indent=0) + "\n")


def is_elsewhere(path: Path) -> bool:
    """Whether a file or folder of tests is never fast."""
    root = Path(__file__).parent
    return path.is_relative_to(root) and path.relative_to(root).parts[:1] in {(folder,) for folder in ELSEWHERE}


def split_fast(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that are fast, and the others."""
    slow = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    fast, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        starts = any(hasattr(getattr(item, "module", None), name) for name in STARTERS)
        left_out = starts or item.nodeid in slow or item.get_closest_marker("slow") or is_elsewhere(item.path)
        (others if left_out else fast).append(item)
    return fast, others
