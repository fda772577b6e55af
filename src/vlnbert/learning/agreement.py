"""Processes that learn together say what they were started with, before the first update: all must say the same.

Who learns by another seed, from other data or by another version would otherwise add its gradients to those of the
others, in silence.
"""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from vlnbert.errors import setting
from vlnbert.learning.run_record import RunRecord
from vlnbert.ranks import Ranks
from vlnbert.records import leaves, to_plain

PACKAGE = Path(__file__).parents[1]


def require_agreement(ranks: Ranks, run: Path, record: RunRecord, checkpoint: Path | None = None) -> None:
    """Refuse, on all ranks, to train a run that they were told of differently; `checkpoint` is where it goes on."""
    if ranks.count > 1:
        ranks.agree(dict(_facts(ranks, run, record, checkpoint)))


def _facts(ranks: Ranks, run: Path, record: RunRecord, checkpoint: Path | None) -> Iterator[tuple[str, object]]:
    """What ranks must have in common, by names that a message can tell. Folders may lie elsewhere on other machines."""
    yield "the number of processes", ranks.count
    yield "the files of vlnbert", _digest(*_package_files(PACKAGE))
    yield "the version of torch", torch.__version__
    for plugin in record.plugins:
        path = Path(plugin)
        yield f"the plugin {path.name}", _digest(path) if path.is_file() else plugin
    for place, value in leaves(to_plain(record.experiment)):
        yield setting(place), _without_folders(value)
    yield "the houses kept out of training", " ".join(record.held_out)
    for name, digest in record.fingerprints.items():
        yield f"the data ({name})", digest
    yield "the run's folder", run.resolve().name
    yield "the checkpoint to go on from", "none" if checkpoint is None else checkpoint.name


def _package_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")


def _digest(*files: Path) -> str:
    digest = blake2b(digest_size=8)
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _without_folders(value: Any) -> Any:
    """What is read from a file has a digest among the data's."""
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value
