"""Many cases on some workers. One that hangs, crashes or takes too much is ended, blamed on its case, and replaced."""

import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from operator import attrgetter
from pathlib import Path
from typing import Any

from tests.hostile.formats import FORMATS
from tests.hostile.honest import write_honest
from tests.hostile.worker import FAULTS, OTHER, REFUSED, SAME, Case, Outcome, work
from vlnbert.tables import Table

LONGEST = 10.0  # seconds of processor time beyond those of the honest twin
SILENT = 45.0  # seconds without an answer, however busy the machine
LOOK = 0.5  # seconds between looks at a worker
TICK = os.sysconf("SC_CLK_TCK")
WORKERS = multiprocessing.get_context("forkserver")
WORKERS.set_forkserver_preload(["tests.hostile.worker", "tests.hostile.honest"])


def cases(seed: int, count: int, only: Sequence[str] = ()) -> Iterator[Case]:
    """So many cases, of every format in turn."""
    names = [one.name for one in FORMATS if not only or one.name in only]
    for number in range(count):
        yield Case(names[number % len(names)], seed, number // len(names))


@contextmanager
def honest_folder() -> Iterator[Path]:
    """Honest files of every format, written by a process of its own: the cache that it uses is not this one's."""
    with tempfile.TemporaryDirectory(prefix="vlnbert-hostile-") as folder:
        root = Path(folder) / "honest"
        root.mkdir()
        process = WORKERS.Process(target=write_honest, args=(root,))
        process.start()
        process.join()
        if process.exitcode:
            raise RuntimeError("the honest files could not be written")
        yield root


def outcomes(asked: Iterable[Case], honest: Path, workers: int = 2) -> Iterator[Outcome]:
    """What comes of each case, as it comes; those under way at an interrupt are given up."""
    left = iter(asked)
    with ExitStack() as stack:
        busy = [Worker(honest, honest.parent / f"worker-{number}") for number in range(workers)]
        for one in busy:
            stack.callback(one.end)
        for one in list(busy):
            if not one.take(next(left, None)):
                busy.remove(one)
        while busy:
            wait([one.pipe for one in busy], timeout=LOOK)
            for one in list(busy):
                if (found := one.look()) is not None:
                    yield found
                    if not one.take(next(left, None)):
                        busy.remove(one)


class Worker:
    """A process at work on one case."""

    def __init__(self, honest: Path, root: Path) -> None:
        self.honest, self.root, self.restarts = honest, root, 0
        self._begin()

    def _begin(self) -> None:
        self.pipe, theirs = WORKERS.Pipe()
        folder = self.root.with_name(f"{self.root.name}-{self.restarts}")
        self.process: BaseProcess = WORKERS.Process(target=work, args=(self.honest, folder, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.restarts += 1

    def take(self, case: Case | None) -> bool:
        """Begin a case, if there is one."""
        self.case = case
        self.allowed, self.how, self.since, self.spent = None, "", time.monotonic(), 0.0
        if case is not None:
            self.pipe.send(case)
        return case is not None

    def look(self) -> Outcome | None:
        """What came of the case, once something has."""
        try:
            while self.pipe.poll():
                word, told = self.pipe.recv()
                if word == "read":
                    return told
                seconds, self.how = told
                self.allowed, self.since, self.spent = seconds + LONGEST, time.monotonic(), self._processor_time()
        except (EOFError, ConnectionError):
            self.process.join()
            return self._blamed("crash", f"the process ended with {self.process.exitcode}")
        spent, waited = self._processor_time() - self.spent, time.monotonic() - self.since
        if waited > SILENT or (self.allowed is not None and spent > self.allowed):
            return self._blamed("hang", f"{spent:.0f} s of work, {waited:.0f} s waited")
        return None

    def _blamed(self, verdict: str, detail: str) -> Outcome:
        """End the worker, begin another, and say of which case it died."""
        self.end()
        case = self.case
        self._begin()
        return Outcome(**asdict(case), how=self.how, verdict=verdict, detail=detail)

    def _processor_time(self) -> float:
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it is gone, which the pipe tells
            return 0.0
        return (int(fields[11]) + int(fields[12])) / TICK

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def table(found: Sequence[Outcome]) -> Table:
    """A row a format: how many were tried and what came of them."""
    verdicts = (REFUSED, SAME, OTHER, *(one for one in FAULTS if any(each.verdict == one for each in found)))
    counts = Counter((one.format, one.verdict) for one in found)
    names = [one.name for one in FORMATS if any(each.format == one.name for each in found)]
    rows = [
        [
            name,
            *(
                f"{number:,}"
                for number in (sum(counts[name, one] for one in verdicts), *(counts[name, one] for one in verdicts))
            ),
        ]
        for name in names
    ]
    total = Counter(one.verdict for one in found)
    rows.append(["all", f"{len(found):,}", *(f"{total[one]:,}" for one in verdicts)])
    return Table(["format", "tried", *verdicts], rows)


def plain(found: Sequence[Outcome]) -> dict[str, Any]:
    """The same for a program: counts by format and verdict, and every fault."""
    counts: dict[str, dict[str, int]] = {}
    for one in found:
        row = counts.setdefault(one.format, {})
        row[one.verdict] = row.get(one.verdict, 0) + 1
    slowest, largest = (max(found, key=attrgetter(name), default=None) for name in ("seconds", "peak"))
    return {
        "mutations": len(found),
        "formats": counts,
        "faults": [asdict(one) for one in found if one.faulty],
        "slowest": None if slowest is None else asdict(slowest),
        "largest": None if largest is None else asdict(largest),
    }
