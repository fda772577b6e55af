"""How the command line answers an interrupt. It imports next to nothing, since it may be needed at any moment."""

import os
import signal
from types import FrameType

INTERRUPTED = "vlnbert: interrupted"


class Terminated(KeyboardInterrupt):
    """An interrupt by SIGTERM, as schedulers and torchrun send it."""


def interrupt(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """Raise what a signal asks for: Ctrl-C's exception, or its like for SIGTERM."""
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def exit_code(interrupted: KeyboardInterrupt | int | None = None) -> int:
    """The exit code of a process that was interrupted, as shells have it: 130 by Ctrl-C, 143 by SIGTERM."""
    terminated = isinstance(interrupted, Terminated) or interrupted == signal.SIGTERM
    return 128 + (signal.SIGTERM if terminated else signal.SIGINT)


def tell_interrupted() -> None:
    """Say it in a line, past all buffers; of the processes that torchrun ends on a machine, the first does."""
    if speaks():
        os.write(2, f"{INTERRUPTED}\n".encode())


def speaks() -> bool:
    """Whether this is the first, or the only, process on this machine."""
    return os.environ.get("LOCAL_RANK", "0") == "0"
