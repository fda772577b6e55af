"""Reading weights, published ones or our own, from untrusted files: loading never executes code.

torch saves a pickle of a few hundred bytes a tensor, and beside it the uncompressed numbers. Other files may unpack to
any size, create endless objects, or declare tensors that they do not hold: they are refused before torch loads them.
"""

import io
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import DataError, Faults, VlnbertError
from vlnbert.navigator import NavigatorConfig
from vlnbert.navigator.storage.folder import (
    CONFIG,
    Limits,
    NoSuchSourceError,
    Shown,
    checked_weights,
    exists,
    expected_shapes,
    fetch_model,
    is_hub_name,
    read_config,
    read_safetensors,
    read_training_facts,
)
from vlnbert.sources.files import FETCH_AGAIN, MEGABYTE, open_for_reading, read_json

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
AGENT_PARTS = ("vln_bert", "critic")
EXTRAS = "vlnbert"  # beside those parts in our exports: a dictionary that other readers ignore
KEPT = "kept.safetensors"  # tensors of a published agent that no navigator uses
OWN_MARK = "backbone."  # begins keys of our own navigators
NOT_WEIGHTS = "give a checkpoint that holds a state dict, or a published agent"
ASK = "ask for a checkpoint of plain tensors"
NO_WEIGHTS = "give a navigator's folder, such as a run's best/, or a checkpoint file"
ZIP_MARK = b"PK"
HEAD = 16  # bytes that identify a file's type
# Today's archive, and the old format's number.
TORCH_MARKS = (ZIP_MARK, b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
PICKLE_MARK = re.compile(rb"\x80[\x00-\x05]")  # and the protocol
# Bytes; that of a base agent with its optimiser has 0.2 MB.
LARGEST_PICKLE = MEGABYTE
# Times the file's size: limit for all tensors together, since some share their numbers.
SHARED = 2
# torch's loader would let these allocate any size. Everything else that it allows takes its numbers from the file.
MAKERS = re.compile(rb"c(?:__builtin__|builtins)\n(bytearray)\n|ctorch(?:\.cuda)?\n(\w*Tensor)\n")


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a source, and what was found beside them."""

    path: Path  # the file that holds the weights
    tensors: dict[str, Tensor]
    folder: Path | None = None  # where a config.json and a vocabulary may lie
    metadata: dict[str, str] = field(default_factory=dict)  # small facts that an export writes again
    parameters: int | None = None  # count in the optimiser that was saved with a model
    notes: tuple[str, ...] = ()
    extras: dict[str, Any] = field(default_factory=dict)  # settings in an export of ours, unchecked

    def settings(self) -> dict[str, Any]:
        """The config.json beside the weights, or the settings in our own export; empty if there is neither."""
        if self.folder is None or not (self.folder / "config.json").exists():
            return {"num_attention_heads": self.extras["heads"]} if "heads" in self.extras else {}
        document = read_json(self.folder / "config.json", "configuration")
        if not isinstance(document, dict):
            raise DataError(self.folder / "config.json", "is not a JSON object", FETCH_AGAIN)
        return document


@dataclass(frozen=True)
class NavigatorFolder:
    """The contents of a navigator's folder."""

    path: Path
    config: NavigatorConfig
    limits: Limits
    features: Shown | None
    tensors: dict[str, Tensor]
    kept: dict[str, Tensor]
    metadata: dict[str, str]


def read_checkpoint(source: str | Path) -> Checkpoint:
    """Read the weights in a file, in a folder of the Hugging Face layout, or on the hub by name."""
    path = Path(source)
    if exists(path):
        return _read_file(_weights_in(path) if path.is_dir() else path)
    if is_hub_name(str(source)):
        return _read_file(_weights_in(fetch_model(str(source), WEIGHT_FILES)))
    raise NoSuchSourceError(
        source, "no such file or folder", "give a checkpoint, a folder that holds one, or a hub name"
    )


def is_navigator(checkpoint: Checkpoint) -> bool:
    """Whether these are the weights of a navigator that we saved."""
    return any(name.startswith(OWN_MARK) for name in checkpoint.tensors)


def read_navigator_folder(checkpoint: Checkpoint) -> NavigatorFolder:
    """Read a navigator's folder; its keys and shapes must be those of its configuration."""
    if checkpoint.folder is None or not (checkpoint.folder / CONFIG).exists():
        raise DataError(checkpoint.path, "has no config.json beside it", "give the whole folder of a navigator")
    config = read_config(checkpoint.folder / CONFIG)
    tensors = checked_weights(checkpoint.path, checkpoint.tensors, expected_shapes(checkpoint.folder / CONFIG, config))
    kept, metadata = dict[str, Tensor](), dict[str, str]()
    if (checkpoint.folder / KEPT).exists():
        kept, metadata = read_safetensors(checkpoint.folder / KEPT)
    limits, features = read_training_facts(checkpoint.folder / CONFIG)
    return NavigatorFolder(checkpoint.path, config, limits, features, tensors, kept=kept, metadata=metadata)


def _weights_in(folder: Path) -> Path:
    """The weight file in a folder of the Hugging Face layout."""
    for name in WEIGHT_FILES:
        if exists(folder / name):
            return folder / name
    raise DataError(folder, f"holds neither {' nor '.join(WEIGHT_FILES)}", NO_WEIGHTS)


def _read_file(path: Path) -> Checkpoint:
    """Read a safetensors file, a published agent or any other state dict that torch saved."""
    folder = path.parent if path.name in WEIGHT_FILES else None
    if path.suffix == ".safetensors":
        tensors, metadata = read_safetensors(path)
        tensors, notes = _without_wrapper(tensors)
        return Checkpoint(path, tensors, folder, metadata, notes=notes)
    document = _unpickled(path)
    if isinstance(document, dict) and any(part in document for part in AGENT_PARTS):
        return _agent(path, document)
    if isinstance(document, dict) and isinstance(document.get("state_dict"), dict):
        document = document["state_dict"]
    tensors, notes = _without_wrapper(_state_dict(path, document))
    check_declared(path, tensors)
    return Checkpoint(path, tensors, folder, notes=notes)


def _unpickled(path: Path) -> Any:
    """Load what torch saved, with its loader that only builds tensors and plain containers."""
    head = b""
    try:
        with open_for_reading(path, "checkpoint") as file:
            head = file.read(HEAD)
        with bounded_source(path) as source, warnings.catch_warnings():
            # torch warns of odd pickles before it refuses them.
            warnings.simplefilter("ignore")
            return torch.load(**source, map_location="cpu", weights_only=True)
    except VlnbertError:
        raise
    except PermissionError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file's permissions") from None
    # Damaged bytes can lead an unpickler into any kind of error.
    except Exception as error:
        name = re.search(r"GLOBAL (\S+)", str(error))
        if name is not None:
            problem = f"holds code or objects ({name[1]}), not tensors alone; nothing in it was run"
            raise DataError(path, problem, ASK) from None
        if any(head[: len(mark)] == mark[: len(head)] for mark in TORCH_MARKS):
            # torch's reason, without its advice to trust the file.
            gist = re.search(r"WeightsUnpickler error: (.*)", str(error))
            reason = (gist[1] if gist else next(iter(str(error).splitlines()), ""))[:100] or type(error).__name__
            raise DataError(path, f"is not a whole torch checkpoint ({reason})", FETCH_AGAIN) from None
        if PICKLE_MARK.match(head):
            problem = "is a plain pickle, which may hold code; it was not opened"
            raise DataError(path, problem, "ask for a checkpoint that torch saved, or for safetensors") from None
        raise DataError(path, "is no torch checkpoint", NOT_WEIGHTS) from None


def _agent(path: Path, document: dict[Any, Any]) -> Checkpoint:
    """A published agent: the navigator and its critic, each with an epoch and an optimiser."""
    tensors, notes, parameters = dict[str, Tensor](), list[str](), 0
    for part in AGENT_PARTS:
        entry = document.get(part)
        if not isinstance(entry, dict) or "state_dict" not in entry:
            raise DataError(path, "has no state_dict; half a checkpoint", FETCH_AGAIN, f"part '{part}'")
        found, unwrapped = _without_wrapper(_state_dict(path, entry["state_dict"]))
        notes += [f"{part}: {note}" for note in unwrapped]
        if "optimizer" in entry:
            notes.append(f"{part}: the optimiser's state is not imported")
            # A state of another form does not tell their number.
            with suppress(TypeError, KeyError, IndexError):
                parameters += sum(len(group["params"]) for group in entry["optimizer"]["param_groups"])
        if twice := sorted(set(found) & set(tensors)):
            raise DataError(path, "is in both parts", FETCH_AGAIN, twice[0])
        tensors |= found
    check_declared(path, tensors)
    epoch = document["vln_bert"].get("epoch")
    metadata = {"epoch": str(epoch)} if isinstance(epoch, int) else {}
    extras = document.get(EXTRAS)
    return Checkpoint(
        path,
        tensors,
        metadata=metadata,
        parameters=parameters or None,
        notes=tuple(notes),
        extras=extras if isinstance(extras, dict) else {},
    )


def _state_dict(path: Path, document: Any) -> dict[str, Tensor]:
    """The document itself, after checking that it maps names to tensors."""
    if not isinstance(document, dict) or not document or not all(isinstance(name, str) for name in document):
        held = "nothing" if document in ({}, None) else f"a {type(document).__name__}"
        raise DataError(path, f"holds {held}, not the weights of a model", NOT_WEIGHTS)
    faults = Faults(path)
    for name, value in document.items():
        if not isinstance(value, Tensor):
            faults.add(name, f"is a {type(value).__name__}, not a tensor", NOT_WEIGHTS)
    faults.raise_if_any()
    return document


def _without_wrapper(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Remove the prefix `module.` that training on several devices adds to every name."""
    if not tensors or not all(name.startswith("module.") for name in tensors):
        return tensors, ()
    plain = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
    return plain, ("`module.` was taken off every name",)


class _TooLargeError(Exception):
    """The pickles of a file of the older format are too large."""


class _Pickles(io.BufferedReader):
    """A file of the older format: pickles, then numbers, which torch reads directly by the file descriptor."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        return self._counted(super().read(-1 if size is None else size))

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._counted(super().readline(size))

    def _counted(self, content: bytes | None) -> bytes:
        self.taken += len(content or b"")
        if self.taken > LARGEST_PICKLE:
            raise _TooLargeError
        return content or b""


@contextmanager
def bounded_source(path: Path) -> Iterator[dict[str, Any]]:
    """Arguments for torch.load, after checking that loading the file stays within bounds."""
    with path.open("rb") as file:
        head = file.read(LARGEST_PICKLE)
    if head.startswith(ZIP_MARK) or zipfile.is_zipfile(path):
        _check_archive(path)
        yield {"f": path, "mmap": True}
        return
    _check_makers(path, head)
    with _Pickles(io.FileIO(path)) as file:
        try:
            yield {"f": file}
        except _TooLargeError:
            raise _too_large(path) from None


def check_declared(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors whose numbers are not in the file, or are many times as many as it holds."""
    declared = 0
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided:
            # An import reports these.
            continue
        if tensor.device.type != "cpu":
            raise DataError(path, "has no numbers in the file", ASK, name)
        size = tensor.numel() * tensor.element_size()
        if size > tensor.untyped_storage().nbytes():
            problem = f"declares {tensor.numel():,} numbers, of which the file holds fewer"
            raise DataError(path, problem, ASK, name)
        declared += size
    if declared > SHARED * path.stat().st_size:
        problem = f"declares tensors of {declared / MEGABYTE:,.0f} MB, more than {SHARED} times its size"
        raise DataError(path, problem, ASK)


def _check_archive(path: Path) -> None:
    """Check today's format, a zip archive of a pickle and the numbers of each storage.

    Every part must match its checksum, which torch does not verify.
    """
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise zipfile.BadZipFile("a part is compressed")
        if sum(part.file_size for part in parts) > path.stat().st_size:
            raise zipfile.BadZipFile("it declares more than it holds")
        # torch ignores case, too.
        pickles = [part for part in parts if part.filename.lower().endswith(".pkl")]
        if any(part.file_size > LARGEST_PICKLE for part in pickles):
            raise _too_large(path)
        if (damaged := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"the checksum of {damaged} differs")
        for part in pickles:
            _check_makers(path, archive.read(part))


def _check_makers(path: Path, pickle: bytes) -> None:
    """Refuse a pickle that creates objects of any size."""
    if found := MAKERS.search(pickle):
        name = next(filter(None, found.groups())).decode()
        problem = f"makes objects of any size ({name}), which no state dict does; nothing in it was run"
        raise DataError(path, problem, ASK)


def _too_large(path: Path) -> DataError:
    problem = f"describes its tensors in more than {LARGEST_PICKLE // MEGABYTE} MB, which none does"
    return DataError(path, problem, ASK)
