"""Our own folders: what they hold, checked against their own configuration."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from vlnbert.errors import DataError
from vlnbert.navigator import NavigatorConfig, key_shapes
from vlnbert.navigator.storage.folder import CONFIG, checked_weights, read_config, read_safetensors
from vlnbert.weights.reading import Checkpoint
from vlnbert.weights.report import Report, unsound
from vlnbert.weights.tables import OWN

KEPT = "kept.safetensors"  # tensors of a published agent that no navigator uses


@dataclass(frozen=True)
class Own:
    """A navigator as it lies in its folder."""

    path: Path
    config: NavigatorConfig
    tensors: dict[str, Tensor]
    kept: dict[str, Tensor]
    metadata: dict[str, str]

    def report(self) -> Report:
        loaded, kept, notes = list(self.tensors), list(self.kept), unsound(self.tensors)
        return Report(str(self.path), OWN, "a vlnbert navigator", self.config, loaded, kept=kept, notes=notes)


def read_own(checkpoint: Checkpoint) -> Own:
    """A folder of ours; keys and shapes must be those of its configuration."""
    if checkpoint.folder is None or not (checkpoint.folder / CONFIG).exists():
        raise DataError(checkpoint.path, "has no config.json beside it", "give the whole folder of a navigator")
    config = read_config(checkpoint.folder / CONFIG)
    tensors = checked_weights(checkpoint.path, checkpoint.tensors, key_shapes(config))
    kept, metadata = dict[str, Tensor](), dict[str, str]()
    if (checkpoint.folder / KEPT).exists():
        kept, metadata = read_safetensors(checkpoint.folder / KEPT)
    return Own(checkpoint.path, config, tensors, kept, metadata)
