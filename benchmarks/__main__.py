"""`python -m benchmarks BENCH` measures something here and now, and prints a table or a JSON object."""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

import benchmarks.measuring  # noqa: F401  # first: where no system tells when a process began, time is counted from here
from benchmarks import evaluation, explorer, growth, navigator, objects, speaking, training, world
from vlnbert.errors import PREFIX, VlnbertError, spelling
from vlnbert.runtime import keep_freed_memory

BENCHES = {
    "world": world,
    "navigator": navigator,
    "objects": objects,
    "train": training,
    "evaluate": evaluation,
    "growth": growth,
    "explore": explorer,
    "speak": speaking,
}


def make_parser() -> ArgumentParser:
    """The benches as subcommands, each with options of its own."""
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    benches = parser.add_subparsers(dest="bench", metavar="BENCH", required=True)
    for name, bench in BENCHES.items():
        about = bench.__doc__ or ""
        one = benches.add_parser(
            name, help=about.splitlines()[0], description=about, formatter_class=RawDescriptionHelpFormatter
        )
        bench.add_options(one)
        one.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Run one bench; what a user can fix ends in one line and exit code 2."""
    options = vars(make_parser().parse_args(words))
    bench, as_json = BENCHES[options.pop("bench")], options.pop("json")
    keep_freed_memory()
    try:
        with spelling(_as_option):
            found = bench.measure(**options)
    except VlnbertError as error:
        print(*(f"{PREFIX}{line}" for line in str(error).splitlines()), sep="\n", file=sys.stderr)
        sys.exit(2)
    print(json.dumps(found.facts) if as_json else "\n".join([found.table.text(), *found.lines]))


def _as_option(place: str, value: object) -> str:
    option = f"--{place.rpartition('.')[2].replace('_', '-')}"
    return option if value is None else f"{option} {value}"


if __name__ == "__main__":
    main()
