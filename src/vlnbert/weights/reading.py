"""Reading weights, published ones or our own, without trusting them: nothing in a file is ever run."""

import re
import warnings
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
    checked_weights,
    exists,
    expected_shapes,
    fetched,
    is_hub_name,
    read_config,
    read_features,
    read_limits,
    read_safetensors,
)
from vlnbert.navigator.storage.shown import Shown
from vlnbert.sources.files import FETCH_AGAIN, open_for_reading, read_json
from vlnbert.weights.bounds import ZIP_MARK, bounded_source, check_declared
from vlnbert.weights.report import ImportReport
from vlnbert.weights.tables import OWN, OWN_MARK

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
AGENT_PARTS = ("vln_bert", "critic")
TOLD = "vlnbert"  # beside those parts, in what we export: a dictionary that other readers leave alone
KEPT = "kept.safetensors"  # tensors of a published agent that no navigator uses
NOT_WEIGHTS = "give a checkpoint that holds a state dict, or a published agent"
NO_WEIGHTS = "give a navigator's folder, such as a run's best/, or a checkpoint file"
HEAD = 16  # bytes that tell what a file is
TORCH_MARKS = (ZIP_MARK, b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")  # today's archive, and the old format's number
PICKLE_MARK = re.compile(rb"\x80[\x00-\x05]")  # and the protocol


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a source and what was found around them."""

    path: Path  # the file that holds the weights
    tensors: dict[str, Tensor]
    folder: Path | None = None  # where a config.json and a vocabulary may lie
    metadata: dict[str, str] = field(default_factory=dict)  # small facts that an export gives back
    parameters: int | None = None  # how many the optimiser that was saved with a model had
    notes: tuple[str, ...] = ()
    told: dict[str, Any] = field(default_factory=dict)  # what an export of ours says beside the weights, unchecked

    def settings(self) -> dict[str, Any]:
        """The config.json beside the weights, or what is told with them; empty where there is neither."""
        if self.folder is None or not (self.folder / "config.json").exists():
            return {"num_attention_heads": self.told["heads"]} if "heads" in self.told else {}
        document = read_json(self.folder / "config.json", "configuration")
        if not isinstance(document, dict):
            raise DataError(self.folder / "config.json", "is not a JSON object", FETCH_AGAIN)
        return document


@dataclass(frozen=True)
class NavigatorFolder:
    """A navigator as it lies in its folder."""

    path: Path
    config: NavigatorConfig
    limits: Limits
    features: Shown | None
    tensors: dict[str, Tensor]
    kept: dict[str, Tensor]
    metadata: dict[str, str]

    def report(self) -> ImportReport:
        return ImportReport(
            source=str(self.path),
            family=OWN,
            title="a vlnbert navigator",
            config=self.config,
            loaded=list(self.tensors),
            kept=list(self.kept),
            features=self.features,
        )


def read_checkpoint(source: str | Path) -> Checkpoint:
    """The weights at a path, in a folder of the Hugging Face layout, or on the hub by name."""
    path = Path(source)
    if exists(path):
        return _read_file(_weights_in(path) if path.is_dir() else path)
    if is_hub_name(str(source)):
        return _read_file(_weights_in(fetched(str(source), WEIGHT_FILES)))
    raise NoSuchSourceError(
        source, "no such file or folder", "give a checkpoint, a folder that holds one, or a hub name"
    )


def is_navigator(checkpoint: Checkpoint) -> bool:
    """Whether these are the weights of a navigator as we save it."""
    return any(name.startswith(OWN_MARK) for name in checkpoint.tensors)


def read_navigator_folder(checkpoint: Checkpoint) -> NavigatorFolder:
    """A navigator's folder; its keys and shapes must be those of its configuration."""
    if checkpoint.folder is None or not (checkpoint.folder / CONFIG).exists():
        raise DataError(checkpoint.path, "has no config.json beside it", "give the whole folder of a navigator")
    config = read_config(checkpoint.folder / CONFIG)
    tensors = checked_weights(checkpoint.path, checkpoint.tensors, expected_shapes(checkpoint.folder / CONFIG, config))
    kept, metadata = dict[str, Tensor](), dict[str, str]()
    if (checkpoint.folder / KEPT).exists():
        kept, metadata = read_safetensors(checkpoint.folder / KEPT)
    return NavigatorFolder(
        path=checkpoint.path,
        config=config,
        limits=read_limits(checkpoint.folder / CONFIG),
        features=read_features(checkpoint.folder / CONFIG),
        tensors=tensors,
        kept=kept,
        metadata=metadata,
    )


def _weights_in(folder: Path) -> Path:
    for name in WEIGHT_FILES:
        if exists(folder / name):
            return folder / name
    raise DataError(folder, f"holds neither {' nor '.join(WEIGHT_FILES)}", NO_WEIGHTS)


def _read_file(path: Path) -> Checkpoint:
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
    """What torch saved, by its loader that builds tensors and plain containers and calls nothing else."""
    head = b""
    try:
        with open_for_reading(path, "checkpoint") as file:
            head = file.read(HEAD)
        with bounded_source(path) as source, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of odd pickles before it refuses them
            return torch.load(**source, map_location="cpu", weights_only=True)
    except VlnbertError:
        raise
    except PermissionError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file's permissions") from None
    except Exception as error:  # damaged bytes can lead an unpickler into any kind of error
        name = re.search(r"GLOBAL (\S+)", str(error))
        if name is not None:
            problem = f"holds code or objects ({name[1]}), not tensors alone; nothing in it was run"
            raise DataError(path, problem, "ask for a checkpoint of plain tensors") from None
        raise _no_checkpoint(path, head, _reason(error)) from None


def _no_checkpoint(path: Path, head: bytes, reason: str) -> DataError:
    """What a file that torch does not load seems to be, by its first bytes."""
    if any(head[: len(mark)] == mark[: len(head)] for mark in TORCH_MARKS):
        return DataError(path, f"is not a whole torch checkpoint ({reason})", FETCH_AGAIN)
    if PICKLE_MARK.match(head):
        problem = "is a plain pickle, which may hold code; it was not opened"
        return DataError(path, problem, "ask for a checkpoint that torch saved, or for safetensors")
    return DataError(path, "is no torch checkpoint", NOT_WEIGHTS)


def _reason(error: Exception) -> str:
    """The gist of an error of torch, without its advice to trust the file."""
    gist = re.search(r"WeightsUnpickler error: (.*)", str(error))
    said = gist[1] if gist else next(iter(str(error).splitlines()), "")
    return said[:100] or type(error).__name__


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
            parameters += _parameters(entry["optimizer"])
        if twice := sorted(set(found) & set(tensors)):
            raise DataError(path, "is in both parts", FETCH_AGAIN, twice[0])
        tensors |= found
    check_declared(path, tensors)
    epoch = document["vln_bert"].get("epoch")
    metadata = {"epoch": str(epoch)} if isinstance(epoch, int) else {}
    told = document.get(TOLD)
    return Checkpoint(
        path,
        tensors,
        metadata=metadata,
        parameters=parameters or None,
        notes=tuple(notes),
        told=told if isinstance(told, dict) else {},
    )


def _parameters(optimizer: Any) -> int:
    """How many parameters an optimiser was responsible for, as far as its saved state tells."""
    try:
        return sum(len(group["params"]) for group in optimizer["param_groups"])
    except (TypeError, KeyError, IndexError):
        return 0


def _state_dict(path: Path, document: Any) -> dict[str, Tensor]:
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
    """Take off the `module.` that training on several devices puts before every name."""
    if not tensors or not all(name.startswith("module.") for name in tensors):
        return tensors, ()
    plain = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
    return plain, ("`module.` was taken off every name",)
