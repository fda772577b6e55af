"""What is no regular file is never replaced."""

import os
from pathlib import Path

import pytest

from vlnbert.errors import DataError
from vlnbert.sources.writing import replaced, written_beside


def test_devices_pipes_and_folders_stay_what_they_are(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", Path("/dev/null")):
        with pytest.raises(DataError, match="not a regular file"), written_beside(path):
            raise AssertionError("nothing is begun")
    assert (tmp_path / "pipe").is_fifo()


def test_the_users_umask_holds(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with written_beside(tmp_path / "file") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_folder_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with replaced(tmp_path / "best") as beside:
            (beside / "file").write_text(text)
            assert text == "old" or (tmp_path / "best" / "file").read_text() == "old"
    assert (tmp_path / "best" / "file").read_text() == "new"
    with pytest.raises(KeyboardInterrupt), replaced(tmp_path / "best") as beside:
        raise KeyboardInterrupt
    assert (tmp_path / "best" / "file").read_text() == "new"
    with replaced(tmp_path / "best") as beside:
        (beside / "file").write_text("newer")
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
