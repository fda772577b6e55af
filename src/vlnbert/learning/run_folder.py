"""A run's folder: where its checkpoints and its best weights lie, how far it is, and what a kill may have left there.

`last.json` is the pointer to the newest whole checkpoint. What comes of the validation of a checkpoint, which is saved
before, is told by the pointer, so that to tell it is one move. The folder is kept to one process, from before it is
looked at until the training ends.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from vlnbert.errors import DataError, UsageError
from vlnbert.navigator.storage.folder import exists
from vlnbert.ranks import Ranks
from vlnbert.records import MOST, from_plain
from vlnbert.sources.files import NewerFormatError, read_json, require_regular
from vlnbert.sources.writing import Read, aside, locked, read_whole, remove, sweep, write_json

RECORD, POINTER, CHECKPOINTS, BEST = "run.json", "last.json", "checkpoints", "best"  # in a run's folder
# In a pointer: the names of the checkpoints that the run keeps, and the digest of all else that it says.
KEPT, DIGEST = "kept", "digest"
TRAINER = "trainer.safetensors"  # in a checkpoint's folder
NAME = re.compile(r"\d{7,10}")  # of a checkpoint's folder: its update
WRITTEN_BESIDE = re.compile(r"run\.json|last\.json|best(\.new)?|\d{7,}(\.new)?")  # .new: by older versions
ANEW = "begin the training anew in another folder"


@dataclass(frozen=True)
class Progress:
    """Where a run is, beside the weights: plain values that go into the checkpoint's header."""

    iteration: int
    best: float | None  # the best score so far
    best_iteration: int | None
    validated: bool = True  # or it is still to be


def is_run(folder: Path) -> bool:
    return exists(folder / RECORD)


def best_weights(run: Path) -> Path:
    """The folder of a run's best weights, or of its last where none were validated yet."""
    best = run / BEST
    places = (best, aside(best), best)  # it may be back by then
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
    if DIGEST in pointer and pointer.pop(DIGEST) != _digest(pointer):  # older ones have none
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
    if progress.iteration == newest > saved.iteration:  # which is damaged, and was validated after this one
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
def kept(run: Path, ranks: Ranks) -> Iterator[None]:
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
        with suppress(DataError):  # of a damaged run, which is reported where it matters
            last_checkpoint(run)
            for path in (run / CHECKPOINTS).glob("*.old"):  # whole ones stay: the pointer may be wrong
                if NAME.fullmatch(path.stem):
                    remove(path)


def remove_surplus(run: Path, checkpoint: Path, keep: int) -> None:
    """Remove the checkpoints of a run that are older than the newest `keep`."""
    for other in surplus_checkpoints(run, checkpoint, keep):
        remove(other)
