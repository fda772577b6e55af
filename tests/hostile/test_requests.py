"""Two hundred hostile requests, against a real server: refused or escaped, while others are served as ever."""

import json
import random
import socket
import string
import threading
import time
from collections.abc import Callable, Sequence
from html import escape
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest

from tests.explorer.conftest import Served, serving, typed
from vlnbert.explorer import walk_queue
from vlnbert.explorer.app import make_app
from vlnbert.explorer.explorer import Explorer
from vlnbert.explorer.requests import Query

TRAVERSALS = [
    "/files/../tiny-navigator/config.json",
    "/files/..%2f..%2fapp.py",
    "/files/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/files/....//....//etc/passwd",
    "/files//etc/passwd",
    "/files/explorer.js%00.css",
    "/files/..\\..\\app.py",
    "/../../../../etc/passwd",
    "/files/%252e%252e%252fapp.py",
    "/files/explorer.js/..",
    "/%2e%2e/src",
    "/files/\u202e",
    "/api/plan?scan=../../../../etc/passwd",
    "/api/plan?scan=..%2f..%2fconnectivity%2fscans.txt",
    "/api/houses?split=r2r/../../../etc/passwd",
    "/api/walk?split=/etc/passwd&id=1",
    "/api/walk?split=r2r/val_unseen&id=../../../etc/passwd",
    "/episode?split=r2r/val_unseen&id=%00",
    "/.git/config",
    "/static/explorer.js",
]
WRONG_QUERIES = [
    "/api/houses",
    "/api/houses?split=",
    "/api/houses?split=r2r/val_unseen&split=r2r/train",
    "/api/houses?nothing=1",
    "/api/instructions?split=r2r/val_unseen&scan=x",
    "/api/instructions?split=r2r/val_unseen&scan=x&page=-1",
    "/api/instructions?split=r2r/val_unseen&scan=x&page=1e9",
    "/api/instructions?split=r2r/val_unseen&scan=x&page=99999999999999999999",
    "/api/walk?split=r2r/val_unseen&id=<script>alert(1)</script>",
    "/api/walk?split=r2r/val_unseen&id=1_0&agent=-1",
    "/api/walk?split=r2r/val_unseen&id=1_0&agent=7",
    "/api/walk?split=r2r/val_unseen&id=1_0&agent=zero",
    "/api/walk?split=r2r/aug&id=1",
    "/api/plan?scan=%ff%fe",
    "/api/plan?scan=" + "a" * 1000,
    "/api/plan?" + "&".join(f"a{n}=b" for n in range(100)),
    "/instruction?task=r2r&scan=x&start=y&heading=nan&text=go",
    "/instruction?task=r2r&scan=x&start=y&heading=inf&text=go",
    "/instruction?task=r2r&scan=x&start=y&heading=0&text=",
    "/episode?split=r2r/val_unseen&id=<img/src=x/onerror=alert(1)>",
    "/api/catalogue?x=" + "y" * 5000,
    "/" + "a" * 20_000,
]
MARKUP = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</p></main><iframe src=//evil.example>",
    "<a href=javascript:alert(1)>go</a>",
    '"><svg/onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<style>*{display:none}</style>",
    "</title><script>alert(1)</script>",
    "<base href=//evil.example/>",
    "<form action=//evil.example><button>go</button></form>",
    "{{7*7}} ${7*7} <%= 7*7 %> #{7*7}",
    "{0.__class__} %s %n",
    "]]><script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;<b>",
]
FOREIGN = "script", "img", "iframe", "style", "base", "form", "button", "b"  # elements that no card has
METHODS = ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "<SCRIPT>"]
HOSTS = [
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "",
    "[::1",
    "127.0.0.1@evil",
]


def exchange(port: int, data: bytes, patience: float = 10.0) -> bytes:
    """Send bytes, and read until the other side ends or is silent for a moment."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR) if b"connection: close" not in data.lower() else None
            received = b""
            while piece := connection.recv(65536):
                received += piece
        except (ConnectionError, TimeoutError):
            return received if "received" in locals() else b""
    return received


def request(method: str, path: str, host: str = "127.0.0.1", body: bytes = b"", **headers: str) -> bytes:
    """A request as bytes, however damaged."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def status_of(answer: bytes) -> int:
    """0 where the connection was cut off without an answer."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def bodies(served: Served) -> list[bytes]:
    """Wrong types, markup, half characters, depth and size in the place of a typed instruction."""
    rng, good = random.Random(0), typed(served.explorer)
    junk = [
        None,
        True,
        -1,
        1.5,
        10**30,
        "",
        "x" * 500,
        "\ud800",
        [],
        [[]],
        {},
        {"a": 1},
        "<script>",
        "../../etc/passwd",
    ]
    fields = ("agent", "task", "scan", "start", "heading")
    made = [json.dumps({**good, name: value}).encode() for name in fields for value in junk]
    made = [one for one in made if b'"heading": -1' not in one and b'"heading": 1.5' not in one]  # which are angles
    made += [
        json.dumps({**good, "text": value}).encode()
        for value in (None, 3, [], {}, "", " ", "\x00", "\ud800", "a" * 5000)
    ]
    made += [b"[" * 9000, b'{"a":' * 2000, b"\xff" * 100, b"{}", b"null", b'"text"', b"1" * 5000, b'{"text": NaN}']
    made += ["".join(rng.choices(string.printable, k=200)).encode() for _ in range(10)]
    return made


def markup(served: Served, text: str) -> tuple[bytes, bytes]:
    """Markup as an instruction: as JSON, and as a card."""
    query = typed(served.explorer, text)
    body = json.dumps(query).encode()
    fields = urlencode({name: value for name, value in query.items() if name != "agent"})
    return request("POST", "/api/walk", body=body, Content_Type="application/json"), request(
        "GET", f"/instruction?{fields}"
    )


def hostile(served: Served) -> list[bytes]:
    json_type = {"Content_Type": "application/json"}
    made = [request("GET", path) for path in (*TRAVERSALS, *WRONG_QUERIES)]
    made += [request(method, "/api/catalogue") for method in METHODS]
    made += [request("GET", "/api/catalogue", host) for host in HOSTS]
    made += [request("POST", "/api/walk", body=body, **json_type) for body in bodies(served)]
    good = json.dumps(typed(served.explorer)).encode()
    made += [
        request("POST", "/api/walk", body=good, Content_Type="text/plain"),
        request("POST", "/api/walk", body=good, Content_Type="application/x-www-form-urlencoded"),
        request("POST", "/api/walk", body=good, Origin="http://evil.example", **json_type),
        request("POST", "/api/walk", body=good, Origin="null", **json_type),
        request("POST", "/api/walk", body=good, Sec_Fetch_Site="cross-site", **json_type),
        request("GET", "/api/catalogue", Sec_Fetch_Site="cross-site"),
        request("POST", "/api/walk", body=b"x" * 20_000, **json_type),
        request("POST", "/api/catalogue", body=good, **json_type),
        request("POST", "/api/walk", Content_Length="99999999999", **json_type),
        request("POST", "/api/walk", Content_Length="-5", **json_type),
        request("POST", "/api/walk", Content_Length="five", **json_type),
        request("GET", "/", X="y" * 60_000),
        request("GET", "/", **{f"X{number}": "y" * 100 for number in range(200)}),
        request("GET", "/socket", Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Key="x" * 24) + b"\x00" * 50,
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"GET /\r\n\r\n",
        b"\r\n" * 3000,
        b"A" * 100_000,
        bytes(random.Random(1).randbytes(4000)),
    ]
    return made


def test_two_hundred_hostile_requests(served: Served) -> None:
    query = hostile(served)
    assert len(query) + 2 * len(MARKUP) >= 200
    good = request("GET", "/api/catalogue")
    for number, data in enumerate(query):
        answer = exchange(served.port, data)
        status = status_of(answer)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert status == 0 or 400 <= status < 500, f"{data[:200]!r} got {answer[:300]!r}"
        assert b"root:" not in answer
        assert b"Traceback" not in answer
        if b"text/html" in head.lower():
            assert b"<script" not in body
            assert b"<img" not in body
        if number % 25 == 0:
            assert status_of(exchange(served.port, good)) == 200
    assert status_of(exchange(served.port, good)) == 200


class CardReader(HTMLParser):
    """What a browser makes of a card: the words of its instruction, and what these could have smuggled in."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.foreign: list[str] = []
        self.reading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.reading = self.reading or known.get("class") == "words"
        address = known.get("href") or "/"
        if tag in FOREIGN or any(name.startswith("on") for name in known) or address[:2] == "//" or address[0] != "/":
            self.foreign.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.reading = self.reading and tag != "p"

    def handle_data(self, data: str) -> None:
        if self.reading:
            self.words.append(data)


@pytest.mark.parametrize("text", MARKUP, ids=range(len(MARKUP)))
def test_markup_in_instructions_stays_text(served: Served, text: str) -> None:
    walk, card = (exchange(served.port, data) for data in markup(served, text))
    head, _, body = walk.partition(b"\r\n\r\n")
    assert status_of(walk) == 200
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body)["instruction"]["text"] == text
    assert status_of(card) == 200
    read = CardReader()
    read.feed(card.partition(b"\r\n\r\n")[2].decode())
    assert "".join(read.words) == text.strip(), "word by word, as it was typed"
    assert read.foreign == []
    if escape(text) != text:
        assert text.encode() not in card


def test_errors_are_one_line_of_json(served: Served) -> None:
    for path in ("/api/houses?split=no", "/api/nowhere", "/api/walk?split=r2r/val_unseen&id=no"):
        answer = exchange(served.port, request("GET", path))
        head, _, body = answer.partition(b"\r\n\r\n")
        found = json.loads(body)
        assert list(found) == ["error"]
        assert "\n" not in found["error"]
        assert status_of(answer) == 404
        assert b"application/json" in head


SLOW: dict[str, Callable[[socket.socket], None]] = {
    "says nothing": lambda connection: None,
    "half a request line": lambda connection: connection.sendall(b"GET / HT"),
    "headers without end": lambda connection: connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "),
    "half a body": lambda connection: connection.sendall(
        b"POST /api/walk HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    ),
    "reads nothing": lambda connection: connection.sendall(
        b"GET /files/viewer.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200
    ),
}


def test_slow_visitors_do_not_hold_others_up(served: Served) -> None:
    """They are cut off in the end; meanwhile typed instructions are answered."""
    connections = []
    for begin in SLOW.values():
        for _ in range(8):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(20)
            connection.connect(("127.0.0.1", served.port))
            begin(connection)
            connections.append(connection)
    body = json.dumps(typed(served.explorer, "leave the room while others are slow")).encode()
    began = time.monotonic()
    answer = exchange(served.port, request("POST", "/api/walk", body=body, Content_Type="application/json"))
    assert status_of(answer) == 200
    assert time.monotonic() - began < 5
    time.sleep(0.1)
    for connection in connections:
        with connection:
            assert _ends(connection)


def _ends(connection: socket.socket) -> bool:
    """Whether the server cuts a connection off, read or not; a trickle of reading does not keep it alive for ever."""
    until = time.monotonic() + 15
    while time.monotonic() < until:
        try:
            if not connection.recv(512):
                return True
        except ConnectionError:
            return True
    return False


def test_a_crowd_is_asked_to_come_back(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """More walks at once than the queue holds: some are answered, others get 503 with Retry-After, none hangs."""
    monkeypatch.setattr(walk_queue, "MOST_WAITING", 8)
    monkeypatch.setattr(walk_queue, "MOST_TOGETHER", 4)
    answers: list[bytes] = []

    def walk(query: Sequence[Query]) -> list[walk_queue.Answer]:
        time.sleep(0.2)  # a large navigator
        return [b"{}" for _ in query]

    queue = walk_queue.WalkQueue(walk)
    with serving(make_app(explorer, queue)) as (_, port):

        def visit(number: int) -> None:
            body = json.dumps(typed(explorer, f"go to room {number}")).encode()
            answers.append(exchange(port, request("POST", "/api/walk", body=body, Content_Type="application/json")))

        threads = [threading.Thread(target=visit, args=(number,)) for number in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    queue.close()
    assert sorted({status_of(answer) for answer in answers}) == [200, 503]
    assert len(answers) == 60
    assert all(b"retry-after" in answer.lower() for answer in answers if status_of(answer) == 503)
