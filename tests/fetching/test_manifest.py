"""The manifest: made of archives, written, read, and refused where it is of another format or damaged."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fetching.published import ARCHIVES, CONTENT, GRAPHS, PLACES, REPOSITORIES, tiny_manifest
from tools.make_manifest import REPOSITORIES as PUBLISHED
from tools.make_manifest import main, make_manifest, write_manifest
from vlnbert.api.data import fetch_data
from vlnbert.errors import DataError
from vlnbert.fetching.manifest import SHIPPED, Manifest, read_manifest


def written(path: Path, document: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def test_it_lists_what_the_archives_hold(manifest: Manifest) -> None:
    files = [file for source in manifest.sources for file in source.files]
    assert {file.path: file.upstream for file in files} == PLACES
    assert {file.path: file.size for file in files} == {path: len(content) for path, content in CONTENT.items()}
    assert manifest.parts == ["graphs", "r2r", "landmarks", "vocabulary"]


def test_it_is_read_as_it_was_written(manifest: Manifest, tmp_path: Path) -> None:
    write_manifest(manifest, tmp_path / "a.gz")
    assert read_manifest(tmp_path / "a.gz") == manifest
    write_manifest(read_manifest(tmp_path / "a.gz"), tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_the_shipped_one_is_made_of_the_recipe() -> None:
    manifest = read_manifest(SHIPPED)
    assert [(one.repository, one.commit) for one in manifest.sources] == [(one.name, one.commit) for one in PUBLISHED]
    assert all(f" {part}" in (fetch_data.__doc__ or "") for part in manifest.parts), "the help names them"
    for source, repository in zip(manifest.sources, PUBLISHED, strict=True):
        assert all(any(pick.takes(file.upstream) for pick in repository.picks) for file in source.files)
        assert all(any(pick.takes(file.upstream) for file in source.files) for pick in repository.picks)
    assert len({file.path for source in manifest.sources for file in source.files}) == 10_849
    assert SHIPPED.stat().st_size < 1 << 20, "the package stays small"


FORMATS = {
    2: "made by a newer vlnbert; this one reads up to 1; upgrade with",
    "one": "which is no version",
    0: "no version",
}


@pytest.mark.parametrize("version", FORMATS)
def test_another_format_is_refused(tmp_path: Path, version: object) -> None:
    path = written(tmp_path / "manifest.json.gz", {"format": version, "sources": []})
    with pytest.raises(DataError) as caught:
        read_manifest(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert FORMATS[version] in str(caught.value)  # type: ignore[index]
    assert "\n" not in str(caught.value)


GOOD = {"part": "a", "from": "b", "to": "c", "files": {"d": [1, "0" * 64]}}
SOURCE = {"repository": "a/b", "commit": "c", "folders": [GOOD]}
DAMAGED: list[Any] = [
    [],
    {"format": 1},
    {"format": 1, "sources": [1]},
    {"format": 1, "sources": [{**SOURCE, "repository": "https://a/b"}]},
    {"format": 1, "sources": [{**SOURCE, "commit": "../c"}]},
    *(
        {"format": 1, "sources": [{**SOURCE, "folders": [{**GOOD, **change}]}]}
        for change in (
            {"to": ".."},
            {"to": "/etc"},
            {"to": "a/../b"},
            {"files": {"../d": [1, "0" * 64]}},
            {"files": {"d": [-1, "0" * 64]}},
            {"files": {"d": [True, "0" * 64]}},
            {"files": {"d": [10**400, "0" * 64]}},
            {"files": {"d": [1, "0"]}},
            {"files": {"d": [1, "0" * 64, ".."]}},
            {"files": {"d": 1}},
            {"files": []},
        )
    ),
]


@pytest.mark.parametrize("document", DAMAGED)
def test_a_damaged_one_is_refused(tmp_path: Path, document: Any) -> None:
    path = written(tmp_path / "manifest.json.gz", document)
    with pytest.raises(DataError, match="manifest; install vlnbert again"):
        read_manifest(path)


def test_a_good_one_is_not(tmp_path: Path) -> None:
    path = written(tmp_path / "manifest.json.gz", {"format": 1, "sources": [SOURCE]})
    assert read_manifest(path).sources[0].files[0].path == "c/d"


@pytest.mark.parametrize(
    "content",
    [b"", b"text", gzip.compress(b"{}", mtime=0)[:-4], gzip.compress(b"[1,", mtime=0), gzip.compress(b"\xff", mtime=0)],
    ids=["empty", "text", "cut short", "broken JSON", "not UTF-8"],
)
def test_what_is_no_manifest(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(DataError, match="install vlnbert again"):
        read_manifest(tmp_path / "a.gz")
    with pytest.raises(DataError, match="cannot be read"):
        read_manifest(tmp_path / "none.gz")


def test_the_command_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.make_manifest.make_manifest", lambda folder: make_manifest(folder, REPOSITORIES))
    with pytest.raises(SystemExit, match="usage"):
        main([])
    archives, out = tmp_path / "archives", tmp_path / "out.gz"
    made = tiny_manifest(archives)
    main([str(archives), str(out)])
    assert read_manifest(out) == made
    assert "one/graphs: 2 files, 302,001 bytes" in capsys.readouterr().out
    path = archives / GRAPHS.lstrip("/")
    path.write_bytes(ARCHIVES[GRAPHS][:1000])
    with pytest.raises(SystemExit, match="the archive ended early; fetch it again"):
        main([str(archives), str(out)])
    path.write_bytes(b"<html>")
    with pytest.raises(SystemExit, match="not a gzip archive; fetch it again"):
        main([str(archives), str(out)])
    path.unlink()
    with pytest.raises(SystemExit, match="no such archive"):
        main([str(archives), str(out)])
    assert read_manifest(out) == made


def test_a_pipe_is_no_manifest(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json.gz")
    with pytest.raises(DataError, match="is a pipe, where a manifest is expected"):
        read_manifest(tmp_path / "manifest.json.gz")
