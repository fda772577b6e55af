"""Digests of a folder's files, kept in it as `digests.json`: what was damaged since is noticed when it is read.

They are against accidents: whoever can change a file can change its digest too. So they are XXH3's, of 128 bits, which
find a flipped bit as fast as memory is read. Folders without digests, older ones or other people's, open unchecked.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from xxhash import xxh3_128

from vlnbert.errors import DataError
from vlnbert.sources.files import read_json, write_json
from vlnbert.sources.formats import FORMAT, NewerFormatError, format_of

DIGESTS = "digests.json"
NEWEST = 1  # format of digests.json
KEYS = {FORMAT, "files", "digest"}
CHUNK = 1 << 20  # bytes that are read at a time


class DigestError(DataError):
    """A file is not the one that was written, by its digest."""

    def __init__(self, path: Path, problem: str = "is not what was written, by its digest") -> None:
        remedy = f"take a whole copy of the folder or, if you changed it on purpose, delete its {DIGESTS}"
        super().__init__(path, problem, remedy)


@contextmanager
def noting(folder: Path, *names: str) -> Iterator[None]:
    """Note the digests of files that the block writes. Until it has ended, nothing is noted of any file."""
    noted = dict[str, str]()
    with suppress(DataError):  # damaged ones are written anew
        noted = {name: digest for name, digest in read_digests(folder).items() if name not in names}
    (folder / DIGESTS).unlink(missing_ok=True)
    yield
    noted |= {name: _of_file(folder / name) for name in names if (folder / name).exists()}
    write_json(folder / DIGESTS, {FORMAT: NEWEST, "files": noted, "digest": _of_document(noted)}, indent=2)


def read_digests(folder: Path) -> dict[str, str]:
    """The digests that are noted in a folder, by the names of the files; none where it has none."""
    path = folder / DIGESTS
    if not path.exists():
        return {}
    try:
        document = read_json(path, "digests")
        if isinstance(document, dict) and format_of(path, document, NEWEST) and document.keys() == KEYS:
            files = document["files"]
            if isinstance(files, dict) and document["digest"] == _of_document(files):
                return files
    except NewerFormatError:
        raise
    except DataError:
        pass
    raise DigestError(path)


def check_file(path: Path) -> None:
    """Refuse a file that is not the one whose digest was noted, if one was."""
    noted = read_digests(path.parent).get(path.name)
    if noted is not None and path.is_file() and noted != _of_file(path):
        raise DigestError(path)


def _of_document(document: Any) -> str:
    return xxh3_128(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _of_file(path: Path) -> str:
    digest, chunk = xxh3_128(), memoryview(bytearray(CHUNK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(chunk):
            digest.update(chunk[:count])
    return digest.hexdigest()
