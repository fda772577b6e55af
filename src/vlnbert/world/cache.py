"""Tensors that are built once and kept on disk under a hash of everything they were built from.

A cache file is written beside its place and renamed, so two processes may build the same one at once; it carries a
digest of its content and the version of its format, so a damaged one, or one of another version, is built again.

The digests of large files are remembered, by path, size and time of change: a feature file of gigabytes is read once.
Those of small ones are remembered while the process lasts: several entries may be made of the same thousands of files.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from stat import S_ISREG
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vlnbert.errors import DataError
from vlnbert.sources.files import FORMAT, is_list_of, opened, read_json, require_regular
from vlnbert.sources.writing import write_json, written_beside

Built = tuple[dict[str, Tensor], dict[str, list[str]]]  # tensors and lists of names
VERSION = 2  # of the files here: entries and the memory of digests
LARGE = 64 << 20  # bytes from which a file's digest is remembered
SETTLED = 2 * 10**9  # nanoseconds after which another change shows in a file's times, however coarse their clock is


@dataclass(frozen=True)
class Key:
    """The kind of a cache entry, and a hash of everything it depends on."""

    kind: str
    digest: str

    @classmethod
    def of(cls, kind: str, files: Iterable[Path], *settings: str) -> "Key":
        """A key from the content of files, their names, and settings."""
        digest = hashlib.blake2b(digest_size=16)
        for path in files:
            digest.update(f"{path.name}:{content_digest(path)}\n".encode())
        for setting in settings:
            digest.update(f"{setting}\n".encode())
        return cls(kind, digest.hexdigest())

    @property
    def path(self) -> Path:
        return cache_folder() / f"{self.kind}-{self.digest}.safetensors"


def cache_folder() -> Path:
    """`$VLNBERT_CACHE`, or `vlnbert` in the user's cache folder."""
    if chosen := os.environ.get("VLNBERT_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vlnbert"


def content_digest(path: Path) -> str:
    """A hash of a file's content; empty where it cannot be read, which the builder reports better."""
    try:
        state = path.stat()
        if not S_ISREG(state.st_mode):
            return ""
        if state.st_size >= LARGE:
            return _remembered_digest(path)
        times = state.st_mtime_ns, state.st_ctime_ns
        if time.time_ns() - max(times) < SETTLED:
            return _hashed(path)
        return _hashed_once(path, (state.st_ino, state.st_size, *times))
    except (OSError, DataError):
        return ""


def _hashed(path: Path) -> str:
    # Ten thousand small files need no bar of progress each.
    if path.stat().st_size < LARGE:
        return hashlib.blake2b(path.read_bytes()).hexdigest()
    with opened(path, "file") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()  # type: ignore[arg-type]  # a watched file reads as well


@cache
def _hashed_once(path: Path, state: tuple[int, ...]) -> str:
    """Hash a file, again only where its state differs."""
    return _hashed(path)


def _remembered_digest(path: Path) -> str:
    """The remembered digest of a file that has not changed since, or else that of its content now."""
    memory, name, stamp = cache_folder() / "digests.json", str(path.absolute()), _stamp(path)
    known: Any = {}
    with suppress(DataError):
        known = read_json(memory, "memory of digests")
    if not isinstance(known, dict) or known.pop(FORMAT, None) != VERSION:
        known = {}
    # Damaged entries are forgotten.
    known = {name: entry for name, entry in known.items() if is_list_of(entry, str) and len(entry) == 2}
    if known.get(name, [""])[0] != stamp:
        known[name] = [stamp, _hashed(path)]
        # Nothing is remembered of a file that was written to meanwhile.
        if _stamp(path) == stamp:
            with suppress(DataError):
                write_json(memory, {FORMAT: VERSION, **known})
    digest: str = known[name][1]
    return digest


def _stamp(path: Path) -> str:
    state = path.stat()
    return f"{state.st_size} bytes at {state.st_mtime_ns}"


def cached(key: Key, build: Callable[[], Built]) -> Built:
    """The result of `build`, from disk where it is there whole."""
    found = _load(key.path)
    if found is None:
        found = build()
        _save(key.path, *found)
    return found


@dataclass
class Pieces:
    """Parts of long work, cached until the whole is: after an interruption the work continues where it was."""

    key: Key  # of the whole; the names of the pieces' files begin with it

    def piece(self, name: str, part: str, build: Callable[[], Tensor]) -> Tensor:
        """The result of `build`, a part of what has this name; from disk where an interrupted process left it whole."""
        key = Key("piece", f"{self.key.kind}-{self.key.digest}-{name}-{part}")
        tensors, _ = cached(key, lambda: ({"piece": build()}, {}))
        return tensors["piece"]

    def forget(self) -> None:
        """Remove all pieces, also those of other sizes that a process on another device made."""
        for path in cache_folder().glob(f"piece-{self.key.kind}-{self.key.digest}-*.safetensors"):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def cached_in_pieces(key: Key, build: Callable[[Pieces], Built]) -> Built:
    """As `cached`, for long work: `build` may cache its parts until the whole is made."""
    pieces = Pieces(key)
    made = cached(key, lambda: build(pieces))
    pieces.forget()
    return made


def _save(path: Path, tensors: dict[str, Tensor], names: dict[str, list[str]]) -> None:
    metadata = {FORMAT: str(VERSION), "names": json.dumps(names), "digest": _digest(tensors, names)}
    try:
        with written_beside(path) as temporary:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata)
    except (DataError, SafetensorError):  # a cache that cannot be written costs time, not results
        return


def _load(path: Path) -> Built | None:
    try:
        require_regular(path, "cache entry")
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no other way to list them
        names = json.loads(metadata["names"])
        whole = metadata[FORMAT] == str(VERSION) and metadata["digest"] == _digest(tensors, names)
        return (tensors, names) if whole else None
    # RuntimeError is torch's, where the file was removed just now.
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError, DataError):
        return None


def _digest(tensors: dict[str, Tensor], names: dict[str, list[str]]) -> str:
    digest = hashlib.blake2b(json.dumps(names).encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].contiguous().view(-1).numpy().data)
    return digest.hexdigest()
