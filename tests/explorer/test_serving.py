"""Connections: those that stand still are cut off, those that ask are not, and fifty visitors are all answered."""

import asyncio
import json
import socket
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.request import Request, urlopen

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from tests.explorer.conftest import serving, typed
from tests.hostile.test_requests import SLOW, exchange, request, status_of
from vlnbert.explorer.explorer import Explorer
from vlnbert.explorer.serving import BoundedConnection, server_for


@pytest.fixture
def connection() -> BoundedConnection:
    made = BoundedConnection(
        server_for(PlainTextResponse("yes")).config, ServerState(), {}, Mock(spec=asyncio.AbstractEventLoop)
    )
    transport: Any = Mock(spec=asyncio.Transport)
    transport.get_extra_info.return_value = None
    transport.is_closing.return_value = False
    made.connection_made(transport)
    return made


def test_who_asks_again_and_again_is_not_cut_off(connection: BoundedConnection) -> None:
    """Python may give the next request the place in memory that the last one had."""
    cycle: Any = SimpleNamespace(response_complete=True)
    for _ in range(3):
        connection.cycle = cycle
        connection.on_response_complete()
        connection._look()
    assert not connection.transport.abort.called  # type: ignore[attr-defined]
    connection._look()
    assert connection.transport.abort.called  # type: ignore[attr-defined]


def test_who_never_asks_is_cut_off(connection: BoundedConnection) -> None:
    connection._look()
    assert connection.transport.abort.called  # type: ignore[attr-defined]


class Few(BoundedConnection):
    """Has room for six."""

    most = 6


@pytest.mark.parametrize("number", [6, 20])
def test_idle_connections_keep_nobody_out(app: ASGIApp, number: int) -> None:
    with serving(app, Few) as (_, port), ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)) for _ in range(number)]
        assert status_of(exchange(port, request("GET", "/"))) == 200
        assert _cut_off(idle[0]), "the oldest makes room"
        idle[-1].sendall(request("GET", "/"))
        assert status_of(idle[-1].recv(4096)) == 200


def test_where_all_are_busy_visitors_are_asked_to_come_back(app: ASGIApp) -> None:
    with serving(app, Few) as (_, port), ExitStack() as stack:
        for _ in range(6):
            SLOW["half a body"](stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)))
        time.sleep(0.5)  # until all of them are read
        for path, kind, line in (
            ("/", b"text/html", b"Too many visitors"),
            ("/api/x", b"application/json", b"too many"),
        ):
            answer = exchange(port, request("GET", path))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert status_of(answer) == 503
            assert kind in head
            assert b"retry-after: 2" in head.lower()
            assert b"content-security-policy" in head.lower()
            assert line in body


def _cut_off(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


VISITORS, ROUNDS, PATIENCE = 50, 3, 5.0  # seconds


def test_fifty_visitors_are_answered(app: ASGIApp, explorer: Explorer) -> None:
    ids = explorer.catalogue.index("r2r/val_unseen").episodes.ids
    seconds, faults = list[float](), list[str]()

    def ask(path: str, body: dict[str, object] | None = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        request = Request(url.rstrip("/") + path, data, {"Content-Type": "application/json"} if data else {})
        began = time.monotonic()
        with urlopen(request, timeout=30) as answer:
            answer.read()
        seconds.append(time.monotonic() - began)

    def visit(number: int) -> None:
        try:
            ask("/")
            for round_ in range(ROUNDS):
                ask(f"/api/walk?split=r2r/val_unseen&id={ids[(number * ROUNDS + round_) % len(ids)]}")
                ask("/api/walk", typed(explorer, f"go out and stop near door {number} {round_}"))
        except OSError as error:
            faults.append(str(error))

    with serving(app) as (url, _):
        threads = [threading.Thread(target=visit, args=(number,)) for number in range(VISITORS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert faults == []
    assert len(seconds) == VISITORS * (1 + 2 * ROUNDS)
    assert sorted(seconds)[int(0.95 * len(seconds))] < PATIENCE
