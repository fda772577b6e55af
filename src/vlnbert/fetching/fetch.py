"""Fetch what is missing of the open data, one repository after the other, and tell what is there now."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.errors import Faults
from vlnbert.fetching.archive import Member, members
from vlnbert.fetching.connection import Broken, SourceError, or_a_copy
from vlnbert.fetching.download import KEPT, Attempts, checked_base, stream
from vlnbert.fetching.folder import WrongContentError, missing_files, require_room, write_verified
from vlnbert.fetching.manifest import ListedFile, Manifest, Source
from vlnbert.fetching.recipe import GITHUB
from vlnbert.progress import Bar, say
from vlnbert.tables import Table

TERMS = (
    "All of it derives from Matterport3D, whose terms are academic and non-commercial: "
    "do not pass it on, and cite those who made it."
)


@dataclass(frozen=True)
class FetchedPart:
    """What one repository gives to one part of the data."""

    part: str
    repository: str
    commit: str
    url: str
    files: int
    bytes: int
    missing_files: int  # before anything was fetched
    missing_bytes: int


@dataclass(frozen=True, repr=False)
class FetchReport:
    """What was fetched into a data folder, or would be."""

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

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def fetch(
    folder: Path, manifest: Manifest, *, only: Iterable[str] = (), mirror: str = GITHUB, dry_run: bool = False
) -> FetchReport:
    """Bring the files of a manifest into a folder. What is there and right is kept; nothing is ever overwritten."""
    base, wanted = checked_base(mirror), manifest.only(only)
    missing = missing_files(folder, (file for source in wanted.sources for file in source.files))
    report = FetchReport(folder, tuple(_parts(wanted, base, set(missing))), dry_run)
    if dry_run or not missing:
        return report
    require_room(folder, missing)
    faults, lacking = Faults(folder), set(missing)
    with Bar("fetching", report.missing_bytes) as bar:
        for source in wanted.sources:
            needed = {file.upstream: file for file in source.files if file in lacking}
            try:
                _fetch_source(folder, source, source.url(base), needed, bar)
            except SourceError as error:  # the others can be had all the same
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
                        _take(folder, needed[member.path], member)
                        bar.update(bar.done + needed.pop(member.path).size, source.repository)
                    if not needed:
                        return
        except Broken as why:
            attempts.again(why)
        else:
            more = f" and {len(needed) - 1:,} more files" if len(needed) > 1 else ""
            raise SourceError(f"the archive lacks {next(iter(needed))}{more}", or_a_copy())


def _take(folder: Path, file: ListedFile, member: Member) -> None:
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


def _parts(manifest: Manifest, base: str, missing: set[ListedFile]) -> Iterator[FetchedPart]:
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
