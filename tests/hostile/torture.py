"""Everything that tries to break it, for an hour at most: `python -m tests.hostile.torture --seed 0`.

Damaged files of every format, kills, and races. What was tried and what came of it is printed as tables and written as
JSON; Ctrl-C ends it with what there is so far. A fault is repeated by its format and number:

    python -m tests.hostile.torture --only config.json --case 17
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.hostile.campaign import cases, honest_folder, outcomes, plain, table
from tests.hostile.formats import BY_NAME
from tests.hostile.worker import Case, Outcome
from vlnbert.progress import Bar


def main() -> None:
    options = parsed(sys.argv[1:])
    begin, interrupted = time.monotonic(), False
    found = list[Outcome]()
    try:
        mutations(options, found)
    except KeyboardInterrupt:
        interrupted = True
    summary = {
        "seed": options.seed,
        "interrupted": interrupted,
        "seconds": round(time.monotonic() - begin, 1),
        **plain(found),
    }
    print(table(found).text())
    faults = [one for one in found if one.faulty]
    for one in faults:
        print(f"{one.verdict}: {one.format} --case {one.number} ({one.how}): {one.detail}")
    options.out.write_text(json.dumps(summary, indent=1))
    print(f"{len(found):,} mutations in {summary['seconds']:,} s, {len(faults):,} faults; {options.out}")
    sys.exit(130 if interrupted else min(1, len(faults)))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutations", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], choices=sorted(BY_NAME), metavar="FORMAT")
    parser.add_argument("--case", type=int, help="the number of one case of one format, to repeat it")
    parser.add_argument("--out", type=Path, default=Path("torture.json"))
    return parser.parse_args(words)


def mutations(options: argparse.Namespace, found: list[Outcome]) -> None:
    """Add what comes of each to `found`, so that an interrupt loses nothing."""
    asked = list(cases(options.seed, options.mutations, options.only))
    if options.case is not None:
        asked = [Case(name, options.seed, options.case) for name in options.only]
    with honest_folder() as honest, Bar("mutations", len(asked)) as bar:
        for one in outcomes(asked, honest, options.workers):
            found.append(one)
            faults = sum(each.faulty for each in found[-1:])
            bar.update(len(found), f"{one.format}: {one.verdict}" if faults else None)


if __name__ == "__main__":
    main()
