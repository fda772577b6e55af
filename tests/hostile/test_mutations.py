"""A minute's worth of `make torture`: files of every format, damaged by a seed, and no fault; and what finds faults."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile import campaign
from tests.hostile.campaign import cases, honest_folder, outcomes, plain, table
from tests.hostile.formats import FORMATS
from tests.hostile.planted import READERS
from tests.hostile.worker import OTHER, REFUSED, SAME, Case

EACH = 6  # mutations of a format


@pytest.fixture(scope="module")
def honest() -> Iterator[Path]:
    with honest_folder() as folder:
        yield folder


def test_damaged_files_are_refused_in_a_line_or_read_as_they_are(honest: Path) -> None:
    found = list(outcomes(cases(1, EACH * len(FORMATS)), honest))
    assert [one for one in found if one.faulty] == []
    assert {one.verdict for one in found} == {REFUSED, SAME, OTHER}
    assert plain(found)["mutations"] == EACH * len(FORMATS)
    rows = table(found).rows
    assert [row[0] for row in rows] == [*(one.name for one in FORMATS), "all"]
    assert all(row[1] == str(EACH) for row in rows[:-1])


def test_faults_are_found_and_blamed_on_their_cases(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "LONGEST", 4.0)
    monkeypatch.setattr(campaign, "SILENT", 8.0)
    asked = [Case(read.__name__, 0, 1) for read in READERS]
    found = {one.format: one for one in outcomes(asked, honest)}
    for read, verdict in READERS.items():
        one = found[read.__name__]
        assert one.verdict == verdict, one
        assert one.how, "the damage is told, also where the process died of it"


def test_a_case_is_the_same_whenever_it_is_tried(honest: Path) -> None:
    asked = [Case("config.json", 5, number) for number in (3, 1, 2)]
    first, again = (
        {one.number: (one.how, one.verdict) for one in outcomes(order, honest, 1)} for order in (asked, asked[::-1])
    )
    assert first == again


def test_a_file_of_two_formats_is_compared_with_what_each_makes_of_it(honest: Path) -> None:
    """Bytes after an archive's end change nothing, whoever looked at the honest file before."""
    asked = [Case("weights to inspect", 0, 0), Case("torch checkpoint", 0, 53)]
    _, appended = outcomes(asked, honest, 1)
    assert (appended.how, appended.verdict) == ("bytes: append", SAME)
