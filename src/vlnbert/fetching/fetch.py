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

from vlnbert.errors import DataError, Faults, setting
from vlnbert.fetching.archive import Member, members
from vlnbert.fetching.download import KEPT, Attempts, Broken, SourceError, checked_base, or_a_copy, stream
from vlnbert.fetching.manifest import GITHUB, ListedFile, Manifest, Source
from vlnbert.progress import Bar, say, track
from vlnbert.sources.writing import written_beside
from vlnbert.tables import Table, Tabular

BLOCK = 4096  # bytes by which most disks allocate
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
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
class FetchReport(Tabular):
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
        rows = [
            [
                part.part,
                part.repository,
                part.commit[:7],
                f"{part.files:,}",
                f"{part.bytes / 1e6:,.1f}",
                f"{part.missing_files:,}",
            ]
            for part in self.parts
        ]
        return Table(["part", "from", "commit", "files", "MB", state], rows, str(self.folder), TERMS)

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        parts = [vars(part) for part in self.parts]
        return {
            "folder": str(self.folder),
            "dry_run": self.dry_run,
            "missing_bytes": self.missing_bytes,
            "parts": parts,
        }


def fetch(
    folder: Path, manifest: Manifest, *, only: Iterable[str] = (), mirror: str = GITHUB, dry_run: bool = False
) -> FetchReport:
    """Fetch the files of a manifest into a folder. Correct files are kept; nothing is ever overwritten."""
    base, wanted = checked_base(mirror), manifest.only(only)
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
            except SourceError as error:  # the others may still be fetched
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
                        _write_member(folder, needed[member.path], member)
                        bar.update(bar.done + needed.pop(member.path).size, source.repository)
                    if not needed:
                        return
        except Broken as why:
            attempts.again(why)
        else:
            more = f" and {len(needed) - 1:,} more files" if len(needed) > 1 else ""
            raise SourceError(f"the archive lacks {next(iter(needed))}{more}", or_a_copy())


def _write_member(folder: Path, file: ListedFile, member: Member) -> None:
    if not member.regular:
        raise SourceError(f"{file.upstream} is a link or a folder there, where a file is expected", or_a_copy())
    try:
        if member.size != file.size:
            raise WrongContentError
        write_verified(folder, file, member.content)
    except WrongContentError:
        raise SourceError(
            f"{file.upstream} is not the file that the manifest lists; it was not kept", or_a_copy()
        ) from None


def _fetched_parts(manifest: Manifest, base: str, missing: set[ListedFile]) -> Iterator[FetchedPart]:
    """By part, in the manifest's order, then by repository."""
    for name in manifest.parts:
        for source in manifest.sources:
            files = [file for file in source.files if file.part == name]
            lacking = [file for file in files if file in missing]
            if files:
                yield FetchedPart(
                    part=name,
                    repository=source.repository,
                    commit=source.commit,
                    url=source.url(base),
                    files=len(files),
                    bytes=sum(file.size for file in files),
                    missing_files=len(lacking),
                    missing_bytes=sum(file.size for file in lacking),
                )


class WrongContentError(Exception):
    """A file that is not the one that the manifest lists."""


def missing_files(folder: Path, listed: Iterable[ListedFile]) -> list[ListedFile]:
    """The listed files that are missing. Other files in their places are the user's: they are refused by name."""
    if folder.exists() and not folder.is_dir():
        raise DataError(folder, "is not a folder", "choose another name")
    missing, others = list[ListedFile](), dict[str, list[Path]]()
    for file in track(list(listed), "looking at what is there"):
        path = folder / file.path
        blocked = next(
            (parent for parent in _below(folder, path) if os.path.lexists(parent) and not parent.is_dir()), None
        )
        if blocked is not None:
            others.setdefault(file.part, []).append(blocked)
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
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.is_dir())
    needed = sum(file.size + -file.size % BLOCK for file in missing)
    free = shutil.disk_usage(there).free
    if free < needed:
        problem = f"needs {_megabytes(needed)} and the disk has {_megabytes(free)} left"
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
            if error.errno in NO_ROOM:
                raise DataError(
                    path, f"cannot be written ({error.strerror})", f"free some space, then {KEPT}"
                ) from None
            raise
        if (size, digest.hexdigest()) != (file.size, file.sha256):
            raise WrongContentError
        if os.path.lexists(path):  # another program wrote it meanwhile
            raise DataError(path, "was written by another program meanwhile", KEPT)


def _below(folder: Path, path: Path) -> list[Path]:
    """The folders between the data folder and a file, outermost first."""
    inner = path.parent.relative_to(folder).parts
    return [folder.joinpath(*inner[: depth + 1]) for depth in range(len(inner))]


def _is_listed(path: Path, file: ListedFile) -> bool:
    """Whether a file holds exactly the listed bytes; one of another size need not be read."""
    with suppress(OSError):
        if not path.is_file() or path.stat().st_size != file.size:
            return False
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
    raise DataError(path, "cannot be read", "check the file and its permissions")


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
