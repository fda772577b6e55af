"""The explorer with the agent that ships, in a generated house: as an application, and served on the loopback."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from vlnbert.api.exploring import open_explorer
from vlnbert.explorer.app import make_app
from vlnbert.explorer.explorer import Explorer
from vlnbert.explorer.serving import BoundedConnection, address, listen, server_for
from vlnbert.explorer.walk_queue import WalkQueue


@dataclass(frozen=True)
class Served:
    """A page that can be visited."""

    url: str
    port: int
    explorer: Explorer


@pytest.fixture(scope="session")
def explorer() -> Explorer:
    return open_explorer([], device=None, threads=1)


@pytest.fixture(scope="session")
def app(explorer: Explorer) -> Iterator[ASGIApp]:
    queue = WalkQueue(explorer.walk)
    yield make_app(explorer, queue)
    queue.close()


@pytest.fixture
def client(app: ASGIApp) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


class Impatient(BoundedConnection):
    """Cuts off what stands still after a second, so that a test need not wait."""

    standstill = 1.0


@contextmanager
def serving(app: ASGIApp, protocol: type[BoundedConnection] = BoundedConnection) -> Iterator[tuple[str, int]]:
    """Serve an application in a thread while a block lasts: its address and its port."""
    listening = listen("127.0.0.1", 0)
    server = server_for(app, protocol)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield address(listening), listening.getsockname()[1]
    server.should_exit = True
    thread.join(timeout=20)
    listening.close()


@pytest.fixture(scope="session")
def served(app: ASGIApp, explorer: Explorer) -> Iterator[Served]:
    with serving(app, Impatient) as (url, port):
        yield Served(url, port, explorer)


def typed(explorer: Explorer, text: str = "Go to the kitchen and stop.", **changes: Any) -> dict[str, Any]:
    """A request to walk by somebody's own words."""
    world = explorer.data.world
    start = world.names_in(world.scans[0])[0]
    query = {"agent": 0, "task": "r2r", "scan": world.scans[0], "start": start, "heading": 0.5, "text": text}
    return {**query, **changes}
