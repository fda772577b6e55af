"""The data folder: what is there already, whether there is room, and a file put in its place once it is verified."""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from vlnbert.errors import DataError, Faults, setting
from vlnbert.fetching.download import KEPT
from vlnbert.fetching.manifest import ListedFile
from vlnbert.progress import track
from vlnbert.sources.writing import written_beside

BLOCK = 4096  # bytes by which most disks give out room
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class WrongContentError(Exception):
    """What came is not what the manifest lists."""


def missing_files(folder: Path, listed: Iterable[ListedFile]) -> list[ListedFile]:
    """The files that are not there. Others that lie in their places are somebody's own: they are refused by name."""
    if folder.exists() and not folder.is_dir():
        raise DataError(folder, "is not a folder", "choose another name")
    missing, others = list[ListedFile](), dict[str, list[Path]]()
    for file in track(list(listed), "looking at what is there"):
        path = folder / file.path
        blocked = next((parent for parent in _below(folder, path) if _is_no_folder(parent)), None)
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
    """Refuse to begin what cannot end."""
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
        if os.path.lexists(path):  # somebody wrote it meanwhile
            raise DataError(path, "was written by another program meanwhile", KEPT)


def _below(folder: Path, path: Path) -> list[Path]:
    """The folders between the data folder and a file, outermost first."""
    inner = path.parent.relative_to(folder).parts
    return [folder.joinpath(*inner[: depth + 1]) for depth in range(len(inner))]


def _is_no_folder(path: Path) -> bool:
    return os.path.lexists(path) and not path.is_dir()


def _is_listed(path: Path, file: ListedFile) -> bool:
    """Whether a file holds just the listed bytes; one of another size need not be read."""
    with suppress(OSError):
        if not path.is_file() or path.stat().st_size != file.size:
            return False
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
    raise DataError(path, "cannot be read", "check the file and its permissions")


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
