"""Checkpoints that no kill can spoil: whole folders, and a pointer that is replaced in one move.

A run holds `checkpoints/<iteration>/` (the folder of what is trained, a navigator or a speaker, and
`trainer.safetensors`) and `last.json`, which names the newest whole one. The folder is written beside and renamed, then
the pointer, then folders go that are older than those kept; at every moment the pointer names a checkpoint that is
whole and on the disk (`run_folder.py`). `best/` is what scored best, where something was validated.

Where weights are averaged, either folder holds the average, so that to open one gives the weights that were
validated; those that are trained on lie in `trainer.safetensors`, since only resuming needs them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from torch.optim import Optimizer

from vlnbert.errors import DataError, UsageError
from vlnbert.learning.optimisers import AveragedWeights, check_state, optimiser_tensors, read_state, restore_state
from vlnbert.learning.run_folder import (
    ANEW,
    TRAINER,
    Progress,
    checkpoint_of,
    own_checkpoints,
    point_to,
    read_header,
    surplus_checkpoints,
)
from vlnbert.navigator import Navigator
from vlnbert.navigator.model.backbone import make_backbone
from vlnbert.navigator.model.navigator import allocate
from vlnbert.navigator.storage.digests import DIGESTS, DigestError, noting
from vlnbert.navigator.storage.folder import CONFIG, read_config, read_safetensors, require_fit, weight_problem
from vlnbert.sources.files import NewerFormatError
from vlnbert.sources.writing import remove, replaced

Trained = Any  # a module that saves itself to a folder and reads its weights from one

ROOM = "free some space and resume"
LEARNING = "weights."  # before the names of weights that go on learning, beside their average
BESIDE = "learner."  # before the names of what the learner holds beside what is trained
CALLBACKS = "callbacks"  # in its header, what they keep
LOSSES = "losses"  # the name of those not reported yet
NO_LOSSES = torch.zeros(0, 0)


@dataclass(frozen=True)
class TrainingState:
    """The state of a training that a checkpoint keeps; all else follows from the update's number."""

    model: Trained
    optimiser: Optimizer
    names: Sequence[str]  # of the optimiser's parameters, in its order
    averaged: AveragedWeights
    companions: Mapping[str, Tensor]  # parameters and buffers of losses and rewards, by name
    callbacks: Mapping[str, Any] = field(default_factory=dict)  # what named callbacks keep, as plain values
    losses: Tensor = NO_LOSSES  # [batch, part] not reported yet


def save_checkpoint(run: Path, state: TrainingState, progress: Progress, keep: int = 1) -> Path:
    """Write a whole checkpoint, point to it, and remove those of the run that are older than the newest `keep`."""
    model, averaged, losses = state.model, state.averaged, state.losses
    learning = {LEARNING + name: weight.detach().contiguous() for name, weight in averaged.weights.items()}
    folder = checkpoint_of(run, progress.iteration)
    with replaced(folder) as beside:  # one of this name may be left from a kill before the pointer was moved
        try:
            metadata = {"progress": json.dumps(asdict(progress))}
            if state.callbacks:
                try:
                    metadata[CALLBACKS] = json.dumps(state.callbacks)
                except (TypeError, ValueError) as error:
                    problem = f"the state of a callback cannot be saved ({error})"
                    remedy = "keep numbers, texts, lists and dictionaries"
                    raise UsageError(f"{problem}; {remedy}") from None
            companions = {BESIDE + name: tensor.detach().contiguous() for name, tensor in state.companions.items()}
            tensors = {**optimiser_tensors(state.optimiser, state.names), **learning, **companions}
            tensors |= {LOSSES: losses} if len(losses) else {}
            with noting(beside, {TRAINER: tensors}):
                save_file(tensors, beside / TRAINER, metadata)
            with averaged.applied():
                model.save_pretrained(beside)
        except SafetensorError as error:
            raise DataError(folder, f"cannot be written ({error})", ROOM) from None
        _require_own(run, folder, beside)
    surplus = surplus_checkpoints(run, folder, keep)
    point_to(run, folder, keep)
    for other in surplus:
        remove(other)
    return folder


def _require_own(run: Path, folder: Path, beside: Path) -> None:
    """Where `checkpoints` is a link, a checkpoint of this name may be another run's: it is left alone, unless it holds
    what is about to take its place, as one does that this run wrote before it was killed."""
    if not folder.exists() or folder in own_checkpoints(run):
        return
    try:
        same = (folder / DIGESTS).read_bytes() == (beside / DIGESTS).read_bytes()
    except OSError:
        same = False
    if not same:
        problem = f"is there already, and may be another run's, since {folder.parent} is a link"
        raise DataError(folder, problem, "move it away, then resume")


def save_trained(folder: Path, model: Trained, card: Mapping[str, Any]) -> None:
    """Write the folder of what is trained, in place of an older one; `card` is what its model card shall tell."""
    with replaced(folder) as beside:
        try:
            model.save_pretrained(beside, model_card_kwargs=dict(card))
        except SafetensorError as error:
            raise DataError(folder, f"cannot be written ({error})", ROOM) from None


def unfilled_navigator(folder: Path) -> Navigator:
    """A navigator in the shape of a checkpoint's, with its tokenizer; `load_checkpoint` must give it weights."""
    with file_of_a_run():
        config = read_config(folder / CONFIG)
        require_fit(folder, config)
        backbone = make_backbone(config)  # a foreign one may have buffers that no file holds
        with torch.device("meta"):
            navigator = Navigator(config, backbone)
        navigator.read_tokenizer(folder)
    allocate(navigator, "cpu")
    return navigator


def load_checkpoint(folder: Path, state: TrainingState) -> tuple[Progress, Tensor, dict[str, Any]]:
    """Put a run back exactly where it was: weights, average, optimiser and what the learner holds beside.

    Returns how far it is, the losses [batch, part] not reported yet, and the states of named callbacks.
    """
    model, averaged = state.model, state.averaged
    with file_of_a_run():
        weights = model.read_weights(folder)
    model.load_state_dict(weights)
    try:
        tensors, header = read_safetensors(folder / TRAINER)
        progress = read_header(header)
        callbacks: Any = json.loads(header.get(CALLBACKS, "{}"))
        if not isinstance(callbacks, dict):
            raise ValueError("callbacks of another kind")
        losses = tensors.pop(LOSSES, NO_LOSSES)
        learning = {name: tensors.pop(LEARNING + name) for name in averaged.weights}
        if any(learning[name].shape != weight.shape for name, weight in averaged.weights.items()):
            raise ValueError("weights of another shape")
        beside = {name: tensors.pop(BESIDE + name) for name in state.companions}
        if any(beside[name].shape != tensor.shape for name, tensor in state.companions.items()):
            raise ValueError("losses of another shape")
        moments = read_state(tensors, state.names)
        check_state(state.optimiser, moments, begun=progress.iteration > 0)
        counted = (one for one in tensors.values() if one.is_floating_point())  # an optimiser may keep whole numbers
        if losses.dim() != 2 or any(weight_problem(one) for one in (losses, *learning.values(), *counted)):
            raise ValueError("no numbers")
    except DigestError:
        raise
    except (DataError, KeyError, ValueError, IndexError):
        raise DataError(folder / TRAINER, "is not whole", ANEW) from None
    restore_state(state.optimiser, moments)
    averaged.restore(learning)
    with torch.no_grad():
        for name, tensor in state.companions.items():
            tensor.copy_(beside[name])
    return progress, losses, callbacks


@contextmanager
def file_of_a_run() -> Iterator[None]:
    """A damaged file of a run, unlike others of its kind, can neither be fetched nor saved again."""
    try:
        yield
    except (NewerFormatError, DigestError):  # not damaged, or perhaps on purpose
        raise
    except DataError as error:
        raise DataError(error.path, error.problem, ANEW, error.place) from None
