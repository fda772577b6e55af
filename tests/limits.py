"""Work in a process of its own that may take so much memory and so many seconds, and no more."""

import multiprocessing
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from vlnbert.errors import VlnbertError

MEMORY = 1 << 30  # bytes beyond what the process began with
SECONDS = 10  # of the processor's time, which no other process prolongs
PATIENCE = 120  # seconds in all, for a process that waits instead of working
FORK = multiprocessing.get_context("fork")


def refusal(work: Callable[..., object], *words: Any) -> str:
    """The text of the error that `work(*words)` must end in, without taking more than its share."""
    heard, told = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_bounded, args=(told, work, words))
    child.start()
    told.close()
    try:
        assert heard.poll(PATIENCE), "it hangs"
        try:
            text, taken = heard.recv()
        except EOFError:
            child.join()
            raise AssertionError(f"the process died ({child.exitcode})") from None
    finally:
        child.kill()
        child.join()
        heard.close()
    assert taken < MEMORY, f"took {taken >> 20} MB"
    return str(text)


def _bounded(told: Connection, work: Callable[..., object], words: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    busy = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * MEMORY,) * 2)  # beyond what is allowed, so that it can be told
    resource.setrlimit(resource.RLIMIT_CPU, (int(busy) + SECONDS + 1,) * 2)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    before = _peak()
    try:
        work(*words)
    except VlnbertError as error:
        told.send((str(error), _peak() - before))
    except BaseException as error:  # the other process tells it
        told.send((f"not refused: {error!r:.500}", 0))
    else:
        told.send(("nothing was refused", 0))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
