"""Our own folders: what they hold, checked against their own configuration."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from vlnbert.errors import DataError, Faults, VlnbertError
from vlnbert.navigator.config import NavigatorConfig
from vlnbert.weights.measures import shown
from vlnbert.weights.plan import key_shapes
from vlnbert.weights.reading import Checkpoint, read_safetensors
from vlnbert.weights.report import Report
from vlnbert.weights.tables import OWN

KEPT = "kept.safetensors"  # tensors of a published agent that no navigator uses
REMEDY = "save the navigator again"


@dataclass(frozen=True)
class Own:
    """A navigator as it lies in its folder."""

    path: Path
    config: NavigatorConfig
    tensors: dict[str, Tensor]
    kept: dict[str, Tensor]
    metadata: dict[str, str]

    def report(self) -> Report:
        title = "a vlnbert navigator"
        return Report(str(self.path), OWN, title, self.config, loaded=list(self.tensors), kept=list(self.kept))


def read_own(checkpoint: Checkpoint) -> Own:
    """A folder of ours; keys and shapes must be those of its configuration."""
    if checkpoint.folder is None or not (checkpoint.folder / "config.json").exists():
        raise DataError(checkpoint.path, "has no config.json beside it", "give the whole folder of a navigator")
    config = _config(checkpoint.folder / "config.json", checkpoint.settings())
    expected, faults = key_shapes(config), Faults(checkpoint.path)
    for name in sorted(expected.keys() | checkpoint.tensors.keys()):
        if name not in checkpoint.tensors:
            faults.add(name, "is missing", REMEDY)
        elif name not in expected:
            faults.add(name, "is no part of the navigator that config.json describes", REMEDY)
        elif (shape := tuple(checkpoint.tensors[name].shape)) != expected[name]:
            faults.add(name, f"has shape {shown(shape)} where {shown(expected[name])} is expected", REMEDY)
    faults.raise_if_any()
    kept, metadata = dict[str, Tensor](), dict[str, str]()
    if (checkpoint.folder / KEPT).exists():
        kept, metadata = read_safetensors(checkpoint.folder / KEPT)
    return Own(checkpoint.path, config, checkpoint.tensors, kept, metadata)


def _config(path: Path, settings: dict[str, Any]) -> NavigatorConfig:
    known = {field.name for field in fields(NavigatorConfig)}
    try:
        return NavigatorConfig(**{name: value for name, value in settings.items() if name in known})
    except VlnbertError as error:
        raise DataError(path, str(error), REMEDY) from None
