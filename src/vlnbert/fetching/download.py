"""The bytes at a URL, over https or from a mirror; a connection that breaks off or stalls is told, and continued."""

import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from email.message import Message
from http.client import HTTPException, HTTPResponse
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from vlnbert import __version__
from vlnbert.errors import DataError, UsageError, setting
from vlnbert.progress import say

ATTEMPTS = 5  # at one archive
PAUSE = 1.0  # seconds before the second attempt; doubled before each one after
PATIENCE = 30.0  # seconds without a byte, or with too few, after which a connection is given up
SLOWEST = 1024  # bytes a second
MOST = 1 << 30  # bytes of an archive
CHUNK = 1 << 16
PASSING = (408, 425, 429, 500, 502, 503, 504)  # answers that may be another one the next time
KEPT = "run the same command again: what is there is kept"


class Broken(Exception):
    """A download ended before its end; it may be tried again."""


class SourceError(Exception):
    """One repository cannot be had, or is not what it should be; the others may be."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


class UnreachableError(DataError):
    """No source can be had: there is no network, or no such host."""


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


def or_a_copy() -> str:
    """What helps where a source is not what it should be."""
    return f"try again later, or give a copy with {setting('mirror', 'URL')}"


def checked_base(url: str) -> str:
    """The address below which archives are, as OWNER/NAME/tar.gz/COMMIT."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and url.isprintable()
    except ValueError:
        known = False
    if not known or " " in url:
        raise UsageError(f"the mirror {url!r} is no http or https address; give one such as http://localhost:8000")
    return url.rstrip("/")


def stream(url: str, attempts: Attempts) -> Generator[bytes]:
    """The bytes at a URL. One that breaks off goes on from there if the server can do that; else it is `Broken`."""
    received, tag = 0, ""
    while True:
        asked = {"Range": f"bytes={received}-", "If-Range": tag} if received else {}
        try:
            with _connected(url, asked, attempts) as response:
                if received and not _continues(response, received):
                    tag = ""
                    raise Broken("the host cannot go on where it broke off")
                tag = tag or _tag(response)
                for chunk in _chunks(response):
                    received += len(chunk)
                    if received > MOST:
                        raise SourceError(f"{url} sends more than {MOST >> 20} MB", or_a_copy())
                    yield chunk
            return
        except Broken as why:
            if not (received and tag):
                raise
            attempts.again(why)


def _connected(url: str, headers: Mapping[str, str], attempts: Attempts) -> HTTPResponse:
    request = Request(url, headers={"User-Agent": f"vlnbert/{__version__}", **headers})
    try:
        response: HTTPResponse = _opener().open(request, timeout=PATIENCE)
        return response
    except HTTPError as error:
        with error:
            raise _refused(url, error.code, error.reason) from None
    except URLError as error:
        if attempts.made > 1:  # a network that was there may come back
            raise Broken(f"the host cannot be reached ({_words(error.reason)})") from None
        raise _unreachable(url, error.reason) from None
    except TimeoutError:
        raise Broken(f"nothing came for {PATIENCE:g} s") from None
    except (HTTPException, ConnectionError) as error:
        raise Broken(f"the host hung up ({_words(error)})") from None


def _refused(url: str, code: int, reason: str) -> Exception:
    if code in PASSING:
        return Broken(f"the host answered {code} ({reason})")
    if code in (404, 410):
        remedy = (
            f"upgrade vlnbert, give a copy with {setting('mirror', 'URL')}, or fetch other parts with {setting('only')}"
        )
        return SourceError(f"there is no {url} ({code})", remedy)
    if 300 <= code < 400:
        return SourceError(f"{url} redirects to an address that is not https; it was not followed", or_a_copy())
    return SourceError(f"{url} was refused ({code} {reason})", or_a_copy())


def _unreachable(url: str, reason: object) -> Exception:
    parts = urlsplit(url)
    trusted = "the system's certificates do not trust it" if isinstance(reason, ssl.SSLError) else _words(reason)
    remedy = f"check the network, or give a copy with {setting('mirror', 'URL')}; what is there is kept"
    return UnreachableError(f"{parts.scheme}://{parts.netloc}", f"cannot be reached ({trusted})", remedy)


def _words(error: object) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    """What comes, as it comes; a connection that stalls, trickles or ends early is broken."""
    since, count = time.monotonic(), 0
    while True:
        try:
            chunk = response.read1(CHUNK)
        except TimeoutError:
            raise Broken(f"nothing came for {PATIENCE:g} s") from None
        except (HTTPException, OSError) as error:
            raise Broken(f"the connection was lost ({_words(error)})") from None
        if not chunk:
            break
        yield chunk
        count += len(chunk)
        if time.monotonic() - since > PATIENCE:
            if count < SLOWEST * PATIENCE:
                raise Broken(f"only {count:,} bytes came in {PATIENCE:g} s")
            since, count = time.monotonic(), 0
    if response.length:
        raise Broken(f"the last {response.length:,} bytes did not come")


def _tag(response: HTTPResponse) -> str:
    """What names these very bytes, where the server can go on in the midst of them; weak tags do not."""
    tag = response.headers.get("ETag", "")
    return tag if response.headers.get("Accept-Ranges") == "bytes" and tag.startswith('"') else ""


def _continues(response: HTTPResponse, received: int) -> bool:
    return response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {received}-")


class _Redirects(HTTPRedirectHandler):
    """Followed to https, and to http only from a mirror that is http itself."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme not in {"https", req.type}:
            raise HTTPError(req.full_url, code, "redirects elsewhere", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]  # as it came


def _opener() -> OpenerDirector:
    """urllib's own would also open files and ftp."""
    opener = OpenerDirector()
    handlers: tuple[Any, ...] = (ProxyHandler, UnknownHandler, HTTPHandler, HTTPSHandler)
    for handler in (*handlers, HTTPDefaultErrorHandler, HTTPErrorProcessor, _Redirects):
        opener.add_handler(handler())
    return opener
