"""What is the user's own is never touched; a full disk ends in one line, and what is there is kept."""

import errno
import os
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fetching.published import CONTENT, GRAPHS, LARGE, Server
from vlnbert.errors import DataError
from vlnbert.fetching import fetch as folders
from vlnbert.fetching.fetch import fetch, missing_files, write_verified
from vlnbert.fetching.manifest import ListedFile, Manifest


def listed(manifest: Manifest) -> list[ListedFile]:
    return [file for source in manifest.sources for file in source.files]


def refused(folder: Path, manifest: Manifest, server: Server) -> list[str]:
    with pytest.raises(DataError) as caught:
        fetch(folder, manifest, mirror=server.url)
    return str(caught.value).splitlines()


def own_file(path: Path) -> None:
    path.write_bytes(b"mine")


def own_file_of_the_same_size(path: Path) -> None:
    path.write_bytes(bytes(len(CONTENT[LARGE])))


def own_folder(path: Path) -> None:
    path.mkdir()
    (path / "mine").touch()


def broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


def pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [own_file, own_file_of_the_same_size, own_folder, broken_link, pipe])
def test_what_is_in_the_way_is_named_and_kept(
    manifest: Manifest, server: Server, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "connectivity").mkdir()
    make(tmp_path / LARGE)
    before = sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*"))
    (line,) = refused(tmp_path, manifest, server)
    assert line == (
        f"{tmp_path / LARGE}: is not the published file; "
        "it is never overwritten: move it away, or fetch other parts with only"
    )
    assert server.asked == [], "nothing is fetched in vain"
    assert sorted((path, path.lstat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    fetch(tmp_path, manifest, only=["vocabulary"], mirror=server.url)
    assert (tmp_path / "vocab.txt").is_file()


def test_many_are_told_in_a_line_each_part(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    for name in CONTENT:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    lines = refused(tmp_path, manifest, server)
    assert len(lines) == len(manifest.parts) == 4
    assert "is not the published file, nor are 1 more files of part graphs; " in lines[0]


def test_a_file_where_a_folder_belongs(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    (tmp_path / "connectivity").write_text("mine")
    (line,) = refused(tmp_path, manifest, server)
    assert line.startswith(f"{tmp_path / 'connectivity'}: is not the published file; ")
    (tmp_path / "file").write_text("mine")
    (line,) = refused(tmp_path / "file", manifest, server)
    assert line.startswith(f"{tmp_path / 'file'}: is not a folder")


def test_other_files_are_let_be(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    own = {"connectivity/mine.json": b"a", "features/mine.hdf5": b"b", "notes.txt": b"c"}
    for name, content in own.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    fetch(tmp_path, manifest, mirror=server.url)
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {**CONTENT, **own}


def test_linked_folders_and_files_are_as_good(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    fetch(tmp_path / "far", manifest, mirror=server.url)
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "connectivity").symlink_to(tmp_path / "far" / "connectivity")
    (tmp_path / "near" / "vocab.txt").symlink_to(tmp_path / "far" / "vocab.txt")
    missing = {file.path for file in missing_files(tmp_path / "near", listed(manifest))}
    assert missing == {"r2r/R2R_train.json", "r2r/LAR2R_train.json"}


def test_no_room_is_told_before_anything_is_fetched(
    manifest: Manifest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 300_000, 300_000))
    (line,) = refused(tmp_path / "a" / "data", manifest, server)
    assert line.startswith(f"{tmp_path / 'a' / 'data'}: needs 0.3 MB and the disk has 0.3 MB left; free some space")
    assert server.asked == []
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("kind", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up(
    manifest: Manifest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    def filling(folder: Path, file: ListedFile, content: Iterator[memoryview]) -> None:
        def pieces() -> Iterator[memoryview]:
            yield next(content)
            if file.path == LARGE:
                raise OSError(kind, os.strerror(kind))
            yield from content

        write_verified(folder, file, pieces())

    with monkeypatch.context() as patch:
        patch.setattr("vlnbert.fetching.fetch.write_verified", filling)
        (line,) = refused(tmp_path, manifest, server)
    assert line.startswith(
        f"{tmp_path / LARGE}: cannot be written ({os.strerror(kind)}); free some space, then run the"
    )
    assert server.paths == [GRAPHS], "there is no room for the others either"
    assert list((tmp_path / "connectivity").iterdir()) == []
    fetch(tmp_path, manifest, mirror=server.url)
    assert (tmp_path / LARGE).read_bytes() == CONTENT[LARGE]


def test_a_file_that_appears_meanwhile_is_kept(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    """A rename would replace it."""
    file = next(one for one in listed(manifest) if one.path == LARGE)

    def meanwhile() -> Iterator[memoryview]:
        yield memoryview(CONTENT[LARGE])
        (tmp_path / LARGE).write_text("mine")

    with pytest.raises(DataError, match="was written by another program meanwhile"):
        write_verified(tmp_path, file, meanwhile())
    assert (tmp_path / LARGE).read_text() == "mine"
    assert len(list((tmp_path / "connectivity").iterdir())) == 1
