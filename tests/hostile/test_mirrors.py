"""Mirrors that mean harm: whatever they send, `vlnbert data fetch` ends in one line, and nothing is half written."""

import gzip
import tarfile
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat
from pathlib import Path

import pytest

from tests.cli.conftest import called
from tests.fetching.published import ARCHIVES, GRAPHS, Answer, Handler, Server, archive, serving
from tools.make_manifest import write_manifest
from vlnbert.api import data
from vlnbert.fetching import download
from vlnbert.fetching.archive import MOST_MEMBERS
from vlnbert.fetching.manifest import Manifest

PATIENCE, ATTEMPTS = 1.0, 2
SOON = 60  # seconds; on a busy machine, of which the slowest kind needs a few
OK = b"HTTP/1.1 200 OK\r\n"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: "
LONG = "\x1b[31m" + "so long " * 7000


def sends(*pieces: bytes | Iterator[bytes], pause: float = 0.0) -> Answer:
    """Bytes as they are, an endless number of them where a piece is a stream, until the other side has had enough."""

    def answer(handler: Handler) -> None:
        with suppress(OSError):
            for piece in pieces:
                for one in (piece,) if isinstance(piece, bytes) else piece:
                    handler.wfile.write(one)
                    if pause and handler.told.ended.wait(pause):
                        return

    return answer


def drips(*pieces: bytes | Iterator[bytes]) -> Answer:
    """A byte at a time: never silent for long."""
    return sends(*(bytes([byte]) for piece in pieces if isinstance(piece, bytes) for byte in piece), pause=0.05)


def gives(body: bytes) -> Answer:
    return sends(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def headers(number: int, **fields: object) -> bytes:
    """So many tar headers of empty files."""
    info = tarfile.TarInfo("graphs/nothing")
    for name, value in fields.items():
        setattr(info, name, value)
    return info.tobuf(tarfile.GNU_FORMAT) * number


def bomb() -> bytes:
    """A file of 4 GB in 4 MB: blocks that know nothing of each other, so that one can be repeated."""
    packer, megabyte = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS), bytes(1 << 20)
    head = packer.compress(headers(1, size=4 << 30)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(megabyte) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * 4096


def of_links() -> bytes:
    """An archive in which the file that is needed is a link to one outside."""

    def linked(info: tarfile.TarInfo, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        return info, content

    return archive(0, linked)


GIVEN_UP = f"given up after {ATTEMPTS} attempts: "
NOT_FOLLOWED = "redirects to an address that is not https"
TAGGED = OK + b'Accept-Ranges: bytes\r\nContent-Length: 200000\r\nETag: "a\r\n b"\r\n\r\n'
KINDS: dict[str, tuple[Answer, str]] = {
    # the head of an answer
    "says nothing": (lambda handler: handler.told.ended.wait(60) and None, f"{GIVEN_UP}nothing came"),
    "endless 100 Continue": (sends(repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)), "sends headers without an end"),
    "slow 100 Continue": (
        sends(repeat(b"HTTP/1.1 100 Continue\r\n\r\n"), pause=0.05),
        f"{GIVEN_UP}no whole answer came",
    ),
    "headers that drip": (drips(OK + b"X: " + b"x" * 5000), f"{GIVEN_UP}no whole answer came"),
    "endless headers": (sends(OK, repeat(b"X: x\r\n" * 100)), f"{GIVEN_UP}the host hung up (got more than 100"),
    "an endless header": (sends(OK, repeat(b"x" * 1000)), f"{GIVEN_UP}the host hung up (got more than"),
    "a long reason": (sends(f"HTTP/1.1 403 {LONG}\r\n\r\n".encode()), "was refused (403 "),
    "a long reason to wait": (sends(f"HTTP/1.1 503 {LONG}\r\n\r\n".encode()), f"{GIVEN_UP}the host answered 503 ("),
    "no HTTP": (sends(f"SSH-2.0 {LONG}\r\n".encode()), f"{GIVEN_UP}the host hung up ("),
    "no status": (sends(b"HTTP/1.1 two\r\n\r\n"), f"{GIVEN_UP}the host hung up ("),
    "an endless length": (sends(OK + b"Content-Length: " + b"9" * 4000 + b"\r\n\r\n"), "sends more than 1024 MB"),
    # redirects
    "redirects nowhere": (sends(b"HTTP/1.1 302 Found\r\n\r\n"), NOT_FOLLOWED),
    **{
        f"redirects to {place.decode(errors='replace')[:20]}": (sends(REDIRECT + place + b"\r\n\r\n"), NOT_FOLLOWED)
        for place in (
            *(b"http://[a", b"http://a:b/", b"http://127.0.0.1:99999/", b"http://a..b/", b"http://\xff/"),
            *(b"http://" + b"a" * 70 + b"/", b"javascript:1", b"http://user:word@127.0.0.1/", b"http://a b/"),
            b"file:///" + b"x" * 60_000,
        )
    },
    "redirects into a desert": (sends(REDIRECT + b"http://127.0.0.1:1/\r\n\r\n"), f"{GIVEN_UP}the host cannot be"),
    "redirects without an end": (sends(REDIRECT + GRAPHS.encode() + b"\r\n\r\n"), "redirects more than 5 times"),
    "redirects with an endless body": (sends(REDIRECT + b"ftp://a/\r\n\r\n", repeat(b"x" * 65536)), NOT_FOLLOWED),
    # the body
    "a body that drips": (drips(OK + b"\r\n" + ARCHIVES[GRAPHS][:5000]), f"{GIVEN_UP}"),
    "a size that drips": (
        sends(OK + b"Transfer-Encoding: chunked\r\n\r\n", repeat(b"0"), pause=0.05),
        f"{GIVEN_UP}only ",
    ),
    "nonsensical sizes": (
        sends(OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n" + ARCHIVES[GRAPHS][:5000]),
        f"{GIVEN_UP}",
    ),
    "trailers that drip": (
        sends(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", repeat(b"X: x\r\n"), pause=0.05),
        f"{GIVEN_UP}only ",
    ),
    "a tag of two lines": (sends(TAGGED + ARCHIVES[GRAPHS][:100_000]), f"{GIVEN_UP}the last 100,000 bytes"),
    # the archive
    "a bomb": (gives(bomb()), "the archive unpacks to more than 2048 MB"),
    "endless members": (gives(gzip.compress(headers(MOST_MEMBERS + 1), 1)), "the archive holds more than 100,000"),
    "endless names": (
        gives(gzip.compress(headers(MOST_MEMBERS + 1, type=tarfile.GNUTYPE_LONGNAME), 1)),
        "the archive holds more than 100,000",
    ),
    "links": (gives(of_links()), "is a link or a folder there, where a file is expected"),
    "more behind the end": (
        sends(OK + b"\r\n" + gzip.compress(headers(1)), repeat(b"x" * 65536)),
        f"{GIVEN_UP}the archive ended early",
    ),
}


@pytest.fixture
def mirror(manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    write_manifest(manifest, tmp_path / "manifest.json.gz")
    monkeypatch.setattr(data, "SHIPPED", tmp_path / "manifest.json.gz")
    monkeypatch.setattr(download, "PATIENCE", PATIENCE)
    monkeypatch.setattr(download, "ATTEMPTS", ATTEMPTS)
    monkeypatch.setattr(download, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as told:
        yield told


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_mirror_is_answered_in_one_line(mirror: Server, tmp_path: Path, kind: str) -> None:
    hostile, said = KINDS[kind]
    mirror.answers = {GRAPHS: [hostile] * 20}
    began = time.monotonic()
    outcome = called("data", "fetch", tmp_path / "data", "--only", "graphs", "--mirror", mirror.url)
    assert time.monotonic() - began < SOON
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("vlnbert: ")]
    assert (outcome.code, outcome.out) == (2, "")
    assert line.startswith(f"vlnbert: {tmp_path / 'data'}: one/graphs: ")
    assert said in line
    assert line.rpartition("; ")[2].startswith(("try again later, or give a copy with --mirror URL", "run the same"))
    assert all(len(line) <= 500 and line.isprintable() for line in outcome.err.splitlines())
    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == [], "something was written"


def test_a_slow_disk_is_not_blamed_on_the_mirror(mirror: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate is that of the time spent waiting for the host, however long it takes to use what came."""
    monkeypatch.setattr(download, "PATIENCE", 0.2)
    chunks = []
    for chunk in download.stream(mirror.url + GRAPHS, download.Attempts("graphs")):
        chunks.append(chunk)
        time.sleep(0.3 if len(chunks) < 4 else 0)
    assert b"".join(chunks) == ARCHIVES[GRAPHS]
