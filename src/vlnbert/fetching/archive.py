"""The files in a gzipped tar that comes as a stream. It is untrusted: everything that it declares is bounded."""

import tarfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vlnbert.fetching.download import Broken, SourceError

BLOCK = tarfile.BLOCKSIZE
PIECE = 1 << 18  # bytes that are unpacked at a time
MOST = 2 << 30  # bytes of an unpacked archive
MOST_MEMBERS = 100_000  # of an archive, with the headers that hold their names
MOST_NAME = 1 << 16  # bytes of a header that holds a long name
REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)
WITHOUT_CONTENT = (
    *(tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE),
    *(tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE),
)


@dataclass(frozen=True)
class Member:
    """A member of an archive. Its content can be read once, before the next member is."""

    path: str  # below the folder that holds the whole archive
    size: int
    regular: bool  # a plain file; no link, no device
    content: Iterator[memoryview]


def members(chunks: Iterable[bytes]) -> Iterator[Member]:
    """The members of an archive, in its order. One that is cut off is `Broken`, one that is no archive an error."""
    plain, long_name = _Pieces(_unpacked(chunks)), ""
    for _ in range(MOST_MEMBERS):
        block = plain.take(BLOCK)
        # The end.
        if not any(block):
            return
        try:
            head = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            raise SourceError("what came is not a tar archive") from None
        size = 0 if head.type in WITHOUT_CONTENT else head.size
        if size < 0:
            raise SourceError("the archive holds a file of less than no bytes")
        # This header comes before the member that it names.
        if head.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
            if size > MOST_NAME:
                raise SourceError("the archive holds a name that is too long")
            long_name = _long_name(head.type, plain.take(size)) or long_name
        else:
            name, content, long_name = long_name or head.name, plain.pour(size), ""
            if name.startswith("/") or ".." in name.split("/"):
                raise SourceError(f"the archive holds a file that would lie outside of it, {name[:200]!r}")
            # Without the outermost folder, NAME-COMMIT at GitHub.
            yield Member(name.partition("/")[2], size, head.type in REGULAR, content)
            # The rest of a member that was not read.
            deque(content, maxlen=0)
        plain.take(-size % BLOCK)
    raise SourceError(f"the archive holds more than {MOST_MEMBERS:,} members")


def _unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The unpacked bytes, in pieces of bounded size."""
    unzip, count = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), 0
    for chunk in chunks:
        while chunk and not unzip.eof:
            try:
                piece = unzip.decompress(chunk, PIECE)
            except zlib.error:
                raise SourceError("the archive is damaged" if count else "what came is not a gzip archive") from None
            count += len(piece)
            if count > MOST:
                raise SourceError(f"the archive unpacks to more than {MOST >> 20} MB")
            chunk = unzip.unconsumed_tail
            yield piece
        # What comes behind the end is not read.
        if unzip.eof:
            return
    raise Broken("the archive ended early")


class _Pieces:
    """Bytes that come in pieces of any size, taken in pieces of other sizes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces, self.held = pieces, memoryview(b"")

    def pour(self, size: int) -> Iterator[memoryview]:
        """The next `size` bytes, in pieces."""
        while size:
            if not self.held:
                piece = next(self.pieces, None)
                if piece is None:
                    raise Broken("the archive ended early")
                self.held = memoryview(piece)
            taken, self.held = self.held[:size], self.held[size:]
            size -= len(taken)
            yield taken

    def take(self, size: int) -> bytes:
        """The next `size` bytes, which are few, at once."""
        return b"".join(self.pour(size))


def _long_name(kind: bytes, text: bytes) -> str:
    """The name in a header of a long name: all of it, or its record `LENGTH path=NAME`."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        return text.rstrip(b"\0").decode(errors="surrogateescape")
    for line in text.split(b"\n"):
        key, _, value = line.partition(b" ")[2].partition(b"=")
        if key == b"path":
            return value.decode(errors="surrogateescape")
    return ""
