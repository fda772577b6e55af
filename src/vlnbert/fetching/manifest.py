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
from vlnbert.sources.files import FORMAT, format_of, open_for_reading
from vlnbert.sources.writing import written_beside

GITHUB = "https://codeload.github.com"  # below it lie archives, as OWNER/NAME/tar.gz/COMMIT
PARTS = {
    "graphs": "navigation graphs of 90 houses",
    "vocabulary": "the words of bert-base-uncased",
    "r2r": "R2R's instructions",
    "landmarks": "which words of R2R's train split name the action and the landmark of each viewpoint",
    "reverie": "REVERIE's instructions, version 1, and the boxes of its objects",
    "captions": "a caption and the detected objects of each of 36 views",
    "observations": "captions along eight headings at three elevations",
}
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
            text = file.read(MOST)
        document = json.loads(text)
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror or 'not gzip'})", INSTALL_AGAIN) from None
    except (EOFError, zlib.error, ValueError, RecursionError):
        raise DataError(path, "is not a whole manifest", INSTALL_AGAIN) from None
    if not isinstance(document, dict):
        raise DataError(path, "is not a manifest", INSTALL_AGAIN)
    format_of(path, document, NEWEST)
    try:
        sources = [_source(record) for record in document["sources"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(path, "is not a whole manifest", INSTALL_AGAIN) from None
    return Manifest(tuple(sources))


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write a manifest; equal manifests give equal bytes."""
    document = {FORMAT: NEWEST, "sources": [_record(source) for source in manifest.sources]}
    with written_beside(path) as temporary:
        text = json.dumps(document, separators=(",", ":")).encode()
        temporary.write_bytes(gzip.compress(text, mtime=0))


def _record(source: Source) -> dict[str, Any]:
    """Files by the folder that they come from, so that it is named once; a name here only where it differs."""
    folders: dict[tuple[str, str, str], dict[str, Any]] = {}
    for file in source.files:
        (there, _, name), (here, _, renamed) = file.upstream.rpartition("/"), file.path.rpartition("/")
        known = folders.setdefault((file.part, there, here), {})
        known[name] = [file.size, file.sha256, *([renamed] if renamed != name else [])]
    listed = [
        {"part": part, "from": there, "to": here, "files": known} for (part, there, here), known in folders.items()
    ]
    return {"repository": source.repository, "commit": source.commit, "folders": listed}


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
