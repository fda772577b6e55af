"""The manifest: each file of the open data by repository, size and SHA-256, as its publishers have it."""

import gzip
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, UnknownNameError
from vlnbert.sources.files import format_of, open_for_reading

GITHUB = "https://codeload.github.com"  # below it lie archives, as OWNER/NAME/tar.gz/COMMIT
NEWEST = 1  # format of the manifest
SHIPPED = Path(str(files("vlnbert.fetching"))) / "manifest.json.gz"
MOST = 64 << 20  # bytes of an unpacked manifest
LARGEST = 1 << 40  # bytes of a listed file
INSTALL_AGAIN = "install vlnbert again"
SAFE_PATH = re.compile(r"(?!\.)[\w.-]+(/(?!\.)[\w.-]+)*")  # relative, without .. and hidden names


@dataclass(frozen=True)
class ListedFile:
    """A file that is fetched."""

    part: str
    upstream: str  # its path in the repository
    path: str  # its path in the data folder
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """The files taken from a repository at a commit."""

    repository: str
    commit: str
    files: tuple[ListedFile, ...]

    def url(self, base: str) -> str:
        """The address of its archive, below GitHub's or a mirror's."""
        return f"{base}/{self.repository}/tar.gz/{self.commit}"


@dataclass(frozen=True)
class Manifest:
    """All sources of the open data."""

    sources: tuple[Source, ...]

    @property
    def parts(self) -> list[str]:
        """Their names, in order of appearance."""
        return list(dict.fromkeys(file.part for source in self.sources for file in source.files))

    def only(self, parts: Iterable[str]) -> "Manifest":
        """A manifest of some parts; of all where none is named."""
        wanted = set(parts)
        for name in sorted(wanted.difference(self.parts)):
            raise UnknownNameError("part", name, self.parts)
        if not wanted:
            return self
        taken = (
            Source(source.repository, source.commit, tuple(file for file in source.files if file.part in wanted))
            for source in self.sources
        )
        return Manifest(tuple(source for source in taken if source.files))


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest, such as the one `SHIPPED` with the package."""
    try:
        with open_for_reading(path, "manifest") as packed, gzip.open(packed) as file:
            document = json.loads(file.read(MOST))
        if not isinstance(document, dict):
            raise DataError(path, "is not a manifest", INSTALL_AGAIN)
        format_of(path, document, NEWEST)
        return Manifest(tuple(map(_source, document["sources"])))
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror or 'not gzip'})", INSTALL_AGAIN) from None
    except (EOFError, zlib.error, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise DataError(path, "is not a whole manifest", INSTALL_AGAIN) from None


def _source(record: dict[str, Any]) -> Source:
    found = list[ListedFile]()
    for folder in record["folders"]:
        for name, (size, sha256, *renamed) in folder["files"].items():
            upstream = _joined(folder["from"], name)
            path = _joined(folder["to"], *(renamed or [name]))
            if type(size) is not int or not 0 <= size <= LARGEST or not re.fullmatch("[0-9a-f]{64}", sha256):
                raise ValueError(name)
            found.append(ListedFile(str(folder["part"]), upstream, path, size, sha256))
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", record["repository"]) or not re.fullmatch(r"\w+", record["commit"]):
        raise ValueError(record["repository"])
    return Source(record["repository"], record["commit"], tuple(found))


def _joined(folder: str, name: str) -> str:
    path = f"{folder}/{name}" if folder else name
    if not SAFE_PATH.fullmatch(path):
        raise ValueError(path)
    return path
