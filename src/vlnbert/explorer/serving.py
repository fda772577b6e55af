"""The server: uvicorn on a socket of ours, with limits on idle connections."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from vlnbert.errors import UsageError, setting
from vlnbert.explorer.guard import MOST_HEADERS, WORKING, Guard
from vlnbert.explorer.requests import COME_BACK, RefusedError

STANDSTILL = WORKING + 5  # seconds in which a connection must begin a request or end an answer
MOST_CONNECTIONS = 400


async def _refuse_one_more(scope: Scope, receive: Receive, send: Send) -> None:
    raise RefusedError(503, "too many visitors at once; try again in a moment", {"Retry-After": COME_BACK})


CROWDED = Guard(_refuse_one_more, hosts=None)


class BoundedConnection(H11Protocol):
    """A connection that is closed at a standstill: a request without end, an answer that is not read.

    Where there are too many, a new one takes the place of the one that has been idle for longest, so that connections
    alone cannot keep other visitors out.
    """

    standstill, most = STANDSTILL, MOST_CONNECTIONS
    _answered, _idle_since = 0, 0.0
    _seen = (0, False)  # how many were answered, and whether one is under way
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        if len(self.connections) > self.most:
            self._make_room()
        self._watch = self.loop.call_later(self.standstill, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._answered += 1
        self._idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def answering(self) -> bool:
        """Whether a request is under way."""
        cycle: Any = self.cycle  # None before the first request, whatever uvicorn's types say
        return cycle is not None and not cycle.response_complete

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, BoundedConnection) and one is not self]
        idle = [one for one in others if not one.answering]
        if idle:
            longest = min(idle, key=lambda one: one._idle_since)
            self.connections.discard(longest)
            longest.transport.abort()
        else:
            self.app = CROWDED

    def _look(self) -> None:
        now = self._answered, self.answering
        if now == self._seen:
            self.transport.abort()
            return
        self._seen = now
        self._watch = self.loop.call_later(self.standstill, self._look)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=512)
        # Without it small answers wait 40 ms to be acknowledged.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (")[0]
        problem = f"{setting('host', host)}, {setting('port', port)} cannot be served ({reason.lower()})"
        raise UsageError(f"{problem}; choose another: {setting('port', 0)} takes any that is free") from None


def address(listening: socket.socket) -> str:
    """The URL to type into a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def server_for(app: ASGIApp, protocol: type[asyncio.Protocol] = BoundedConnection) -> uvicorn.Server:
    """A server within the limits, without headers about itself."""
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=MOST_HEADERS + (4 << 10),
        timeout_keep_alive=10,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def serve(app: ASGIApp, listening: socket.socket, began: Callable[[], Any] | None = None) -> None:
    """Serve until interrupted. `began` is called once visitors are let in."""
    server = server_for(app)

    async def run() -> None:
        task = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        if began is not None and server.started:
            began()
        await task

    asyncio.run(run())
