"""The bytes at a URL, over https or from a mirror that may be hostile: waits and sizes are bounded, head and body.

A connection that breaks off or stalls is reported, and continued.
"""

import re
import string
import time
from collections.abc import Generator, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import socket
from ssl import SSLCertVerificationError
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, UnknownHandler

from vlnbert import __version__
from vlnbert.errors import DataError, cut, setting
from vlnbert.progress import say

# Seconds: for the head of an answer, for the next byte of its body, and between two looks at the rate.
PATIENCE = 30.0
SLOWEST = 1024  # bytes a second
MOST_HEAD = 1 << 18  # bytes before the body
MOST = 1 << 30  # bytes of an answer
MOST_REDIRECTS = 5
MOST_WORDS = 100  # characters of a host's message that are quoted
PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers that may differ the next time
TOO_MUCH, ENDLESS_HEAD = "the host sends more than {} MB", "the host sends headers without an end"
REDIRECTS = (301, 302, 303, 307, 308)
ATTEMPTS = 5  # at an archive
PAUSE = 1.0  # seconds before the second attempt; doubled before each one after
CHUNK = 1 << 16
KEPT = "run the same command again: what is there is kept"
STRONG_TAG = re.compile(r'"[!#-~]{1,200}"')


class Broken(Exception):
    """A download ended before its end; it may be tried again."""


class SourceError(Exception):
    """One repository cannot be fetched, or has other content than expected; the others may be fine."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy or f"try again later, or give a copy with {setting('mirror', 'URL')}"


def is_address(url: str) -> bool:
    """Whether a URL is an http or https address without a password."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    # No password; and urllib would undo quoting there.
    plain = not set("@%") & set(parts.netloc)
    return bool(known) and plain and url.isascii() and url.isprintable() and " " not in url


def answer(url: str, headers: Mapping[str, str], before: bool) -> HTTPResponse:
    """The answer to a request, behind all redirects; `before` says that the host was reached before."""
    address = url
    for hop in range(MOST_REDIRECTS + 1):
        response = _one_answer(address, headers, before or hop > 0)
        if 200 <= response.status < 300:
            return response
        response.close()
        if response.status not in REDIRECTS:
            code, reason = response.status, cut(response.reason, MOST_WORDS)
            if code in PASSING:
                raise Broken(f"the host answered {code} ({reason})")
            if code in (404, 410):
                copy, parts = setting("mirror", "URL"), setting("only")
                remedy = f"upgrade vlnbert, give a copy with {copy}, or fetch other parts with {parts}"
                raise SourceError(f"there is no {url} ({code})", remedy)
            raise SourceError(f"{url} was refused ({code} {reason})")
        address = _redirected(url, address, response.headers.get("Location", ""))
    raise SourceError(f"{url} redirects more than {MOST_REDIRECTS} times")


def words(error: object) -> str:
    """The message of an error, which may quote the host."""
    return cut(str(getattr(error, "strerror", None) or error or type(error).__name__), MOST_WORDS)


def _one_answer(url: str, headers: Mapping[str, str], before: bool) -> HTTPResponse:
    request = Request(url, headers={"User-Agent": f"vlnbert/{__version__}", **headers})
    # urllib's own opener also opens files and ftp, and reads the body of a redirect.
    opener = OpenerDirector()
    for handler in (ProxyHandler(), UnknownHandler(), _Handler()):
        opener.add_handler(handler)
    try:
        response: HTTPResponse = opener.open(request, timeout=PATIENCE)
        return response
    except URLError as error:
        # A network that was there may come back.
        if before:
            raise Broken(f"the host cannot be reached ({words(error.reason)})") from None
        untrusted = isinstance(error.reason, SSLCertVerificationError)
        why = "the system's certificates do not trust it" if untrusted else words(error.reason)
        remedy = f"check the network, or give a copy with {setting('mirror', 'URL')}; what is there is kept"
        host = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        raise DataError(host, f"cannot be reached ({why})", remedy) from None
    except (HTTPException, OSError) as error:
        raise Broken(f"the host hung up ({words(error)})") from None


def _redirected(url: str, address: str, location: str) -> str:
    """Where a redirect leads: to https, and to http only from a mirror that is http itself."""
    try:
        target = urljoin(address, quote(location, safe=string.punctuation, encoding="iso-8859-1"))
    except ValueError:
        target = ""
    if not location or not is_address(target) or urlsplit(target).scheme not in ("https", urlsplit(address).scheme):
        quoted = repr(cut(location, MOST_WORDS)) if location else "it names none"
        raise SourceError(f"{url} redirects to an address that is not https ({quoted}); not followed")
    return target


class _Watched(RawIOBase):
    """A socket's bytes: the head of an answer within a time, its body at a rate, both of bounded size."""

    def __init__(self, connection: socket, raw: Any) -> None:
        self.connection, self.raw = connection, raw
        self.in_head, self.came, self.waited, self.since_look = True, 0, 0.0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Only the time spent waiting counts: the disk may be slow, too."""
        left = PATIENCE - self.waited if self.in_head else PATIENCE
        began = time.monotonic()
        try:
            # A timeout of 0 would not wait at all.
            self.connection.settimeout(max(left, 1e-3))
            count: int = self.raw.readinto(buffer)
        except TimeoutError:
            what = "no whole answer" if self.in_head and self.came else "nothing"
            raise Broken(f"{what} came for {PATIENCE:g} s") from None
        self.waited += time.monotonic() - began
        self.came += count
        self.since_look += count
        if self.came > (MOST_HEAD if self.in_head else MOST):
            raise SourceError(ENDLESS_HEAD if self.in_head else TOO_MUCH.format(MOST >> 20))
        if self.waited > PATIENCE:
            if self.in_head:
                raise Broken(f"no whole answer came for {PATIENCE:g} s")
            if self.since_look < SLOWEST * PATIENCE:
                raise Broken(f"only {self.since_look:,} bytes came in {PATIENCE:g} s")
            self.waited, self.since_look = 0.0, 0
        return count

    def close(self) -> None:
        self.raw.close()
        super().close()


class _Response(HTTPResponse):
    def __init__(self, sock: socket, *values: Any, **named: Any) -> None:
        super().__init__(sock, *values, **named)
        self.watched = _Watched(sock, self.fp.detach())
        self.fp = BufferedReader(self.watched)

    def begin(self) -> None:
        super().begin()
        self.watched.in_head, self.watched.waited, self.watched.since_look = False, 0.0, 0
        if (self.length or 0) > MOST:
            raise SourceError(TOO_MUCH.format(MOST >> 20))


class _PlainConnection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class _Handler(HTTPHandler, HTTPSHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PlainConnection, req)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req)


class Attempts:
    """Counts how often an archive was tried, and waits longer each time."""

    def __init__(self, what: str) -> None:
        self.what, self.made = what, 1

    def again(self, why: Broken) -> None:
        if self.made >= ATTEMPTS:
            raise SourceError(f"given up after {ATTEMPTS} attempts: {why}", KEPT)
        say(f"{self.what}: {why}; trying again")
        time.sleep(PAUSE * 2 ** (self.made - 1))
        self.made += 1


def stream(url: str, attempts: Attempts) -> Generator[bytes]:
    """The bytes at a URL. A download that breaks off is continued if the server can do that; else it is `Broken`."""
    received, tag = 0, ""
    while True:
        headers = {"Range": f"bytes={received}-", "If-Range": tag} if received else {}
        try:
            with answer(url, headers, before=attempts.made > 1) as response:
                rest = response.headers.get("Content-Range", "").startswith(f"bytes {received}-")
                if received and not (response.status == 206 and rest):
                    tag = ""
                    raise Broken("the host cannot go on where it broke off")
                # A strong tag names these very bytes, where the server can continue within them.
                strong = STRONG_TAG.fullmatch(response.headers.get("ETag", ""))
                tag = tag or (strong[0] if strong and response.headers.get("Accept-Ranges") == "bytes" else "")
                for chunk in _chunks(response):
                    received += len(chunk)
                    yield chunk
            return
        except Broken as why:
            if not (received and tag):
                raise
            attempts.again(why)


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    """The body of an answer in chunks; a connection that ends early is broken."""
    try:
        while chunk := response.read1(CHUNK):
            yield chunk
    except (HTTPException, OSError) as error:
        raise Broken(f"the connection was lost ({words(error)})") from None
    if response.length:
        raise Broken(f"the last {response.length:,} bytes did not come")
