"""What digests, looking at every number, and waiting for the disk cost at base size.

python -m tests.hostile.cost [FOLDER [ROUNDS]]

Checkpoints are saved to a folder, loaded and opened with these and without, taking turns in one process.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from tests.learning.samples import state_of
from vlnbert.learning import run_folder
from vlnbert.learning.run_folder import Progress, TrainingState
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.navigator.storage import folder

WAYS = ("none of it", "digests and finiteness", "and fsync")


@contextmanager
def guarded(way: str) -> Iterator[None]:
    """Only these guards are on."""
    with ExitStack() as off:
        if way != WAYS[2]:
            off.enter_context(patch("os.fsync", lambda descriptor: None))
        if way == WAYS[0]:
            off.enter_context(patch.object(folder, "_digest_tensor", lambda tensor: "0"))
            for module in (folder, run_folder):
                off.enter_context(patch.object(module, "weight_problem", lambda tensor: None))
        yield


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def resumed(checkpoint: Path, state: TrainingState) -> None:
    """Load, and use it once: what nobody looks at is not read from the disk before it is used."""
    run_folder.load_checkpoint(checkpoint, state)
    state.optimiser.step()


def main(place: str = "", rounds: int = 9) -> None:
    torch.manual_seed(0)
    navigator = Navigator(NavigatorConfig(vocabulary=30522, feature_width=2048))
    state = state_of(navigator)
    for weight in navigator.parameters():
        weight.grad = torch.zeros_like(weight)
    state.optimiser.step()
    seconds: dict[tuple[str, str], list[float]] = {}
    run = Path(tempfile.mkdtemp(dir=place or None))
    try:
        for number in range(rounds):
            for way in WAYS[number % 3 :] + WAYS[: number % 3]:  # none is always the first
                shutil.rmtree(run)
                run.mkdir()
                os.sync()  # else one pays for what another wrote
                time.sleep(1)
                with guarded(way):
                    saving, saved = timed(
                        lambda: run_folder.save_checkpoint(run, state, progress=Progress(1, None, None))
                    )
                    loading, _ = timed(lambda: resumed(saved, state))  # noqa: B023
                    opening, _ = timed(lambda: Navigator.from_pretrained(saved))  # noqa: B023
                for what, took in (("save", saving), ("load, and update once", loading), ("open", opening)):
                    seconds.setdefault((what, way), []).append(took)
        size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file()) / 1e9
    finally:
        shutil.rmtree(run)
    print(f"a checkpoint of {size:.2f} GB; seconds, medians of {rounds} and the least")
    for what in ("save", "load, and update once", "open"):
        taken = [(way, seconds[what, way]) for way in WAYS]
        print(f"{what:22}", *(f"{way}: {median(one):.2f} ({min(one):.2f})" for way, one in taken), sep="  ")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
