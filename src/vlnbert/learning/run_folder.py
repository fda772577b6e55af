"""A run's folder: checkpoints that no kill can spoil, the best weights, how far the run is, and what a kill left there.

A run holds `checkpoints/<iteration>/` (the folder of what is trained, a navigator or a speaker, and
`trainer.safetensors`) and `last.json`, the pointer to the newest whole one. A checkpoint is written beside and renamed,
then the pointer, then those go that are older than the kept ones: at every moment the pointer names a checkpoint that
is whole and on the disk. It also tells of the validation after the checkpoint was saved. `best/` is what scored best.

Where weights are averaged, either folder holds the average, so that to open one gives the weights that were
validated; those that are trained on lie in `trainer.safetensors`, since only resuming needs them.

The folder is locked to one process, from before it is looked at until the training ends.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.optim import Optimizer

from vlnbert.errors import DataError, UsageError
from vlnbert.learning.optimisers import AveragedWeights, check_state, optimiser_tensors, read_state, restore_state
from vlnbert.navigator import Navigator
from vlnbert.navigator.model.backbone import make_backbone
from vlnbert.navigator.model.navigator import allocate
from vlnbert.navigator.storage.folder import (
    CONFIG,
    DIGESTS,
    DigestError,
    exists,
    noting,
    read_config,
    read_safetensors,
    require_fit,
    weight_problem,
)
from vlnbert.ranks import Ranks
from vlnbert.records import MOST, from_plain
from vlnbert.sources.files import NewerFormatError, is_number, opened, read_json, require_regular
from vlnbert.sources.writing import Read, aside, locked, read_whole, remove, replaced, sweep, write_json

RECORD, POINTER, CHECKPOINTS, BEST = "run.json", "last.json", "checkpoints", "best"  # in a run's folder
# In a pointer: the names of the checkpoints that the run keeps, and the digest of all else that it says.
KEPT, DIGEST = "kept", "digest"
LONGEST_LINE = 1 << 20  # bytes of a log's; ours have a few hundred
TRAINER = "trainer.safetensors"  # in a checkpoint's folder
NAME = re.compile(r"\d{7,10}")  # of a checkpoint's folder: its update
WRITTEN_BESIDE = re.compile(r"run\.json|last\.json|best(\.new)?|\d{7,}(\.new)?")  # .new: by older versions
ANEW = "begin the training anew in another folder"
Trained = Any  # a module that saves itself to a folder and reads its weights from one

ROOM = "free some space and resume"
LEARNING = "weights."  # before the names of weights that go on learning, beside their average
BESIDE = "learner."  # before the names of what the learner holds beside what is trained
CALLBACKS = "callbacks"  # in its header, what they keep
LOSSES = "losses"  # the name of those not reported yet
NO_LOSSES = torch.zeros(0, 0)


@dataclass(frozen=True)
class Progress:
    """Where a run is, beside the weights: plain values that go into the checkpoint's header."""

    iteration: int
    best: float | None  # the best score so far
    best_iteration: int | None
    validated: bool = True  # False while a validation is pending


def is_run(folder: Path) -> bool:
    return exists(folder / RECORD)


def best_weights(run: Path) -> Path:
    """The folder of a run's best weights, or of its last where none were validated yet."""
    best = run / BEST
    # A reader may find the best weights while they are being replaced, so it tries twice.
    places = (best, aside(best), best)
    return next((folder for folder in places if folder.is_dir()), None) or last_checkpoint(run)


def has_checkpoint(run: Path) -> bool:
    """Whether a run came to its first checkpoint, be its pointer lost since."""
    return (run / POINTER).exists() or bool(_checkpoints(run))


def last_checkpoint(run: Path) -> Path:
    """The newest whole checkpoint of a run: the one that its pointer names or, if that is lost, the newest there is."""
    return while_trained(run, lambda run: _require_checkpoint(_named_checkpoint(run)))


def while_trained(run: Path, read: Callable[[Path], Read]) -> Read:
    """Apply `read` to a run. If its checkpoint is replaced by a newer one meanwhile, that one is read."""
    return read_whole(run / POINTER, lambda _: read(run))


def _require_checkpoint(folder: Path) -> Path:
    if not (folder / TRAINER).is_file():
        raise DataError(folder, "the checkpoint is missing", ANEW)
    return folder


def _named_checkpoint(run: Path) -> Path:
    """The checkpoint that the pointer names, be it there or not."""
    if not (run / POINTER).exists() and (found := _checkpoints(run)):
        if (run / CHECKPOINTS).is_symlink():
            problem = f"is missing, and {run / CHECKPOINTS} is a link, so that what lies there may be another run's"
            raise DataError(run / POINTER, problem, "put a folder with this run's checkpoints in the place of the link")
        for folder in found:
            with suppress(DataError):
                _saved_progress(folder)
                return folder
        raise DataError(run / CHECKPOINTS, f"holds no whole checkpoint, and {POINTER} is missing", ANEW)
    name = str(_read_pointer(run).get("checkpoint"))
    if not NAME.fullmatch(name):
        raise DataError(run / CHECKPOINTS / name, "the checkpoint is missing", ANEW)
    return run / CHECKPOINTS / name


def read_newest(
    run: Path, read: Callable[[Path], Read], newest: Path | None = None
) -> tuple[Path, Read, DataError | None]:
    """The newest checkpoint that is not damaged, by default of all, what `read` makes of it, and what is wrong with the
    newest, if something is. The run must be kept to this process."""
    newest, damage = newest or _named_checkpoint(run), None
    for folder in (newest, *older_checkpoints(run, newest)):
        try:
            return folder, read(_require_checkpoint(folder)), damage
        except NewerFormatError:
            raise
        except DataError as error:
            damage = damage or error
    assert damage is not None
    raise damage


def checkpoint_of(run: Path, iteration: int) -> Path:
    """The folder of the checkpoint after so many updates."""
    return run / CHECKPOINTS / f"{iteration:07d}"


def _checkpoints(run: Path) -> list[Path]:
    """All checkpoints in a run's folder, the newest first."""
    named = [path for path in (run / CHECKPOINTS).glob("*") if NAME.fullmatch(path.name)]
    return sorted(named, key=lambda path: int(path.name), reverse=True)


def own_checkpoints(run: Path) -> list[Path]:
    """The checkpoints that a run wrote, the newest first.

    Where `checkpoints` is a link, others' may lie there too: only those are the run's that its pointer lists.
    """
    found = _checkpoints(run)
    if not (run / CHECKPOINTS).is_symlink():
        return found
    pointer = _read_pointer(run) if (run / POINTER).exists() else {}
    kept = pointer.get(KEPT)
    listed = {str(pointer.get("checkpoint")), *map(str, kept if isinstance(kept, list) else ())}
    return [path for path in found if path.name in listed]


def older_checkpoints(run: Path, checkpoint: Path) -> list[Path]:
    """Those of a run that come before one, the newest first."""
    return [path for path in own_checkpoints(run) if int(path.name) < int(checkpoint.name)]


def surplus_checkpoints(run: Path, checkpoint: Path, keep: int) -> list[Path]:
    """The checkpoints of a run that are older than the newest `keep`."""
    kept, folder = {checkpoint, *older_checkpoints(run, checkpoint)[: keep - 1]}, run / CHECKPOINTS
    put_aside = [] if folder.is_symlink() else [path for path in folder.glob("*.old") if NAME.fullmatch(path.stem)]
    return [path for path in (*own_checkpoints(run), *put_aside) if path not in kept]


def _read_pointer(run: Path) -> dict[str, Any]:
    damaged = f"remove it to go on from the newest checkpoint, or {ANEW}"
    pointer = read_json(run / POINTER, "run to resume", "name the folder that a training wrote", damaged=damaged)
    if not isinstance(pointer, dict):
        return {"checkpoint": pointer}
    # Older pointers have no digest.
    if DIGEST in pointer and pointer.pop(DIGEST) != _digest(pointer):
        raise DataError(run / POINTER, "is not as it was written", damaged)
    return pointer


def _digest(pointer: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(pointer, sort_keys=True).encode(), digest_size=16).hexdigest()


def read_progress(run: Path) -> Progress:
    """How far a run was at its newest checkpoint, without reading its weights; it may be trained meanwhile."""
    return while_trained(run, lambda run: after_validation(run, _saved_progress(last_checkpoint(run))))


def after_validation(run: Path, saved: Progress) -> Progress:
    """How far a run is by its pointer, which tells of the validation after the newest checkpoint was saved."""
    if not (run / POINTER).exists() or (stored := _read_pointer(run).get("progress")) is None:
        return saved
    try:
        progress = _progress_of(stored)
    except (UsageError, TypeError) as error:
        raise DataError(run / POINTER, f"is damaged ({error})", ANEW) from None
    newest = int(_named_checkpoint(run).name)
    # The newest is damaged, and was validated after this one.
    if progress.iteration == newest > saved.iteration:
        return replace(saved, best=progress.best, best_iteration=progress.best_iteration, validated=True)
    if progress.iteration != saved.iteration:
        problem = f"tells of update {progress.iteration}, its checkpoint is of {saved.iteration}"
        raise DataError(run / POINTER, problem, ANEW)
    return progress


def read_header(header: Mapping[str, str]) -> Progress:
    """How far a run was, by the header of its `trainer.safetensors`; a ValueError where it does not say so."""
    try:
        return _progress_of(json.loads(header["progress"]))
    except (KeyError, TypeError, UsageError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _progress_of(values: Any) -> Progress:
    progress = from_plain(Progress, values)
    best, when = progress.best, progress.best_iteration
    # The best weights may be newer than the checkpoint: that of their update was damaged, and is to be made again.
    if not 0 <= progress.iteration <= MOST or (when is not None and not 0 <= when <= MOST):
        raise UsageError("it tells of updates that no run makes")
    if (best is None) != (when is None) or (best is not None and math.isnan(best)):
        raise UsageError("its best score is no number")
    return progress


def _saved_progress(checkpoint: Path) -> Progress:
    path = checkpoint / TRAINER
    try:
        require_regular(path, "safetensors file")
        with safe_open(path, framework="pt") as file:
            return read_header(dict(file.metadata() or {}))
    except (DataError, OSError, SafetensorError, ValueError):
        raise DataError(path, "is not whole", ANEW) from None


def point_to(run: Path, checkpoint: Path, keep: int, progress: Progress | None = None) -> None:
    """Make a checkpoint the run's newest, of `keep` that it keeps; `progress` tells of it since it was saved."""
    older = older_checkpoints(run, checkpoint)[: keep - 1]
    after = {} if progress is None else {"progress": asdict(progress)}
    pointer = {"checkpoint": checkpoint.name, KEPT: [path.name for path in (checkpoint, *older)], **after}
    write_json(run / POINTER, {**pointer, DIGEST: _digest(pointer)}, lasting=True)


@contextmanager
def locked_run(run: Path, ranks: Ranks) -> Iterator[None]:
    """Keep a run's folder to these ranks, and remove what a killed training left half done. Blocks may be nested."""
    with locked(run) if ranks.writes else nullcontext():
        if ranks.writes:
            _sweep(run)
        yield


def _sweep(run: Path) -> None:
    """Remove what a training that was killed left half done; the run must be locked."""
    for folder in (run, run / CHECKPOINTS):
        sweep(folder, WRITTEN_BESIDE, alone=folder == run or not folder.is_symlink())
        for path in () if folder.is_symlink() else folder.glob("*.new"):
            if WRITTEN_BESIDE.fullmatch(path.name):
                remove(path)
    if (run / BEST).is_dir():
        remove(aside(run / BEST))
    if (run / POINTER).is_file() and not (run / CHECKPOINTS).is_symlink():
        # Damage is reported where it matters.
        with suppress(DataError):
            last_checkpoint(run)
            # Whole checkpoints stay: the pointer may be wrong.
            for path in (run / CHECKPOINTS).glob("*.old"):
                if NAME.fullmatch(path.stem):
                    remove(path)


def remove_surplus(run: Path, checkpoint: Path, keep: int) -> None:
    """Remove the checkpoints of a run that are older than the newest `keep`."""
    for other in surplus_checkpoints(run, checkpoint, keep):
        remove(other)


@dataclass(frozen=True)
class TrainingState:
    """The state of a training that a checkpoint keeps; all else follows from the update's number."""

    model: Trained
    optimiser: Optimizer
    names: Sequence[str]  # of the optimiser's parameters, in its order
    averaged: AveragedWeights
    extra_state: Mapping[str, Tensor]  # parameters and buffers of losses and rewards, by name
    callbacks: Mapping[str, Any] = field(default_factory=dict)  # what named callbacks keep, as plain values
    losses: Tensor = NO_LOSSES  # [batch, part] not reported yet


def save_checkpoint(run: Path, state: TrainingState, progress: Progress, keep: int = 1) -> Path:
    """Write a whole checkpoint, point to it, and remove those of the run that are older than the newest `keep`."""
    model, averaged, losses = state.model, state.averaged, state.losses
    learning = {LEARNING + name: weight.detach().contiguous() for name, weight in averaged.weights.items()}
    folder = checkpoint_of(run, progress.iteration)
    # A kill before the pointer was moved may have left a folder of this name.
    with replaced(folder) as beside:
        try:
            metadata = {"progress": json.dumps(asdict(progress))}
            if state.callbacks:
                try:
                    metadata[CALLBACKS] = json.dumps(state.callbacks)
                except (TypeError, ValueError) as error:
                    problem = f"the state of a callback cannot be saved ({error})"
                    remedy = "keep numbers, texts, lists and dictionaries"
                    raise UsageError(f"{problem}; {remedy}") from None
            extra_state = {BESIDE + name: tensor.detach().contiguous() for name, tensor in state.extra_state.items()}
            tensors = {**optimiser_tensors(state.optimiser, state.names), **learning, **extra_state}
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
        # A third-party backbone may have buffers that no file holds.
        backbone = make_backbone(config)
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
        beside = {name: tensors.pop(BESIDE + name) for name in state.extra_state}
        if any(beside[name].shape != tensor.shape for name, tensor in state.extra_state.items()):
            raise ValueError("losses of another shape")
        moments = read_state(tensors, state.names)
        check_state(state.optimiser, moments, begun=progress.iteration > 0)
        # An optimiser may keep whole numbers.
        counted = (one for one in tensors.values() if one.is_floating_point())
        if losses.dim() != 2 or any(weight_problem(one) for one in (losses, *learning.values(), *counted)):
            raise ValueError("no numbers")
    except DigestError:
        raise
    except (DataError, KeyError, ValueError, IndexError):
        raise DataError(folder / TRAINER, "is not whole", ANEW) from None
    restore_state(state.optimiser, moments)
    averaged.restore(learning)
    with torch.no_grad():
        for name, tensor in state.extra_state.items():
            tensor.copy_(beside[name])
    return progress, losses, callbacks


@contextmanager
def file_of_a_run() -> Iterator[None]:
    """A damaged file of a run, unlike others of its kind, can neither be fetched nor saved again."""
    try:
        yield
    except (NewerFormatError, DigestError):
        # These are not damaged, or were changed on purpose.
        raise
    except DataError as error:
        raise DataError(error.path, error.problem, ANEW, error.place) from None


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, one an iteration: where a resumed run repeated some, the later ones hold."""
    lines: dict[tuple[int, bool], dict[str, Any]] = {}
    with opened(path, "log") as file:
        for text in iter(partial(file.readline, LONGEST_LINE), b""):
            try:
                line = json.loads(text.decode(errors="replace"))
            except (ValueError, RecursionError):
                # A kill cut the line; the resumed run wrote it again.
                continue
            if _is_line(line):
                lines[line["iteration"], "scores" in line] = line
    return [lines[key] for key in sorted(lines)]


def _is_line(line: Any) -> bool:
    """Whether a line is a report or a validation as we write them: with an update, and numbers or scores of splits."""
    if not isinstance(line, dict) or type(line.get("iteration")) is not int or not is_number(line["iteration"]):
        return False
    if "scores" not in line:
        return is_number(line.get("total"))
    splits = line["scores"].values() if isinstance(line["scores"], dict) else [None]
    return all(
        isinstance(one, dict) and all(each is None or is_number(each) for each in one.values()) for one in splits
    )
