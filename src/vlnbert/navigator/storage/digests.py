"""Digests of a folder's files, stored in it as `digests.json`, to detect damage when they are read.

They guard against accidents, not attacks, so they are 128-bit XXH3, as fast as memory is read. Tensors are hashed while
they are written and after they are read, so that no file is read twice: a safetensors file's digest covers its tensors'
digests and its whole header. Folders without digests, such as older ones, open unchecked.
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
    """A file differs from the one that was written, by its digest."""

    def __init__(self, path: Path, problem: str = "is not what was written, by its digest") -> None:
        remedy = f"take a whole copy of the folder or, if you changed it on purpose, delete its {DIGESTS}"
        super().__init__(path, problem, remedy)


@contextmanager
def noting(folder: Path, files: Mapping[str, Tensors | None]) -> Iterator[None]:
    """Record the digests of files that the block writes: by name, with the tensors of a safetensors file.

    Tensors are hashed while the block writes them. Until it has ended, the files have no digests.
    """
    noted = dict[str, str]()
    # A damaged digests.json is replaced.
    with suppress(DataError):
        noted = {name: digest for name, digest in read_digests(folder).items() if name not in files}
    (folder / DIGESTS).unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        digests = {
            name: {key: pool.submit(_digest_tensor, tensor) for key, tensor in tensors.items()}
            for name, tensors in files.items()
            if tensors is not None
        }
        yield
        for name, tensors in files.items():
            if (path := folder / name).exists():
                known = {key: one.result() for key, one in digests.get(name, {}).items()}
                if tensors is None:
                    noted[name] = _digest_file(path)
                    continue
                # A safetensors file stores shared tensors once.
                with safe_open(path, framework="pt") as file:
                    stored = {key: tensors[key] for key in file.keys()}  # noqa: SIM118
                    noted[name] = _digest_tensors(stored, known, file.metadata() or {})
    write_json(folder / DIGESTS, {FORMAT: NEWEST, "files": noted, "digest": _digest_json(noted)}, indent=2)


def read_digests(folder: Path) -> dict[str, str]:
    """The recorded digests of a folder, by file name; empty if it has none."""
    path = folder / DIGESTS
    if not path.exists():
        return {}
    try:
        document = read_json(path, "digests")
        if isinstance(document, dict) and format_of(path, document, NEWEST) and document.keys() == KEYS:
            files = document["files"]
            if isinstance(files, dict) and document["digest"] == _digest_json(files):
                return files
    except NewerFormatError:
        raise
    except DataError:
        pass
    raise DigestError(path)


def check_file(path: Path) -> None:
    """Raise an error if a file with a recorded digest has changed or is gone."""
    noted = read_digests(path.parent).get(path.name)
    if noted is None:
        return
    try:
        require_regular(path, "file with a digest")
        found = _digest_file(path)
    except FileNotFoundError:
        raise DigestError(path, "is missing, though the folder was written with it") from None
    except OSError as error:
        raise DigestError(path, f"cannot be read ({error.strerror})") from None
    if noted != found:
        raise DigestError(path)


def check_tensors(path: Path, tensors: Tensors, metadata: Mapping[str, str]) -> None:
    """Raise an error if what was read from a safetensors file with a recorded digest has changed."""
    noted = read_digests(path.parent).get(path.name)
    if noted is None:
        return
    digests = {name: _digest_tensor(tensor) for name, tensor in tensors.items()}
    if noted != _digest_tensors(tensors, digests, metadata):
        raise DigestError(path)


def _digest_tensor(tensor: Tensor) -> str:
    """The digest of a tensor's bytes; hashing releases the GIL."""
    return xxh3_128(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data).hexdigest()


def _digest_tensors(tensors: Tensors, digests: Mapping[str, str], metadata: Mapping[str, str]) -> str:
    rows = [[name, str(tensors[name].dtype), list(tensors[name].shape), digests[name]] for name in sorted(tensors)]
    return _digest_json([rows, dict(metadata)])


def _digest_json(document: Any) -> str:
    return xxh3_128(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _digest_file(path: Path) -> str:
    return xxh3_128(path.read_bytes()).hexdigest()
