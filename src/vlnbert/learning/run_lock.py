"""A run's folder is kept to one process, from before it is looked at until the training ends."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from vlnbert.errors import DataError
from vlnbert.learning.run_folder import RECORD, sweep_run
from vlnbert.learning.run_record import read_record
from vlnbert.navigator.storage.folder import exists
from vlnbert.ranks import Ranks
from vlnbert.sources.writing import LOCK, locked, refuse_full

ANOTHER = "resume it with: vlnbert train --resume {run}, or choose another folder"


@contextmanager
def begun_alone(run: Path, ranks: Ranks) -> Iterator[None]:
    """Keep a new run's folder to these ranks; it must be new or empty, and stays so where the block fails."""
    if not exists(run / LOCK):  # a folder that was never a run's gets no lock
        refuse_used(run)
    with kept(run, ranks):
        refuse_used(run)
        yield


@contextmanager
def kept(run: Path, ranks: Ranks) -> Iterator[None]:
    """Keep a run's folder to these ranks, and remove what a killed training left half done. Blocks may be nested."""
    with locked(run) if ranks.writes else nullcontext():
        if ranks.writes:
            sweep_run(run)
        yield


def refuse_used(run: Path) -> None:
    """Only a new or an empty folder may become a run; the lock of one that never came to be is no obstacle."""
    if exists(run / RECORD):
        raise DataError(run, f"holds a run of {read_record(run).preset}", ANOTHER.format(run=run))
    refuse_full(run, besides=(LOCK,))
