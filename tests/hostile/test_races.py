"""A few of the races that `make torture` runs: no record is mixed."""

from pathlib import Path

from tests.hostile import races


def test_races(tmp_path: Path) -> None:
    outcomes = races.run(tmp_path, seed=0, count=8)
    assert len(outcomes) == 8
    assert [outcome for outcome in outcomes if outcome.fault] == []
