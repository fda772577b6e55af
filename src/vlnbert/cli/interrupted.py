"""How the command line answers an interrupt. It imports next to nothing, since it may be needed at any moment."""

import os

INTERRUPTED = "vlnbert: interrupted"
CODE = 130  # of a process that was interrupted


def tell_interrupted() -> None:
    """Say it in a line, past all buffers; of the processes that torchrun ends on a machine, the first does."""
    if speaks():
        os.write(2, f"{INTERRUPTED}\n".encode())


def speaks() -> bool:
    """Whether this is the first, or the only, process on this machine."""
    return os.environ.get("LOCAL_RANK", "0") == "0"
