"""The bytes at a URL, over https or from a mirror; a connection that breaks off or stalls is told, and continued."""

import re
import time
from collections.abc import Generator, Iterator
from http.client import HTTPException, HTTPResponse

from vlnbert.errors import UsageError
from vlnbert.fetching.connection import Broken, SourceError, answer, is_address, words
from vlnbert.progress import say

ATTEMPTS = 5  # at one archive
PAUSE = 1.0  # seconds before the second attempt; doubled before each one after
CHUNK = 1 << 16
KEPT = "run the same command again: what is there is kept"
STRONG_TAG = re.compile(r'"[!#-~]{1,200}"')


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


def checked_base(url: str) -> str:
    """The address below which archives are, as OWNER/NAME/tar.gz/COMMIT."""
    if not is_address(url):
        raise UsageError(f"the mirror {url!r} is no http or https address; give one such as http://localhost:8000")
    return url.rstrip("/")


def stream(url: str, attempts: Attempts) -> Generator[bytes]:
    """The bytes at a URL. One that breaks off goes on from there if the server can do that; else it is `Broken`."""
    received, tag = 0, ""
    while True:
        asked = {"Range": f"bytes={received}-", "If-Range": tag} if received else {}
        try:
            with answer(url, asked, before=attempts.made > 1) as response:
                if received and not _continues(response, received):
                    tag = ""
                    raise Broken("the host cannot go on where it broke off")
                tag = tag or _tag(response)
                for chunk in _chunks(response):
                    received += len(chunk)
                    yield chunk
            return
        except Broken as why:
            if not (received and tag):
                raise
            attempts.again(why)


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    """What comes, as it comes; a connection that ends early is broken."""
    try:
        while chunk := response.read1(CHUNK):
            yield chunk
    except (HTTPException, OSError) as error:
        raise Broken(f"the connection was lost ({words(error)})") from None
    if response.length:
        raise Broken(f"the last {response.length:,} bytes did not come")


def _tag(response: HTTPResponse) -> str:
    """What names these very bytes, where the server can go on in the midst of them; weak tags do not."""
    tag = response.headers.get("ETag", "")
    return tag if response.headers.get("Accept-Ranges") == "bytes" and STRONG_TAG.fullmatch(tag) else ""


def _continues(response: HTTPResponse, received: int) -> bool:
    return response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {received}-")
