"""Digests of a folder's files, kept in it as `digests.json`: what was damaged since is noticed when it is read.

They are against accidents: whoever can change a file can change its digest too. So of a tensor, whose bytes are many,
each row of 512 bytes is added up as 64-bit numbers, which any flipped bit changes, and the CRC-32 is taken of the sums
and of what is left over: that is as fast as memory is read. The digest of a safetensors file is the SHA-256 of this
with all that its header says, that of any other file is the SHA-256 of its bytes. Folders without digests, older ones
or other people's, are read unchecked.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from vlnbert.errors import DataError
from vlnbert.sources.files import read_json, write_json
from vlnbert.sources.formats import FORMAT, NewerFormatError, format_of

DIGESTS = "digests.json"
NEWEST = 1  # format of digests.json
KEYS = {FORMAT, "files", "digest"}
ROW = 512  # bytes of a tensor that are added up
Tensors = Mapping[str, Tensor]


class DigestError(DataError):
    """A file is not the one that was written, by its digest."""

    def __init__(self, path: Path) -> None:
        remedy = f"take a whole copy of the folder or, if you changed it on purpose, delete its {DIGESTS}"
        super().__init__(path, "is not what was written, by its digest", remedy)


@contextmanager
def noting(folder: Path, files: Mapping[str, Tensors | None]) -> Iterator[None]:
    """Note the digests of files that the block writes, by their names: with its tensors, a safetensors file's.

    These are summed while the block writes them. Until it has ended, nothing is noted of the files.
    """
    noted = dict[str, str]()
    with suppress(DataError):  # damaged ones are written anew
        noted = {name: digest for name, digest in read_digests(folder).items() if name not in files}
    (folder / DIGESTS).unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        sums = {
            name: {key: pool.submit(_sum, tensor) for key, tensor in tensors.items()}
            for name, tensors in files.items()
            if tensors is not None
        }
        yield
        for name, tensors in files.items():
            if (path := folder / name).exists():
                summed = {key: one.result() for key, one in sums.get(name, {}).items()}
                noted[name] = _of_bytes(path) if tensors is None else _of_written(path, tensors, summed)
    write_json(folder / DIGESTS, {FORMAT: NEWEST, "files": noted, "digest": _of(noted)}, indent=2)


def read_digests(folder: Path) -> dict[str, str]:
    """The digests that are noted in a folder, by the names of the files; none where it has none."""
    path = folder / DIGESTS
    if not path.exists():
        return {}
    try:
        document = read_json(path, "digests")
        if isinstance(document, dict) and format_of(path, document, NEWEST) and document.keys() == KEYS:
            files = document["files"]
            if isinstance(files, dict) and document["digest"] == _of(files):
                return files
    except NewerFormatError:
        raise
    except DataError:
        pass
    raise DigestError(path)


def check_file(path: Path) -> None:
    """Refuse a file that is not the one whose digest was noted, if one was."""
    noted = read_digests(path.parent).get(path.name)
    if noted is not None and path.is_file() and noted != _of_bytes(path):
        raise DigestError(path)


def check_tensors(path: Path, tensors: Tensors, metadata: Mapping[str, str]) -> None:
    """The same for a safetensors file, by what was read from it."""
    noted = read_digests(path.parent).get(path.name)
    if noted is not None and noted != _of_tensors(
        tensors, {name: _sum(tensor) for name, tensor in tensors.items()}, metadata
    ):
        raise DigestError(path)


def _sum(tensor: Tensor) -> int:
    """The CRC-32 of the sums of rows and of the bytes that are left over; other threads go on meanwhile."""
    content = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    whole = len(content) // ROW * ROW
    rows = content[:whole].view("<i8").reshape(-1, ROW // 8).sum(axis=1)  # modulo 2^64
    return zlib.crc32(content[whole:].data, zlib.crc32(rows.data))


def _of_written(path: Path, tensors: Tensors, sums: Mapping[str, int]) -> str:
    """The digest of a file that was just written, of those tensors that it has: one that is there twice is left out."""
    with safe_open(path, framework="pt") as file:
        return _of_tensors({name: tensors[name] for name in file.keys()}, sums, file.metadata() or {})  # noqa: SIM118


def _of_tensors(tensors: Tensors, sums: Mapping[str, int], metadata: Mapping[str, str]) -> str:
    told = [[name, str(tensors[name].dtype), list(tensors[name].shape), sums[name]] for name in sorted(tensors)]
    return _of([told, dict(metadata)])


def _of(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _of_bytes(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
