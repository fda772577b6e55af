"""The figures of docs/reliability.md, from what `make torture` wrote: python -m tests.hostile.figures torture.json."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.hostile.formats import FORMATS
from tests.hostile.worker import FAULTS, OTHER, REFUSED, SAME

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
PLACE = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


def main() -> None:
    told = json.loads(Path(sys.argv[1]).read_text())
    page, count = PLACE.subn(lambda _: "\n".join(["", *lines(told), "", ""]), PAGE.read_text())
    assert count == 1, f"{PAGE} has no place for figures"
    PAGE.write_text(page)


def lines(told: dict[str, Any]) -> Iterator[str]:
    """Two tables, the second of the kinds with faults and of all together, and from what they come."""
    minutes = sum(told["seconds"].values()) / 60
    command = f"`python -m tests.hostile.torture {told['options']}`"
    yield f"Commit {told['commit']}, {minutes:.0f} minutes on two cores that others shared, {command}:"
    yield ""
    yield from row("what was done to trainings", "tried", "faults")
    yield from row("---", "---:", "---:")
    for name, one in told["trainings"].items():
        yield from row(name, f"{one['tried']:,}", f"{len(one['faults']):,}")
    yield ""
    yield from row("damaged file", "tried", "refused in a line", "read as it was", "read as another value", "faults")
    yield from row("---", *["---:"] * 5)
    totals = [0] * 5
    for name in (one.name for one in FORMATS if one.name in told["formats"]):
        verdicts = told["formats"][name]
        counts = [sum(verdicts.values()), *(verdicts.get(one, 0) for one in (REFUSED, SAME, OTHER))]
        counts.append(sum(verdicts.get(one, 0) for one in FAULTS))
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        if counts[-1]:
            yield from row(name, *(f"{count:,}" for count in counts))
    yield from row(f"all, of {len(told['formats'])} kinds", *(f"{total:,}" for total in totals))
    yield ""
    slowest, largest = told["slowest"], told["largest"]
    took = f"The slowest took {slowest['seconds']:.1f} s ({slowest['format']}, {slowest['how']})"
    yield f"{took}, the largest {largest['peak'] / 2**20:,.0f} MB ({largest['format']}, {largest['how']})."


def row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
