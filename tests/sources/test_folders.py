"""Folders that are asked for before long work begins."""

import os

import pytest

from vlnbert.errors import DataError
from vlnbert.sources.writing import require_writable


def test_what_can_be_written_is_not_made(tmp_path):
    require_writable(tmp_path)
    require_writable(tmp_path / "new" / "deep")
    assert list(tmp_path.glob("new")) == []


def test_what_lies_in_a_file_cannot(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DataError, match=f"{file}: is a file; choose a folder"):
        require_writable(file)
    with pytest.raises(DataError, match=f"{file}/deep: lies in {file}, a file; choose a folder"):
        require_writable(file / "deep")


def test_what_others_own_cannot(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(DataError, match=r"cannot be written \(Permission denied\); choose a folder you may write to"):
        require_writable(tmp_path / "new")
