"""Fetch the missing files of the open data, repository by repository; each is put in its place once it is verified."""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, Faults, UsageError, setting
from vlnbert.fetching.archive import members
from vlnbert.fetching.download import KEPT, Attempts, Broken, SourceError, is_address, stream
from vlnbert.fetching.manifest import GITHUB, ListedFile, Manifest, Source
from vlnbert.progress import Bar, say, track
from vlnbert.sources.writing import written_beside
from vlnbert.tables import Table, Tabled

BLOCK = 4096  # bytes by which most disks allocate
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WRONG = "{} is not the file that the manifest lists; it was not kept"
TERMS = (
    "All of it derives from Matterport3D, whose terms are academic and non-commercial: "
    "do not pass it on, and cite those who made it."
)


@dataclass(frozen=True)
class FetchedPart:
    """The share of one repository in one part of the data."""

    part: str
    repository: str
    commit: str
    url: str
    files: int
    bytes: int
    missing_files: int  # before anything was fetched
    missing_bytes: int


@dataclass(frozen=True, repr=False)
class FetchReport(Tabled):
    """The files fetched into a data folder, or to be fetched."""

    folder: Path
    parts: tuple[FetchedPart, ...]
    dry_run: bool

    @property
    def missing_bytes(self) -> int:
        return sum(part.missing_bytes for part in self.parts)

    def table(self) -> Table:
        """A row for each part and repository."""
        state = "to fetch" if self.dry_run else "fetched"
        rows = []
        for part in self.parts:
            counts = f"{part.files:,}", f"{part.bytes / 1e6:,.1f}", f"{part.missing_files:,}"
            rows.append([part.part, part.repository, part.commit[:7], *counts])
        return Table(["part", "from", "commit", "files", "MB", state], rows, str(self.folder), TERMS)

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        totals = {"folder": str(self.folder), "dry_run": self.dry_run, "missing_bytes": self.missing_bytes}
        return {**totals, "parts": [vars(part) for part in self.parts]}


def fetch(
    folder: Path, manifest: Manifest, *, only: Iterable[str] = (), mirror: str = GITHUB, dry_run: bool = False
) -> FetchReport:
    """Fetch the files of a manifest into a folder. Correct files are kept; nothing is ever overwritten."""
    if not is_address(mirror):
        raise UsageError(f"the mirror {mirror!r} is no http or https address; give one such as http://localhost:8000")
    base, wanted = mirror.rstrip("/"), manifest.only(only)
    missing = missing_files(folder, (file for source in wanted.sources for file in source.files))
    report = FetchReport(folder, tuple(_fetched_parts(wanted, base, set(missing))), dry_run)
    if dry_run or not missing:
        return report
    require_room(folder, missing)
    faults, lacking = Faults(folder), set(missing)
    with Bar("fetching", report.missing_bytes) as bar:
        for source in wanted.sources:
            needed = {file.upstream: file for file in source.files if file in lacking}
            try:
                _fetch_source(folder, source, source.url(base), needed, bar)
            # The others may still be fetched.
            except SourceError as error:
                faults.add(source.repository, error.problem, error.remedy)
            except KeyboardInterrupt:
                say(f"{folder}: not all of it is there; {KEPT}")
                raise
    faults.raise_if_any()
    return report


def _fetch_source(folder: Path, source: Source, url: str, needed: dict[str, ListedFile], bar: Bar) -> None:
    """Read a repository's archive up to the last needed file; where it breaks off, again for what is still needed."""
    attempts = Attempts(source.repository)
    if needed:
        say(f"{source.repository}: {len(needed):,} files, {sum(file.size for file in needed.values()) / 1e6:,.1f} MB")
    while needed:
        try:
            with closing(stream(url, attempts)) as chunks:
                for member in members(chunks):
                    if member.path in needed:
                        file = needed[member.path]
                        if not member.regular:
                            raise SourceError(f"{file.upstream} is a link or a folder there, where a file is expected")
                        if member.size != file.size:
                            raise SourceError(WRONG.format(file.upstream))
                        write_verified(folder, file, member.content)
                        bar.update(bar.done + needed.pop(member.path).size, source.repository)
                    if not needed:
                        return
        except Broken as why:
            attempts.again(why)
        else:
            more = f" and {len(needed) - 1:,} more files" if len(needed) > 1 else ""
            raise SourceError(f"the archive lacks {next(iter(needed))}{more}")


def _fetched_parts(manifest: Manifest, base: str, missing: set[ListedFile]) -> Iterator[FetchedPart]:
    """By part, in the manifest's order, then by repository."""
    for name in manifest.parts:
        for source in manifest.sources:
            files = [file for file in source.files if file.part == name]
            lacking = [file for file in files if file in missing]
            if files:
                counts = [count for some in (files, lacking) for count in (len(some), sum(file.size for file in some))]
                yield FetchedPart(name, source.repository, source.commit, source.url(base), *counts)


def missing_files(folder: Path, listed: Iterable[ListedFile]) -> list[ListedFile]:
    """The listed files that are missing. Other files in their places are the user's: they are refused by name."""
    if folder.exists() and not folder.is_dir():
        raise DataError(folder, "is not a folder", "choose another name")
    missing, others = list[ListedFile](), dict[str, list[Path]]()
    for file in track(list(listed), "looking at what is there"):
        path = folder / file.path
        above = [folder.joinpath(*file.path.split("/")[:depth]) for depth in range(1, file.path.count("/") + 1)]
        if blocked := [parent for parent in above if os.path.lexists(parent) and not parent.is_dir()]:
            others.setdefault(file.part, []).append(blocked[0])
        elif not os.path.lexists(path):
            missing.append(file)
        elif not _is_listed(path, file):
            others.setdefault(file.part, []).append(path)
    faults = Faults(folder)
    for part, paths in others.items():
        distinct = len(set(paths))
        more = f", nor are {distinct - 1:,} more files of part {part}" if distinct > 1 else ""
        remedy = f"it is never overwritten: move it away, or fetch other parts with {setting('only')}"
        faults.add("", f"is not the published file{more}", remedy, paths[0])
    faults.raise_if_any()
    return missing


def require_room(folder: Path, missing: Iterable[ListedFile]) -> None:
    """Check free disk space before anything is fetched."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.is_dir())
    needed = sum(file.size + -file.size % BLOCK for file in missing)
    free = shutil.disk_usage(existing).free
    if free < needed:
        problem = f"needs {needed / 1e6:,.1f} MB and the disk has {free / 1e6:,.1f} MB left"
        remedy = f"free some space, choose another folder, or fetch fewer parts with {setting('only')}"
        raise DataError(folder, problem, remedy)


def write_verified(folder: Path, file: ListedFile, content: Iterable[memoryview]) -> None:
    """Write a file beside its place, and rename it once all of it is there and right."""
    path, digest, size = folder / file.path, hashlib.sha256(), 0
    with written_beside(path, sweeping=False) as temporary:
        try:
            with temporary.open("wb") as out:
                for piece in content:
                    digest.update(piece)
                    size += len(piece)
                    out.write(piece)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise DataError(path, f"cannot be written ({error.strerror})", f"free some space, then {KEPT}") from None
        if (size, digest.hexdigest()) != (file.size, file.sha256):
            raise SourceError(WRONG.format(file.upstream))
        if os.path.lexists(path):
            raise DataError(path, "was written by another program meanwhile", KEPT)


def _is_listed(path: Path, file: ListedFile) -> bool:
    """Whether a file holds exactly the listed bytes; one of another size need not be read."""
    with suppress(OSError):
        if not path.is_file() or path.stat().st_size != file.size:
            return False
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
    raise DataError(path, "cannot be read", "check the file and its permissions")
