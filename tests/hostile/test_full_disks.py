"""A few of the file operations of a training fail as on a full disk."""

from pathlib import Path

import pytest

from tests.hostile import full_disks


@pytest.mark.slow
def test_a_full_disk_costs_nothing_that_was_trained(tmp_path: Path) -> None:
    found = full_disks.at_operations(tmp_path / "work", seed=0, count=5)
    assert len(found) == 5
    assert [one for one in found if one.fault] == []
