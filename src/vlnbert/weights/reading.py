"""Reading somebody's weights without trusting them: nothing in a file is ever run."""

import re
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from vlnbert.errors import DataError, Faults
from vlnbert.sources.files import FETCH_AGAIN, read_json
from vlnbert.weights.hub import fetched, is_hub_name

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
AGENT_PARTS = ("vln_bert", "critic")
NOT_WEIGHTS = "give a checkpoint that holds a state dict, or a published agent"


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a source and what was found around them."""

    path: Path  # the file that holds the weights
    tensors: dict[str, Tensor]
    folder: Path | None = None  # where a config.json and a vocabulary may lie
    metadata: dict[str, str] = field(default_factory=dict)  # small facts that an export gives back
    parameters: int | None = None  # how many the optimiser that was saved with a model had
    notes: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        """The config.json beside the weights; empty where there is none."""
        if self.folder is None or not (self.folder / "config.json").exists():
            return {}
        document = read_json(self.folder / "config.json", "configuration")
        if not isinstance(document, dict):
            raise DataError(self.folder / "config.json", "is not a JSON object", FETCH_AGAIN)
        return document


def read_checkpoint(source: str | Path) -> Checkpoint:
    """The weights at a path, in a folder of the Hugging Face layout, or on the hub by name."""
    path = Path(source)
    if path.is_dir():
        return _read_file(_weights_in(path))
    if path.exists():
        return _read_file(path)
    if is_hub_name(str(source)):
        return _read_file(_weights_in(fetched(str(source), WEIGHT_FILES)))
    raise DataError(source, "no such file or folder", "give a checkpoint, a folder that holds one, or a hub name")


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file, which cannot hold code."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except SafetensorError as error:
        raise DataError(path, f"is not a whole safetensors file ({error})", FETCH_AGAIN) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror or error})", "check the file") from None


def _weights_in(folder: Path) -> Path:
    for name in WEIGHT_FILES:
        if (folder / name).exists():
            return folder / name
    raise DataError(folder, f"holds neither {' nor '.join(WEIGHT_FILES)}", "give the checkpoint file itself")


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
    return Checkpoint(path, tensors, folder, notes=notes)


def _unpickled(path: Path) -> Any:
    """What torch saved, by its loader that builds tensors and plain containers and calls nothing else."""
    try:
        with path.open("rb"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of odd pickles before it refuses them
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except PermissionError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the file's permissions") from None
    except Exception as error:  # damaged bytes can lead an unpickler into any kind of error
        name = re.search(r"GLOBAL (\S+)", str(error))
        if name is not None:
            problem = f"holds code or objects ({name[1]}), not tensors alone; nothing in it was run"
            raise DataError(path, problem, "ask for a checkpoint of plain tensors") from None
        raise DataError(path, f"is not a whole torch checkpoint ({_reason(error)})", FETCH_AGAIN) from None


def _reason(error: Exception) -> str:
    """The gist of an error of torch, without its advice to trust the file."""
    gist = re.search(r"WeightsUnpickler error: (.*)", str(error))
    lines = str(error).splitlines()
    return (gist[1] if gist else lines[0] if lines else type(error).__name__)[:100]


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
    epoch = document["vln_bert"].get("epoch")
    metadata = {"epoch": str(epoch)} if isinstance(epoch, int) else {}
    return Checkpoint(path, tensors, metadata=metadata, parameters=parameters or None, notes=tuple(notes))


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
