"""Exporting a navigator in the format of the published Recurrent VLN-BERT agents, for programs that read it."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vlnbert.errors import DataError, Faults
from vlnbert.navigator import NavigatorConfig
from vlnbert.navigator.storage.folder import shape_text
from vlnbert.sources.writing import written_beside
from vlnbert.weights.reading import (
    EXTRAS,
    KEPT,
    NavigatorFolder,
    is_navigator,
    read_checkpoint,
    read_navigator_folder,
)
from vlnbert.weights.tables import PUBLISHED, ordered_keys

CRITIC = "critic."


@dataclass(frozen=True)
class ExportReport:
    """The numbers of tensors that were written, and the names of those that the navigator does not have."""

    backbone: str
    epoch: int
    model: int
    critic: int
    made_up: list[str]


def export_weights(folder: str | Path, file: Path) -> ExportReport:
    """Write a navigator's folder as a published agent; tensors that an import kept are written unchanged."""
    if file.exists():
        raise DataError(file, "exists already", "choose a new name for the export")
    checkpoint = read_checkpoint(folder)
    if not is_navigator(checkpoint):
        raise DataError(checkpoint.path, "is not a vlnbert navigator", "import it first with: vlnbert weights import")
    saved = read_navigator_folder(checkpoint)
    _refuse_inexpressible(saved)
    model, critic, made_up = published_state_dicts(saved.config, saved.tensors, _fitting_kept(saved))
    epoch = int(saved.metadata["epoch"]) if saved.metadata.get("epoch", "").isdecimal() else 0
    document = {
        "vln_bert": {"epoch": epoch, "state_dict": model},
        "critic": {"epoch": epoch, "state_dict": critic},
        # Settings that no weight's shape shows.
        EXTRAS: {"heads": saved.config.heads, **saved.limits.values()},
    }
    with written_beside(file) as temporary:
        try:
            torch.save(document, temporary)
        # torch's writer reports a full disk like this.
        except RuntimeError as error:
            raise DataError(file, f"cannot be written ({str(error)[:100]})", "free some space") from None
    return ExportReport(saved.config.backbone, epoch, model=len(model), critic=len(critic), made_up=made_up)


def published_state_dicts(
    config: NavigatorConfig, tensors: Mapping[str, Tensor], kept: Mapping[str, Tensor]
) -> tuple[OrderedDict[str, Tensor], OrderedDict[str, Tensor], list[str]]:
    """The state dicts of the model and the critic, in the reference's order, and the keys that had to be made up.

    A tensor that the reference never uses and no import kept becomes a copy of one of the same shape.
    """
    family = PUBLISHED[config.backbone]
    # `OrderedDict[...]()` would pickle its type parameters.
    model: OrderedDict[str, Tensor] = OrderedDict()
    critic: OrderedDict[str, Tensor] = OrderedDict()
    made_up = list[str]()
    for name, pattern, target in _published_keys(config):
        part = critic if target.startswith(CRITIC) else model
        if not pattern.startswith(family.kept):
            part[name] = tensors[target]
        elif name in kept:
            part[name] = kept[name]
        else:
            part[name] = tensors[target].clone()
            made_up.append(name)
    return model, critic, made_up


def _published_keys(config: NavigatorConfig) -> list[tuple[str, str, str]]:
    return ordered_keys(PUBLISHED[config.backbone].rows[config.backbone], config.layers, config.cross_layers)


def _refuse_inexpressible(saved: NavigatorFolder) -> None:
    """Raise an error for what the published format, which only knows R2R's agents, cannot hold."""
    config = saved.config
    inexpressible = {
        f"has the backbone '{config.backbone}'": config.backbone not in PUBLISHED,
        "sees objects": config.object_width > 0,
        f"has matching '{config.matching}'": config.matching != "cross-modal",
        f"has language_attention '{config.language_attention}'": config.language_attention != "once",
    }
    for problem in (one for one, holds in inexpressible.items() if holds):
        remedy = "export an R2R navigator with matching 'cross-modal' and language attended once"
        raise DataError(saved.path, f"{problem}, which the published format cannot hold", remedy)


def _fitting_kept(saved: NavigatorFolder) -> dict[str, Tensor]:
    """The kept tensors, each of which must have the shape of its counterpart in the navigator."""
    faults, remedy = Faults(saved.path.with_name(KEPT)), "remove the file to export without it"
    twins = {name: target for name, _, target in _published_keys(saved.config)}
    for name, tensor in saved.kept.items():
        if name not in twins:
            faults.add(name, "is no key of a published agent", remedy)
        elif tensor.shape != (twin := saved.tensors[twins[name]]).shape:
            problem = f"has shape {shape_text(tuple(tensor.shape))} where {shape_text(tuple(twin.shape))} is expected"
            faults.add(name, problem, remedy)
    faults.raise_if_any()
    return saved.kept
