"""Serve the explorer on the loopback and visit it: its start, the first paint, a typed instruction, and a crowd.

Each visitor of the crowd chooses an instruction or types one, reads for about a second, and goes on. No request is
repeated after a fault, and nothing but 127.0.0.1 is visited. The first paint is asked of chromium, where that and
playwright are there.
"""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks.first_paint import first_paint
from benchmarks.options import MOST, Found
from vlnbert.errors import UsageError
from vlnbert.runtime import require_within
from vlnbert.tables import Table

STARTING = 120.0  # seconds in which the page must be there
WORDS = (
    "go",
    "leave",
    "turn",
    "left",
    "right",
    "the",
    "room",
    "hallway",
    "door",
    "stop",
    "near",
    "walk",
    "past",
    "into",
)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="the agent that walks (the one that ships)")
    parser.add_argument("--data", metavar="DIR", help="the data folder (that of a run, or a generated house)")
    parser.add_argument("--visitors", type=int, default=50, help="how many come at once (50)")
    parser.add_argument("--seconds", type=int, default=60, help="for how long (60)")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds that a visitor reads between requests (1)")
    parser.add_argument("--rounds", type=int, default=20, help="typed instructions of one visitor alone (20)")


def measure(runs: Sequence[str], data: str | None, visitors: int, seconds: int, pause: float, rounds: int) -> Found:
    """Start the explorer, visit it alone, then in a crowd."""
    require_within(visitors=(visitors, 1, 200), seconds=(seconds, 1, 600), rounds=(rounds, 1, MOST))
    if not 0.05 <= pause <= 60:
        raise UsageError(f"--pause {pause} is out of range; choose 0.05 to 60")
    with served(*runs, *(("--data", data) if data else ())) as (url, start):
        paint = first_paint(url)
        alone = sorted(typed_seconds(url, rounds))
        visits = crowd(url, visitors, seconds, pause)
    requests, median = visits.summary(), alone[len(alone) // 2]
    rows = [
        (kind, f"{one['requests']:,}", *(f"{1000 * one[name]:,.0f}" for name in ("median", "p95", "longest")))
        for kind, one in requests.items()
    ]
    lines = []
    if paint:
        painted, ready = 1000 * paint["first_paint"], 1000 * paint["ready"]
        lines.append(f"first paint after {painted:,.0f} ms, a walk after {ready:,.0f} ms")
    typed = f"{1000 * median:,.0f} ms, at most {1000 * alone[-1]:,.0f} ms"
    lines.append(f"started in {start:.1f} s; a typed instruction, one visitor alone: {typed}")
    return Found(
        {
            "start_seconds": start,
            "browser_seconds": paint,
            "typed_seconds": median,
            "typed_longest": alone[-1],
            "visitors": visitors,
            "seconds": seconds,
            "errors": len(visits.errors),
            "requests": requests,
        },
        Table(
            ("asked for", "requests", "median, ms", "95th percentile, ms", "longest, ms"),
            rows,
            f"{visitors} visitors for {seconds} s, {len(visits.errors)} errors",
        ),
        [*lines, *visits.errors[:3]],
    )


@dataclass
class Visits:
    """What visitors waited for, in seconds by kind of request, and what failed."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def add(self, kind: str, seconds: float) -> None:
        self.seconds.setdefault(kind, []).append(seconds)

    def summary(self) -> dict[str, dict[str, float]]:
        """For each kind and for all: how many, the median, the 95th percentile and the longest."""
        kinds = {**self.seconds, "all": [one for each in self.seconds.values() for one in each]}
        return {kind: _summary(times) for kind, times in kinds.items()}


def _summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    last = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {"requests": len(times), "median": statistics.median(times), "p95": last, "longest": ordered[-1]}


@contextmanager
def served(*words: str) -> Iterator[tuple[str, float]]:
    """`vlnbert explore` as a process of its own: its address, and the seconds until it could be visited."""
    command = [sys.executable, "-m", "vlnbert", "explore", "--port", "0", *words]
    began = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=os.environ)
    timer = threading.Timer(STARTING, process.kill)
    timer.start()
    try:
        told = ""
        for line in process.stderr or ():
            told = line
            if found := re.search(r"explore at (\S+)", line):
                timer.cancel()
                yield found[1], time.monotonic() - began
                return
        raise UsageError(f"the explorer did not start: {told.strip()}")
    finally:
        timer.cancel()
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


class Visitor:
    """One browser's worth of requests, over a connection that is kept open."""

    def __init__(self, url: str, visits: Visits, seed: int) -> None:
        where = urlsplit(url)
        self.connection = HTTPConnection(where.hostname or "", where.port, timeout=30)
        self.visits, self.random = visits, random.Random(seed)
        self.catalogue: dict[str, Any] = {}
        self.houses: list[dict[str, Any]] = []
        self.plan: dict[str, Any] = {}

    def close(self) -> None:
        """Leave."""
        self.connection.close()

    def ask(self, kind: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request, timed; a fault is noted."""
        data = None if body is None else json.dumps(body)
        began = time.monotonic()
        try:
            headers = {} if data is None else {"Content-Type": "application/json"}
            self.connection.request("GET" if data is None else "POST", path, data, headers)
            answer = self.connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            self.visits.errors.append(f"{kind}: {type(error).__name__} {error}")
            self.connection.close()
            return None
        if answer.status != 200:
            self.visits.errors.append(f"{kind}: {answer.status} {content[:80]!r}")
            return None
        self.visits.add(kind, time.monotonic() - began)
        return json.loads(content) if path.startswith("/api/") else content

    def arrive(self) -> None:
        """What a browser asks for before anything can be chosen."""
        self.ask("page", "/")
        scripts = ("viewer.js", "explorer.js", "choosing.js", "asking.js", "exporting.js")
        for name in (*scripts, "viewer.css", "explorer.css"):
            self.ask("file", f"/files/{name}")
        self.catalogue = self.ask("list", "/api/catalogue") or {}
        if self.visits.errors:
            raise UsageError(f"the explorer refused: {self.visits.errors[0]}")
        split = self.catalogue["first"]["split"]
        self.houses = self.ask("list", "/api/houses?" + urlencode({"split": split})) or []
        self.plan = self.ask("plan", "/api/plan?" + urlencode({"scan": self.houses[0]["scan"]})) or {}

    def act(self) -> None:
        """Choose an instruction, or type one."""
        split, scan = self.catalogue["first"]["split"], self.houses[0]["scan"]
        if self.random.random() < 0.5:
            start = self.random.choice(self.plan["viewpoints"])["id"]
            text = " ".join(self.random.choices(WORDS, k=self.random.randint(4, 30)))
            task = split.split("/")[0]
            asked = {"agent": 0, "task": task, "scan": scan, "start": start, "heading": 0.0, "text": text}
            self.ask("typed", "/api/walk", asked)
            return
        page = self.random.randrange(-(-self.houses[0]["instructions"] // 50))
        found = self.ask("list", "/api/instructions?" + urlencode({"split": split, "scan": scan, "page": page}))
        if found and found["instructions"]:
            one = self.random.choice(found["instructions"])
            self.ask("episode", "/api/walk?" + urlencode({"split": split, "id": one["id"], "agent": 0}))


def typed_seconds(url: str, rounds: int) -> list[float]:
    """How long one visitor waits for typed instructions, none like another."""
    visits = Visits()
    with closing(Visitor(url, visits, seed=1)) as visitor:
        visitor.arrive()
        while len(visits.seconds.get("typed", [])) < rounds and not visits.errors:
            visitor.act()
    if visits.errors:
        raise UsageError(f"the explorer refused: {visits.errors[0]}")
    return visits.seconds["typed"]


def crowd(url: str, visitors: int, seconds: float, pause: float) -> Visits:
    """Visitors who each act, pause for about so long, and act again, until the time is over."""
    visits, until = Visits(), time.monotonic() + seconds

    def visit(number: int) -> None:
        with closing(Visitor(url, visits, number)) as visitor, suppress(UsageError):  # which is noted
            time.sleep(visitor.random.uniform(0, pause))
            visitor.arrive()
            while time.monotonic() < until:
                visitor.act()
                time.sleep(visitor.random.uniform(0.5, 1.5) * pause)

    threads = [threading.Thread(target=visit, args=(number,), daemon=True) for number in range(visitors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    return visits
