"""Everything that tries to break it, in an hour at most on two cores: `make torture`.

Damaged files of every format, disks that fill, kills at every file operation and at random, and races. What was tried
and what came of it is printed as tables and written as JSON, which `tests.hostile.figures` puts into the docs; Ctrl-C
ends it with what there is so far. The code is 0 where nothing broke, 1 where something did. A fault of a damaged file
is repeated by its format and number:

    python -m tests.hostile.torture --only config.json --case 17
"""

import argparse
import json
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile import full_disks, kills, races, reading_meanwhile
from tests.hostile.campaign import cases, honest_folder, outcomes, plain, table
from tests.hostile.formats import BY_NAME
from tests.hostile.training import Outcome as Tried
from tests.hostile.worker import Case, Outcome
from vlnbert.progress import Bar
from vlnbert.tables import Table


@dataclass
class Findings:
    """What was found so far, so that an interrupt loses nothing."""

    mutations: list[Outcome] = field(default_factory=list)
    trainings: dict[str, list[Tried]] = field(default_factory=dict)  # by what was done to them
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def faults(self) -> list[str]:
        damaged = [f"{one.verdict}: {one.format} --case {one.number} ({one.how}): {one.detail}" for one in self._faulty]
        broken = [
            f"{name}, {one.tried}: {one.fault}" for name, all in self.trainings.items() for one in all if one.fault
        ]
        return damaged + broken

    @property
    def _faulty(self) -> list[Outcome]:
        return [one for one in self.mutations if one.faulty]

    def training_table(self) -> Table:
        rows = [
            [name, f"{len(tried):,}", f"{sum(bool(one.fault) for one in tried):,}"]
            for name, tried in self.trainings.items()
        ]
        return Table(["trainings", "tried", "faults"], rows)

    def to_plain(self) -> dict[str, Any]:
        broken = {name: [vars(one) for one in tried if one.fault] for name, tried in self.trainings.items()}
        counted = {name: {"tried": len(tried), "faults": broken[name]} for name, tried in self.trainings.items()}
        return {**plain(self.mutations), "trainings": counted, "seconds": self.seconds}


def main() -> None:
    options, found, interrupted = parsed(sys.argv[1:]), Findings(), False
    begin, tortured = time.monotonic(), commit()
    for name in (signal.SIGINT, signal.SIGTERM):  # also where it was started to be left alone
        signal.signal(name, signal.default_int_handler)
    try:
        for name, stage in stages(options, found).items():
            since = time.monotonic()
            try:
                stage()
            finally:
                found.seconds[name] = round(time.monotonic() - since, 1)
    except KeyboardInterrupt:
        interrupted = True
    for one in (table(found.mutations), *([found.training_table()] if found.trainings else [])):
        print(one.text())
    print("\n".join(found.faults))
    told = {
        "commit": tortured,
        "options": shlex.join(sys.argv[1:]),
        "seed": options.seed,
        "interrupted": interrupted,
        **found.to_plain(),
    }
    options.out.write_text(json.dumps(told, indent=1) + "\n")
    ended = "interrupted" if interrupted else "done"
    print(f"{ended} after {time.monotonic() - begin:,.0f} s with {len(found.faults):,} faults; {options.out}")
    sys.exit(130 if interrupted else min(1, len(found.faults)))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.hostile.torture", description=__doc__, formatter_class=shown)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutations", type=int, default=20_000, help="damaged files")
    parser.add_argument(
        "--operations", type=int, help="file operations at which to kill and to fill the disk; else all"
    )
    parser.add_argument("--kills", type=int, default=100, help="kills at random moments")
    parser.add_argument("--races", type=int, default=200, help="pairs of processes that race for a folder")
    parser.add_argument("--reads", type=int, default=300, help="reads of a run that saves checkpoints meanwhile")
    parser.add_argument("--workers", type=int, default=2, help="processes that read damaged files")
    parser.add_argument("--only", nargs="*", default=[], choices=sorted(BY_NAME), metavar="FORMAT")
    parser.add_argument("--case", type=int, help="the number of one case of one format, to repeat it")
    parser.add_argument("--out", type=Path, default=Path("torture.json"))
    return parser.parse_args(words)


def stages(options: argparse.Namespace, found: Findings) -> dict[str, Callable[[], None]]:
    """What is done, in order; formats that are named are all that is wanted."""
    made: dict[str, Callable[[], None]] = {"mutations": partial(mutations, options, found)}
    if options.only:
        return made
    seed, operations = options.seed, options.operations
    trainings: dict[str, tuple[Callable[..., list[Tried]], int | None]] = {
        "disk full at a file operation": (full_disks.at_operations, operations),
        "killed at a file operation": (kills.at_operations, operations),
        "killed at random": (kills.at_random, options.kills),
        "raced": (races.run, options.races),
        "read meanwhile": (reading_meanwhile.run, options.reads),
    }
    wanted = {name: (work, count) for name, (work, count) in trainings.items() if count != 0}
    return made | {name: partial(train, found, name, work, seed, count) for name, (work, count) in wanted.items()}


def mutations(options: argparse.Namespace, found: Findings) -> None:
    asked = list(cases(options.seed, options.mutations, options.only))
    if options.case is not None:
        asked = [Case(name, options.seed, options.case) for name in options.only]
    with honest_folder() as honest, Bar("mutations", len(asked)) as bar:
        for one in outcomes(asked, honest, options.workers):
            found.mutations.append(one)
            bar.update(len(found.mutations), f"{len(found.faults)} faults" if one.faulty else None)


def train(found: Findings, name: str, work: Callable[..., list[Tried]], seed: int, count: int | None) -> None:
    with tempfile.TemporaryDirectory(prefix="vlnbert-hostile-") as folder, Bar(name, None):
        found.trainings[name] = work(Path(folder) / "work", seed, count)


def commit() -> str:
    """What was tortured, as git names it; nothing where this is no clone."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
