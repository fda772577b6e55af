"""Two processes that begin, or extend, a run in one folder: one of them trains, the other writes nothing."""

import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.hostile.training import (
    TRAINING,
    Outcome,
    difference,
    ended,
    finish,
    forked,
    go_on,
    in_a_process,
    text_of,
    watch_operations,
)
from vlnbert.data.data import Data

BEGINNING = 30  # file operations from the lock to the first update, and some more
RIVALS = (replace(TRAINING, seed=1, iterations=1), replace(TRAINING, seed=2, iterations=2))
LENGTHS = (2, 3)  # to which rivals extend a run
REFUSALS = ("is in use by another process", "holds a run of", "fewer than the")


def run(folder: Path, seed: int = 0, count: int = 200) -> list[Outcome]:
    """Let two processes race `count` times: one is held up before a file operation, or both run freely."""
    return in_a_process(_run, folder, seed, count)


def _run(folder: Path, data: Data, seed: int, count: int) -> list[Outcome]:
    told, rng = folder / "told", random.Random(seed)
    wholes = {kind: [folder / f"{kind}-{number}" for number in (0, 1)] for kind in ("begun", "extended")}
    for number in (0, 1):
        finish(forked(lambda n=number: go_on(wholes["begun"][n], data, RIVALS[n]), told), told)
    for number in (0, 1):
        shutil.copytree(wholes["begun"][0], wholes["extended"][number])
        lengthened = wholes["extended"][number]
        finish(forked(lambda run=lengthened, n=number: go_on(run, data, iterations=LENGTHS[n]), told), told)
    return [_race(folder, data, rng, wholes, number) for number in range(count)]


def _race(folder: Path, data: Data, rng: random.Random, wholes: dict[str, list[Path]], number: int) -> Outcome:
    """Every operation of a beginning is met in turn; each third race, and each that extends, is drawn."""
    run, kind = folder / "raced", "extended" if number % 4 == 3 else "begun"
    shutil.rmtree(run, ignore_errors=True)
    if kind == "extended":
        shutil.copytree(wholes["begun"][0], run)
    first, held = rng.randrange(2), rng.randrange(BEGINNING) if number % 3 == 2 else number % BEGINNING
    freely = number % 5 == 4
    delay = rng.uniform(0, 0.05)
    tried = f"{kind}, {'both at once' if freely else f'rival {first} held up before operation {held + 1}'}"
    notes = [folder / f"told-{one}" for one in (0, 1)]
    for note in notes:
        note.unlink(missing_ok=True)

    def work(rival: int) -> Callable[[], None]:
        lengths = LENGTHS[rival] if kind == "extended" else None
        return lambda: go_on(run, data, RIVALS[rival], iterations=lengths)

    if freely:
        children = {first: forked(work(first), notes[first])}
        time.sleep(delay)
        children[1 - first] = forked(work(1 - first), notes[1 - first])
        codes = {rival: ended(child) for rival, child in children.items()}
    else:
        codes = _held_up(run, first, held, work, notes)
    winners = [rival for rival, code in codes.items() if code == 0]
    losers = [rival for rival in (0, 1) if rival not in winners]
    if not winners:
        return Outcome(tried, f"nobody trained: {[text_of(note) for note in notes]}")
    for loser in losers:
        said = text_of(notes[loser])
        if codes[loser] != 2 or not any(words in said for words in REFUSALS) or len(said.splitlines()) != 1:
            return Outcome(tried, f"rival {loser} ended with {codes[loser]}: {said}")
    possible = [difference(run, wholes[kind][winner]) for winner in winners]
    return Outcome(tried, "" if "" in possible else f"a mixed run: {possible}")


def _held_up(
    run: Path, first: int, held: int, work: Callable[[int], Callable[[], None]], notes: list[Path]
) -> dict[int, int]:
    """The first waits before an operation until the second has done all that it can."""
    there, go = os.pipe(), os.pipe()

    def wait(number: int, _: str) -> None:
        if number == held + 1:
            os.write(there[1], b"x")
            os.read(go[0], 1)

    def be_first() -> None:
        watch_operations(run, wait)
        try:
            work(first)()
        finally:
            os.write(there[1], b"x")  # it may end before it comes so far

    one = forked(be_first, notes[first])
    os.read(there[0], 1)
    other = ended(forked(work(1 - first), notes[1 - first]))
    os.write(go[1], b"x")
    codes = {first: ended(one), 1 - first: other}
    for end in (*there, *go):
        os.close(end)
    return codes
