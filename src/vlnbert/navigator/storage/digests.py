"""Digests of a folder's files, kept in it as `digests.json`: what was damaged since is noticed when it is read.

They are against accidents: whoever can change a file can change its digest too. So they are XXH3's, of 128 bits, which
find a flipped bit as fast as memory is read. Tensors are hashed in a thread of their own while they are written, and
once they are read, so that no file is read twice: the digest of a safetensors file is that of its tensors' digests with
all that its header says. Folders without digests, older ones or other people's, open unchecked.
"""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from xxhash import xxh3_128

from vlnbert.errors import DataError
from vlnbert.sources.files import FORMAT, NewerFormatError, format_of, read_json, require_regular
from vlnbert.sources.writing import write_json

DIGESTS = "digests.json"
NEWEST = 1  # format of digests.json
KEYS = {FORMAT, "files", "digest"}
Tensors = Mapping[str, Tensor]


class DigestError(DataError):
    """A file is not the one that was written, by its digest."""

    def __init__(self, path: Path, problem: str = "is not what was written, by its digest") -> None:
        remedy = f"take a whole copy of the folder or, if you changed it on purpose, delete its {DIGESTS}"
        super().__init__(path, problem, remedy)


@contextmanager
def noting(folder: Path, files: Mapping[str, Tensors | None]) -> Iterator[None]:
    """Note the digests of files that the block writes, by their names: with its tensors, a safetensors file's.

    These are hashed while the block writes them. Until it has ended, nothing is noted of the files.
    """
    noted = dict[str, str]()
    with suppress(DataError):  # damaged ones are written anew
        noted = {name: digest for name, digest in read_digests(folder).items() if name not in files}
    (folder / DIGESTS).unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        digests = {
            name: {key: pool.submit(_of, tensor) for key, tensor in tensors.items()}
            for name, tensors in files.items()
            if tensors is not None
        }
        yield
        for name, tensors in files.items():
            if (path := folder / name).exists():
                known = {key: one.result() for key, one in digests.get(name, {}).items()}
                noted[name] = _of_bytes(path) if tensors is None else _of_written(path, tensors, known)
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
    """Refuse a file that is not the one whose digest was noted, if one was, or that is gone since."""
    noted = read_digests(path.parent).get(path.name)
    if noted is None:
        return
    try:
        require_regular(path, "file with a digest")
        found = _of_bytes(path)
    except FileNotFoundError:
        raise DigestError(path, "is missing, though the folder was written with it") from None
    except OSError as error:
        raise DigestError(path, f"cannot be read ({error.strerror})") from None
    if noted != found:
        raise DigestError(path)


def check_tensors(path: Path, tensors: Tensors, metadata: Mapping[str, str]) -> None:
    """The same for a safetensors file, by what was read from it."""
    noted = read_digests(path.parent).get(path.name)
    if noted is not None and noted != _of_tensors(tensors, {name: _of(one) for name, one in tensors.items()}, metadata):
        raise DigestError(path)


def _of(tensor: Tensor) -> str:
    """The digest of a tensor's bytes; other threads go on meanwhile."""
    return xxh3_128(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data).hexdigest()


def _of_written(path: Path, tensors: Tensors, digests: Mapping[str, str]) -> str:
    """The digest of a file that was just written, of those tensors that it has: one that is there twice is left out."""
    with safe_open(path, framework="pt") as file:
        return _of_tensors({name: tensors[name] for name in file.keys()}, digests, file.metadata() or {})  # noqa: SIM118


def _of_tensors(tensors: Tensors, digests: Mapping[str, str], metadata: Mapping[str, str]) -> str:
    told = [[name, str(tensors[name].dtype), list(tensors[name].shape), digests[name]] for name in sorted(tensors)]
    return _of_document([told, dict(metadata)])


def _of_document(document: Any) -> str:
    return xxh3_128(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _of_bytes(path: Path) -> str:
    return xxh3_128(path.read_bytes()).hexdigest()
