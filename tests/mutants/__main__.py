"""Whether the tests notice when a constant, a sign, a mask or a metric is another: `make mutants`.

Each mutant of `tests/mutants/mutants.json` is put into a copy of the package and tests run against it: the one that
killed it before (`by`), where it is still there, then those of its own room, then all others. The first that fails
kills it, and is run once more without the mutant, where it must pass. A mutant that no test kills survives: write the
test, or record in the list why nothing can tell (`equivalent`). One whose place is no longer in the code is named: say
in the list where its meaning stands now. What came of each is printed and written as JSON. The code is 0 where all were
killed but those that change nothing, else 1.

    python -m tests.mutants --only discount clip
    python -m tests.mutants.draw --seed 1 > others.json && python -m tests.mutants --list others.json
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from threading import Lock

from tests.mutants.sites import MissingError, Mutant, mutated
from vlnbert.tables import Table

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE, TESTS = REPOSITORY / "src" / "vlnbert", REPOSITORY / "tests"
LISTED = Path(__file__).with_name("mutants.json")
# Left out: they look at pages, damage, documents and speed, and take long.
ELSEWHERE = ("mutants", "browser", "hostile", "docs", "examples", "benchmarks", "explorer", "fetching", "house")
WIDER = ("learning", "golden", "evaluation", "rollout", "tasks", "navigator", "formats", "environment")  # asked first
SLOW = ("distributed", "lost_ranks", "trainer", "first_update", "told_pipeline", "huggingface", "damage", "interrupts")
GOOD = ("killed", "equivalent")
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
NO_SUCH_TEST = 4  # the code of pytest


@dataclass(frozen=True)
class Finding:
    """What came of a mutant."""

    mutant: Mutant
    verdict: str  # killed, survived, equivalent, missing, or doubtful, where the tests themselves are at fault
    by: str = ""  # the test, or what is wrong
    tests: str = ""  # known, own or wider ones
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.verdict}: {self.mutant.name}, {self.mutant} ({self.by or 'by none'}, {self.seconds:,.0f} s)"


class Copy:
    """A copy of the package, in which one mutant at a time stands."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.package = folder, folder / "src" / "vlnbert"
        self.process: subprocess.Popen[bytes] | None = None
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))

    @contextmanager
    def holding(self, mutant: Mutant) -> Iterator[None]:
        path = self.package / mutant.module
        if not path.exists():
            raise MissingError(f"there is no {mutant.module}")
        source = path.read_text()
        path.write_text(mutated(source, mutant))
        try:
            yield
        finally:
            path.write_text(source)

    def test(self, targets: Sequence[str], seconds: float) -> tuple[str, int]:
        """Run tests up to the first that fails, which is named, and pytest's code; who takes too long has failed."""
        note, base = self.folder / "failed", self.folder / "tmp"
        note.unlink(missing_ok=True)
        quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.first_failure", f"--basetemp={base}"]
        settings = {
            "PYTHONPATH": os.pathsep.join([str(self.folder / "src"), str(REPOSITORY)]),
            "PYTHONDONTWRITEBYTECODE": "1",  # it is found by size and second, in which mutants are alike
            "OMP_NUM_THREADS": "1",
            "FIRST_FAILURE": str(note),
        }
        self.process = process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *quiet, *targets],
            cwd=REPOSITORY,
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"no end within {seconds:,.0f} s", 1
        finally:
            self.stop()
            shutil.rmtree(base, ignore_errors=True)
        failed = note.read_text() if note.exists() else ""
        return failed or (f"pytest ended with {code}" if code else ""), code

    def stop(self) -> None:
        """End what runs, with all that it started."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Trial:
    """Mutants one after the other on each of some copies of the package."""

    def __init__(self, folder: Path, workers: int, seconds: float, kinds: Sequence[str]) -> None:
        self.seconds, self.kinds, self.lock = seconds, kinds, Lock()
        self.copies = [Copy(folder / str(number)) for number in range(workers)]
        self.idle, self.stopped = Queue[Copy](), False
        self.passes = dict[str, bool]()  # tests that killed, and whether they pass without a mutant
        for copy in self.copies:
            self.idle.put(copy)

    def __call__(self, mutant: Mutant) -> Finding:
        copy, begin = self.idle.get(), time.monotonic()
        try:
            found = self._try(copy, mutant)
        except MissingError as error:
            found = Finding(mutant, "missing", str(error))
        finally:
            self.idle.put(copy)
        found = replace(found, seconds=round(time.monotonic() - begin, 1))
        with self.lock:
            if not self.stopped:
                print(found, flush=True)
        return found

    def stop(self) -> None:
        """End at once; what is under way comes to nothing."""
        self.stopped = True
        for copy in self.copies:
            copy.stop()

    def _try(self, copy: Copy, mutant: Mutant) -> Finding:
        with copy.holding(mutant):
            pass  # whether it can be found
        for kind, targets in meets(mutant):
            if kind not in self.kinds or (kind == "wider" and mutant.equivalent):
                continue
            with copy.holding(mutant):
                failed, code = copy.test(targets, self.seconds)
            if not failed or (kind == "known" and code == NO_SUCH_TEST):
                continue
            if code == -signal.SIGKILL:
                return Finding(
                    mutant, "doubtful", "its tests were killed themselves; is there too little memory?", kind
                )
            if "::" in failed and not self._passes(copy, failed):
                return Finding(mutant, "doubtful", f"{failed} fails without it too", kind)
            if mutant.equivalent:
                return Finding(mutant, "doubtful", f"recorded as equivalent, but {failed} can tell", kind)
            return Finding(mutant, "killed", failed, kind)
        return Finding(mutant, "equivalent" if mutant.equivalent else "survived", mutant.equivalent)

    def _passes(self, copy: Copy, test: str) -> bool:
        if test not in self.passes:
            self.passes[test] = not copy.test([test], self.seconds)[0]
        return self.passes[test]


def meets(mutant: Mutant) -> Iterator[tuple[str, list[str]]]:
    """What a mutant meets: the test that killed it before, its room's, all others; who names its module comes first."""
    if mutant.by:
        yield "known", [mutant.by]
    room, name = mutant.module.split("/")[0], "vlnbert." + mutant.module.removesuffix(".py").replace("/", ".")
    own, wider = list[Path](), list[Path]()
    for path in sorted(TESTS.rglob("test_*.py")):
        top = path.relative_to(TESTS).parts[0]
        if top not in ELSEWHERE:
            (own if top == room else wider).append(path)
    for kind, paths in (("own", own), ("wider", wider)):
        paths.sort(
            key=lambda path: (path.stem.removeprefix("test_") in SLOW, name not in path.read_text(), _turn(path))
        )
        yield kind, [str(path.relative_to(REPOSITORY)) for path in paths]


def _turn(path: Path) -> int:
    top = path.relative_to(TESTS).parts[0]
    return WIDER.index(top) if top in WIDER else len(WIDER)


def listed(path: Path = LISTED) -> list[Mutant]:
    """The mutants that are tried."""
    return [Mutant(**one) for one in json.loads(path.read_text())]


def remember(path: Path, found: Sequence[Finding]) -> None:
    """Write into the list by which test each was killed, so that it is asked first the next time."""
    by = {one.mutant.name: one.by for one in found if one.verdict == "killed" and "::" in one.by}
    listing = [replace(one, by=by.get(one.name, one.by)).to_plain() for one in listed(path)]
    path.write_text(json.dumps(listing, indent=1) + "\n")


def main() -> None:
    options, begin = parsed(sys.argv[1:]), time.monotonic()
    known = {one.name: one for one in listed(options.list)}
    if unknown := [name for name in options.only if name not in known]:
        sys.exit(f"no such mutant: {', '.join(unknown)}; {options.list} has their names")
    chosen = [known[name] for name in options.only or known]
    for number in INTERRUPTS:  # also where it was started to be left alone
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        trial = Trial(Path(folder), options.workers, options.limit, options.tests)
        try:
            found = list(pool.map(trial, chosen))
        except KeyboardInterrupt:
            for number in INTERRUPTS:
                signal.signal(number, signal.SIG_IGN)
            pool.shutdown(wait=False, cancel_futures=True)
            trial.stop()
            sys.exit(130)
    seconds = round(time.monotonic() - begin, 1)
    rows = [[one.mutant.name, str(one.mutant), one.verdict, one.tests, one.by] for one in found]
    print(Table(["mutant", "what", "verdict", "tests", "by"], rows).text())
    told = [one.mutant.to_plain() | {"verdict": one.verdict, "by": one.by, "seconds": one.seconds} for one in found]
    options.out.write_text(json.dumps({"commit": commit(), "seconds": seconds, "mutants": told}, indent=1) + "\n")
    if options.remember:
        remember(options.list, found)
    bad = [one for one in found if one.verdict not in GOOD]
    print("\n".join(map(str, bad)))
    print(f"{len(found) - len(bad)} of {len(found)} mutants killed or equivalent in {seconds:,.0f} s; {options.out}")
    sys.exit(bool(bad))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__, formatter_class=shown)
    parser.add_argument("--list", type=Path, default=LISTED, help="others, as tests.mutants.draw prints them")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    kinds = ("known", "own", "wider")
    parser.add_argument("--tests", nargs="*", default=kinds, choices=kinds, help="which are run; all by default")
    parser.add_argument("--workers", type=int, default=2, help="mutants that are tried at once")
    parser.add_argument("--limit", type=float, default=1500.0, help="seconds that tests may take against a mutant")
    parser.add_argument("--remember", action="store_true", help="note in the list which test killed each")
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    return parser.parse_args(words)


def commit() -> str:
    """What was tried, as git names it; nothing where this is no clone."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
