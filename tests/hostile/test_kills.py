"""A few of the kills that `make torture` tries: no run is lost by them."""

from pathlib import Path

from tests.hostile import kills


def test_kills_at_file_operations(tmp_path: Path) -> None:
    outcomes = kills.at_operations(tmp_path, seed=0, count=5)
    assert len(outcomes) == 5
    assert [outcome for outcome in outcomes if outcome.fault] == []


def test_kills_at_random(tmp_path: Path) -> None:
    outcomes = kills.at_random(tmp_path, seed=0, count=4)
    assert len(outcomes) == 4
    assert [outcome for outcome in outcomes if outcome.fault] == []
