"""The guard before every page: it lets requests pass to our own name, from our own page, small and in time."""

import asyncio
import logging
from dataclasses import dataclass
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vlnbert.explorer.pages import trouble_page
from vlnbert.explorer.requests import RefusedError

API = "/api/"  # where scripts send requests, rather than people
METHODS = ("GET", "HEAD", "POST")
MOST_URL = 4096  # bytes of path and query; a typed instruction of 1,000 letters fits
MOST_HEADERS = 16 << 10  # bytes
MOST_BODY = 16 << 10  # bytes
READING = 5.0  # seconds in which a body must be there
WORKING = 15.0  # seconds for an answer
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(path: str, error: RefusedError) -> Response:
    """The answer to a request that is not served: JSON for scripts, a page for people."""
    if path.startswith(API):
        return JSONResponse({"error": error.line}, error.status, error.headers)
    return HTMLResponse(trouble_page(error.line), error.status, error.headers)


@dataclass
class Guard:
    """An ASGI application around another, which refuses requests of other pages and names.

    A request by DNS rebinding has a Host of another name, and a post from another page an Origin of its own: both are
    refused. With `hosts` None, any Host will do: for pages that are served beyond the loopback, under
    names that are not known here.
    """

    app: ASGIApp
    hosts: frozenset[str] | None = LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send)
        try:
            self._check(scope)
            body = await _read_body(Headers(scope=scope), receive)
            async with asyncio.timeout(WORKING):
                await self.app(scope, _replay(body, receive), answer.send)
        except TimeoutError:
            await answer.refuse(scope, receive, RefusedError(504, "this took too long; try again"))
        except RefusedError as error:
            await answer.refuse(scope, receive, error)
        # A fault of ours: the visitor learns nothing of it, and others are served on.
        except Exception:
            log.exception("a request failed")
            fault = RefusedError(500, "something went wrong here; the server's log has more")
            await answer.refuse(scope, receive, fault)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
            raise RefusedError(431, "the headers are too long")
        if len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"]) > MOST_URL:
            raise RefusedError(414, "the address is too long")
        if scope["method"] not in METHODS:
            raise RefusedError(405, f"use {', '.join(METHODS)}", {"Allow": ", ".join(METHODS)})
        host = headers.get("host", "")
        name, colon, port = host.lower().rpartition(":")
        if self.hosts is not None and (name if colon and port.isdigit() else host.lower()) not in self.hosts:
            raise RefusedError(421, "this page is served under another name; use the address that was printed")
        _refuse_other_pages(scope, headers, host)


def _refuse_other_pages(scope: Scope, headers: Headers, host: str) -> None:
    """Other people's pages may link here, and no more: no picture, frame or script of theirs lets agents walk."""
    origin, foreign = headers.get("origin"), headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if foreign and (scope["path"].startswith(API) or not link):
        raise RefusedError(403, "another page asked for this; open it here")
    if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
        raise RefusedError(403, "another page asked for this; open it here")
    if scope["method"] == "POST" and headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise RefusedError(415, "send JSON, as application/json")


async def _read_body(headers: Headers, receive: Receive) -> bytes:
    """The whole body, if it is small and comes in time."""
    length = headers.get("content-length", "0")
    if not length.isdigit() or len(length) > 12 or int(length) > MOST_BODY:
        raise RefusedError(413, f"the body is too large; {MOST_BODY:,} bytes are read at most")
    if length == "0" and "transfer-encoding" not in headers:
        return b""
    body = bytearray()
    try:
        async with asyncio.timeout(READING):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > MOST_BODY:
                    raise RefusedError(413, f"the body is too large; {MOST_BODY:,} bytes are read at most")
                if message["type"] != "http.request" or not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise RefusedError(408, "the body came too slowly") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receiver that gives a body once, then what comes next."""
    waiting = [body]

    async def next_message() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return next_message


class _Answer:
    """Sends an answer with the common headers; once begun, it cannot be refused any more."""

    def __init__(self, send: Send) -> None:
        self._send, self._begun = send, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self, scope: Scope, receive: Receive, error: RefusedError) -> None:
        if self._begun:
            return
        response = refusal(scope["path"], error)
        # What else the visitor was sending is not read.
        response.headers["Connection"] = "close"
        await response(scope, receive, self.send)
