"""Fetching from a server that answers well, breaks off, stalls and lies."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from tests.fetching import published
from tests.fetching.published import ARCHIVES, CONTENT, GRAPHS, LARGE, TASKS, Answer, Server, archive
from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.fetching import download
from vlnbert.fetching.archive import members
from vlnbert.fetching.fetch import fetch
from vlnbert.fetching.manifest import Manifest

IN_THE_MIDST = 150_000  # bytes of the first archive: within its large file


def there(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fault(folder: Path, manifest: Manifest, server: Server) -> str:
    """The one line that fetching ends in; what else there is to fetch is fetched, and nothing is half written."""
    with pytest.raises(DataError) as caught:
        fetch(folder, manifest, mirror=server.url)
    (line,) = str(caught.value).splitlines()
    assert line.rpartition("; ")[2].strip(), "no remedy"
    found = there(folder) if folder.exists() else {}
    assert found.items() <= CONTENT.items(), "something else than the published files"
    return line


def completes(folder: Path, manifest: Manifest, server: Server) -> None:
    server.archives = dict(ARCHIVES)
    fetch(folder, manifest, mirror=server.url)
    assert there(folder) == CONTENT


@pytest.mark.parametrize("answer", [published.whole, published.chunked])
def test_everything_comes(manifest: Manifest, server: Server, tmp_path: Path, answer: Answer) -> None:
    server.answers = {GRAPHS: [answer], TASKS: [answer]}
    report = fetch(tmp_path / "data", manifest, mirror=f"{server.url}/")
    assert there(tmp_path / "data") == CONTENT
    assert server.asked == [(GRAPHS, ""), (TASKS, "")]
    assert {part.part: (part.files, part.missing_files) for part in report.parts} == {
        "graphs": (2, 2),
        "r2r": (1, 1),
        "vocabulary": (1, 1),
        "landmarks": (1, 1),
    }
    assert report.missing_bytes == sum(map(len, CONTENT.values()))


def test_what_is_there_is_not_asked_for_again(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    fetch(tmp_path, manifest, mirror=server.url)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    server.asked.clear()
    assert fetch(tmp_path, manifest, mirror=server.url).missing_bytes == 0
    assert server.asked == []
    (tmp_path / "vocab.txt").unlink()
    assert fetch(tmp_path, manifest, mirror=server.url).missing_bytes == len(CONTENT["vocab.txt"])
    assert server.paths == [TASKS]
    assert there(tmp_path) == CONTENT
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {path.name for path in before if before[path] != after[path]} == {"vocab.txt"}


def test_parts_by_name(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    report = fetch(tmp_path, manifest, only=["r2r", "vocabulary"], mirror=server.url)
    assert set(there(tmp_path)) == {"r2r/R2R_train.json", "vocab.txt"}
    assert [part.part for part in report.parts] == ["r2r", "vocabulary"]
    assert server.paths == [TASKS]
    with pytest.raises(UnknownNameError, match="no part 'graph'; did you mean graphs"):
        fetch(tmp_path, manifest, only=["graph"], mirror=server.url)


def test_a_dry_run_asks_and_writes_nothing(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    report = fetch(tmp_path / "data", manifest, mirror=server.url, dry_run=True)
    assert server.asked == []
    assert not (tmp_path / "data").exists()
    assert report.missing_bytes == sum(map(len, CONTENT.values()))
    assert report.parts[0].url == server.url + GRAPHS


BREAKS = {
    "cut": published.cut(IN_THE_MIDST),
    "cut at once": published.cut(0),
    "short": published.short,
    "chunked": published.chunked_and_broken,
    "stalled": published.stalls,
    "silent": published.silent,
    "trickling": published.trickles,
    "hung up": published.hangs_up,
    "500": published.status(500),
    "429": published.status(429),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_what_breaks_off_is_tried_again(
    manifest: Manifest, server: Server, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = {GRAPHS: [BREAKS[kind]] * 2}
    fetch(tmp_path, manifest, mirror=server.url)
    assert there(tmp_path) == CONTENT
    assert server.asked == [(GRAPHS, "")] * 3 + [(TASKS, "")]
    assert capsys.readouterr().err.count("trying again") == 2


@pytest.mark.parametrize("kind", BREAKS)
def test_trying_ends(manifest: Manifest, server: Server, tmp_path: Path, kind: str) -> None:
    server.answers = {GRAPHS: [BREAKS[kind]] * 100}
    line = fault(tmp_path, manifest, server)
    assert line.startswith(f"{tmp_path}: one/graphs: given up after 5 attempts: ")
    assert "run the same command again" in line
    assert server.paths == [GRAPHS] * 5 + [TASKS], "the other repository is fetched all the same"
    assert "vocab.txt" in there(tmp_path)
    server.answers = {}
    completes(tmp_path, manifest, server)


def test_files_before_the_break_are_kept(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    server.answers = {TASKS: [published.cut(len(ARCHIVES[TASKS]) - 2500)] * 5}
    fault(tmp_path, manifest, server)
    kept = set(there(tmp_path)) & {"r2r/R2R_train.json", "vocab.txt", "r2r/LAR2R_train.json"}
    assert kept
    assert kept != set(CONTENT) - {LARGE}
    server.answers = {}
    completes(tmp_path, manifest, server)


RANGES = {"Accept_Ranges": "bytes", "ETag": '"one"'}


def test_a_server_that_can_goes_on_where_it_broke_off(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    server.answers = {GRAPHS: [published.cut(IN_THE_MIDST, **RANGES), published.resumed]}
    fetch(tmp_path, manifest, mirror=server.url)
    assert there(tmp_path) == CONTENT
    assert server.asked == [(GRAPHS, ""), (GRAPHS, f"bytes={IN_THE_MIDST}-"), (TASKS, "")]


@pytest.mark.parametrize("headers", [{"ETag": '"one"'}, {**RANGES, "ETag": 'W/"weak"'}])
def test_a_server_that_cannot_is_not_asked_to(
    manifest: Manifest, server: Server, tmp_path: Path, headers: dict[str, str]
) -> None:
    server.answers = {GRAPHS: [published.cut(IN_THE_MIDST, **headers)]}
    fetch(tmp_path, manifest, mirror=server.url)
    assert there(tmp_path) == CONTENT
    assert server.asked[:2] == [(GRAPHS, "")] * 2


def test_a_server_that_begins_anew_instead(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    """It says that it can go on and sends all of it: the bytes must not be joined."""
    server.answers = {GRAPHS: [published.cut(IN_THE_MIDST, **RANGES), published.whole]}
    fetch(tmp_path, manifest, mirror=server.url)
    assert there(tmp_path) == CONTENT
    assert server.asked == [(GRAPHS, ""), (GRAPHS, f"bytes={IN_THE_MIDST}-"), (GRAPHS, ""), (TASKS, "")]


def changed(info: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    return info, content[:-1] + bytes([content[-1] ^ 1]) if info.name.endswith("hall.json") else content


def longer(info: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    return info, content + b"!" if info.name.endswith("hall.json") else content


def linked(info: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    if info.name.endswith("hall.json"):
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info, content


def renamed(info: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info.name = info.name.replace("hall.json", "hull.json")
    return info, content


LIES = {
    "changed": (archive(0, changed), "maps/hall.json is not the file that the manifest lists"),
    "longer": (archive(0, longer), "maps/hall.json is not the file that the manifest lists"),
    "linked": (archive(0, linked), "maps/hall.json is a link or a folder there"),
    "gone": (archive(0, renamed), "the archive lacks maps/hall.json"),
    "of another": (ARCHIVES[TASKS], "the archive lacks maps/a_scan"),
    "empty": (b"", "given up after 5 attempts: the archive ended early"),
    "page": (b"<html>" * 1000, "what came is not a gzip archive"),
    "no tar": (gzip.compress(bytes(range(256)) * 8), "what came is not a tar archive"),
}


@pytest.mark.parametrize("kind", LIES)
def test_lies_are_found_out(manifest: Manifest, server: Server, tmp_path: Path, kind: str) -> None:
    server.archives[GRAPHS], words = LIES[kind]
    line = fault(tmp_path, manifest, server)
    assert line.startswith(f"{tmp_path}: one/graphs: {words}")
    assert LARGE not in there(tmp_path)
    assert "vocab.txt" in there(tmp_path)
    completes(tmp_path, manifest, server)


def odd(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


@pytest.mark.parametrize("name", ["/etc/evil", "graphs/../../evil", "../evil", ".."])
def test_members_that_would_lie_outside(manifest: Manifest, server: Server, tmp_path: Path, name: str) -> None:
    server.archives[GRAPHS] = archive(0, extra=(odd(name, size=3),))
    line = fault(tmp_path / "data", manifest, server)
    assert f"would lie outside of it, {name!r}" in line
    assert not (tmp_path / "evil").exists()
    completes(tmp_path / "data", manifest, server)


def test_odd_members_that_nobody_needs(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    extra = (
        odd("graphs/connectivity", tarfile.SYMTYPE, "/etc"),
        odd("graphs/maps", tarfile.DIRTYPE),
        odd("graphs/other", tarfile.LNKTYPE, "../../evil"),
        odd("graphs/device", tarfile.CHRTYPE),
        odd("graphs/pipe", tarfile.FIFOTYPE),
        odd("graphs/weird", b"Z", size=1000),
    )
    server.archives[GRAPHS] = archive(0, extra=extra)
    fetch(tmp_path, manifest, mirror=server.url)
    assert there(tmp_path) == CONTENT
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_sizes_are_bounded(manifest: Manifest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(download, "MOST", 100_000)
        assert "sends more than 0 MB" in fault(tmp_path, manifest, server)
    with monkeypatch.context() as patch:
        patch.setattr("vlnbert.fetching.archive.MOST", 100_000)
        assert "unpacks to more than 0 MB" in fault(tmp_path, manifest, server)
    completes(tmp_path, manifest, server)


def test_a_bomb_is_not_unpacked_at_once() -> None:
    """Pieces are of bounded size, however much a few bytes unpack to."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        tar.addfile(odd("a/b", size=50 << 20), io.BytesIO(bytes(50 << 20)))
    (member,) = members([out.getvalue()])
    assert member.size == 50 << 20
    (again,) = (max(map(len, one.content)) for one in members([out.getvalue()]))
    assert again <= 1 << 18


def test_a_name_that_is_too_long() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(odd("a/" + "b" * 100_000))
    with pytest.raises(download.SourceError, match="a name that is too long"):
        list(members([out.getvalue()]))


def test_gnu_names_are_read_as_well() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(odd("a/" + "b" * 1000))
        tar.addfile(odd("a/c"))
    assert [member.path for member in members([out.getvalue()])] == ["b" * 1000, "c"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (published.status(404), "there is no http"),
        (published.status(410), "there is no http"),
        (published.status(403), "was refused (403 Forbidden)"),
        (published.page, "what came is not a gzip archive"),
        (published.elsewhere("file:///etc/passwd"), "redirects to an address that is not https"),
        (published.elsewhere("ftp://127.0.0.1/a"), "redirects to an address that is not https"),
        (published.elsewhere("gopher://127.0.0.1/a"), "redirects to an address that is not https"),
        (published.elsewhere(GRAPHS), "redirects more than 5 times"),  # to itself, for ever
    ],
)
def test_answers_that_will_not_change(
    manifest: Manifest, server: Server, tmp_path: Path, answer: Answer, words: str
) -> None:
    server.answers = {GRAPHS: [answer] * 20}
    assert words in fault(tmp_path, manifest, server)
    assert "vocab.txt" in there(tmp_path)
    server.answers = {}
    completes(tmp_path, manifest, server)


def test_a_redirect_of_a_mirror_is_followed(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    server.archives["/moved"] = ARCHIVES[GRAPHS]
    server.answers = {GRAPHS: [published.elsewhere("/moved")]}
    fetch(tmp_path, manifest, mirror=server.url)
    assert there(tmp_path) == CONTENT


def test_https_is_not_left_for_http() -> None:
    with pytest.raises(download.SourceError, match="redirects to an address that is not https"):
        download._redirected("https://example.org/a", "https://example.org/a", "http://example.org/b")


def test_without_a_network_one_line(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    server.ended.set()
    nobody = server.url.rpartition(":")[0] + ":1"  # a port that nobody listens at
    with pytest.raises(DataError) as caught:
        fetch(tmp_path / "data", manifest, mirror=nobody)
    assert str(caught.value) == (
        f"{nobody}: cannot be reached (Connection refused); "
        "check the network, or give a copy with mirror=URL; what is there is kept"
    )
    assert not (tmp_path / "data").exists()


def test_a_network_that_was_there_may_come_back(manifest: Manifest, server: Server, tmp_path: Path) -> None:
    away = published.elsewhere("http://127.0.0.1:1/")
    server.answers = {GRAPHS: [published.cut(IN_THE_MIDST), away, away]}
    fetch(tmp_path, manifest, mirror=server.url)
    assert there(tmp_path) == CONTENT
    assert server.paths == [GRAPHS] * 4 + [TASKS]


@pytest.mark.parametrize(
    "mirror", ["file:///data", "ftp://a/b", "data", "", "http://", "http://[a", "http://a:b", "http://a b"]
)
def test_a_mirror_is_an_address(manifest: Manifest, tmp_path: Path, mirror: str) -> None:
    with pytest.raises(UsageError, match="no http or https address"):
        fetch(tmp_path, manifest, mirror=mirror)
