"""The page has a place for what was found, and what is written there adds up."""

from tests.hostile.campaign import plain
from tests.hostile.figures import PAGE, PLACE, lines
from tests.hostile.worker import Outcome


def test_figures_are_tables_that_add_up() -> None:
    found = [Outcome("boxes", 0, number, "bytes: flip_bits", "refused") for number in range(3)]
    found.append(Outcome("boxes", 0, 3, "json: nested", "hang", "10 s"))
    found.append(Outcome("captions", 0, 4, "bytes: flip_bits", "refused"))
    trainings = {"raced": {"tried": 200, "faults": [{"tried": "x", "fault": "mixed"}]}}
    told = {
        "commit": "abc",
        "options": "--seed 0",
        "seconds": {"mutations": 120},
        "trainings": trainings,
        **plain(found),
    }
    written = list(lines(told))
    assert "| raced | 200 | 1 |" in written
    assert "| boxes | 4 | 3 | 0 | 0 | 1 |" in written
    assert "| all, of 2 kinds | 5 | 4 | 0 | 0 | 1 |" in written
    assert not any(line.startswith("| captions") for line in written), "which has no faults"
    assert "Commit abc, 2 minutes" in written[0]
    assert "`python -m tests.hostile.torture --seed 0`" in written[0]


def test_the_page_has_one_place_for_them() -> None:
    assert len(PLACE.findall(PAGE.read_text())) == 1
