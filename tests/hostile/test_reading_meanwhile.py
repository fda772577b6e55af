"""Some of the reads that `make torture` does while checkpoints are saved."""

from pathlib import Path

from tests.hostile import reading_meanwhile


def test_a_run_is_read_while_it_saves(tmp_path: Path) -> None:
    outcomes = reading_meanwhile.run(tmp_path, count=9)
    assert len(outcomes) == 9
    assert [outcome for outcome in outcomes if outcome.fault] == []
