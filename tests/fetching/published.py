"""A tiny set of published repositories, and a server that gives them out well or badly."""

import io
import random
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tools.make_manifest import Pick, Repository, make_manifest
from vlnbert.fetching.manifest import Manifest

LONG = "a_scan_with_a_name_" + "x" * 120 + ".json"  # longer than a plain tar header holds
REPOSITORIES = (
    Repository("one/graphs", "a" * 40, (Pick("graphs", "maps", "connectivity", r"\w+\.json"),)),
    Repository(
        "two/tasks",
        "b" * 40,
        (
            Pick("r2r", "data", "r2r", r"R2R_\w+\.json"),
            Pick("vocabulary", "data", ".", r"vocab\.txt"),
            Pick("landmarks", "data/more", "r2r", r"lar\.json", rename="LAR2R_train.json"),
        ),
    ),
)
GRAPHS, TASKS = (f"/{one.name}/tar.gz/{one.commit}" for one in REPOSITORIES)
LARGE = "connectivity/hall.json"
PLACES = {  # where each file is published, by where it goes
    LARGE: "maps/hall.json",
    f"connectivity/{LONG}": f"maps/{LONG}",
    "r2r/R2R_train.json": "data/R2R_train.json",
    "vocab.txt": "data/vocab.txt",
    "r2r/LAR2R_train.json": "data/more/lar.json",
}
CONTENT = {  # bytes that gzip cannot shorten, so that an archive can be cut anywhere
    path: random.Random(number).randbytes(300_000 if path == LARGE else 2_000 + number)
    for number, path in enumerate(PLACES)
}

Change = Callable[[tarfile.TarInfo, bytes], tuple[tarfile.TarInfo, bytes]]


def archive(number: int, change: Change | None = None, extra: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    """A repository's archive as GitHub makes it: one folder around all, the commit in a header, files nobody needs."""
    repository = REPOSITORIES[number]
    outer = f"{repository.name.partition('/')[2]}-{repository.commit}"
    told, out = {"comment": repository.commit}, io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers=told) as tar:
        for member in extra:
            tar.addfile(member, io.BytesIO(b"\1" * member.size))
        readme = tarfile.TarInfo(f"{outer}/README.md")
        readme.size = 7
        tar.addfile(readme, io.BytesIO(b"# Read\n"))
        for path, upstream in PLACES.items():
            if any(pick.takes(upstream) for pick in repository.picks):
                info, content = tarfile.TarInfo(f"{outer}/{upstream}"), CONTENT[path]
                if change is not None:
                    info, content = change(info, content)
                info.size = len(content) if info.isreg() else 0
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


ARCHIVES = {GRAPHS: archive(0), TASKS: archive(1)}


def tiny_manifest(folder: Path) -> Manifest:
    """Made of the archives by the command's own code."""
    for path, content in ARCHIVES.items():
        (folder / path.lstrip("/")).parent.mkdir(parents=True)
        (folder / path.lstrip("/")).write_bytes(content)
    return make_manifest(folder, REPOSITORIES)


@dataclass
class Server:
    """Gives out archives; `answers` are used up first, one a request for their path."""

    url: str = ""
    archives: dict[str, bytes] = field(default_factory=lambda: dict(ARCHIVES))
    answers: dict[str, list["Answer"]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)  # path and Range
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


class Handler(BaseHTTPRequestHandler):
    """Answers as it is told to."""

    protocol_version = "HTTP/1.1"
    told: Server

    def do_GET(self) -> None:
        self.told.asked.append((self.path, self.headers.get("Range", "")))
        waiting = self.told.answers.get(self.path, [])
        self.close_connection = True
        with suppress(ConnectionError):
            (waiting.pop(0) if waiting else whole)(self)

    @property
    def body(self) -> bytes:
        return self.told.archives[self.path]

    def begin(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in {"Connection": "close", **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def log_message(self, format: str, *words: Any) -> None:
        pass


Answer = Callable[[Handler], None]


def whole(handler: Handler) -> None:
    handler.begin(200, Content_Length=len(handler.body))
    handler.wfile.write(handler.body)


def chunked(handler: Handler) -> None:
    """As GitHub sends: without a length."""
    handler.begin(200, Transfer_Encoding="chunked")
    for start in range(0, len(handler.body), 5000):
        piece = handler.body[start : start + 5000]
        handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    handler.wfile.write(b"0\r\n\r\n")


def chunked_and_broken(handler: Handler) -> None:
    handler.begin(200, Transfer_Encoding="chunked")
    handler.wfile.write(b"2000\r\n" + handler.body[:0x2000] + b"\r\n")


def cut(size: int, **headers: object) -> Answer:
    """Promises all and sends the first bytes."""

    def answer(handler: Handler) -> None:
        handler.begin(200, Content_Length=len(handler.body), **headers)
        handler.wfile.write(handler.body[:size])

    return answer


def short(handler: Handler) -> None:
    """Gives half an archive and says that it is all."""
    half = handler.body[: len(handler.body) // 2]
    handler.begin(200, Content_Length=len(half))
    handler.wfile.write(half)


def stalls(handler: Handler) -> None:
    handler.begin(200, Content_Length=len(handler.body))
    handler.wfile.write(handler.body[:1000])
    handler.told.ended.wait(20)


def silent(handler: Handler) -> None:
    handler.told.ended.wait(20)


def trickles(handler: Handler) -> None:
    """Never silent for long, and never done."""
    handler.begin(200, Content_Length=len(handler.body))
    for place in range(1000):
        handler.wfile.write(handler.body[place : place + 1])
        if handler.told.ended.wait(0.02):
            return


def hangs_up(handler: Handler) -> None:
    pass


def status(code: int) -> Answer:
    return lambda handler: handler.begin(code, Content_Length=0)


def page(handler: Handler) -> None:
    text = b"<html><body>Please log in</body></html>" * 100
    handler.begin(200, Content_Length=len(text), Content_Type="text/html")
    handler.wfile.write(text)


def elsewhere(url: str) -> Answer:
    return lambda handler: handler.begin(302, Location=url, Content_Length=0)


def resumed(handler: Handler) -> None:
    """Goes on where it was asked to."""
    start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
    rest = handler.body[start:]
    told = f"bytes {start}-{len(handler.body) - 1}/{len(handler.body)}"
    handler.begin(206, Content_Length=len(rest), Content_Range=told)
    handler.wfile.write(rest)


@contextmanager
def serving() -> Iterator[Server]:
    told = Server()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Told", (Handler,), {"told": told}))
    told.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield told
    finally:
        told.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
