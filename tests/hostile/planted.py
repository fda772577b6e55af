"""Readers with the faults that are looked for. An honest file they read well."""

import os
import signal
import time
from pathlib import Path

from tests.conftest import SPECIAL, WORDS
from tests.hostile.damaged_tensors import MARK
from vlnbert.errors import UsageError, VlnbertError

HONEST = ("\n".join((*SPECIAL, *WORDS.split())) + "\n").encode()


def _is_honest(path: Path) -> bool:
    return path.is_file() and path.read_bytes() == HONEST


def planted_traceback(root: Path, path: Path) -> object:
    if not _is_honest(path):
        raise IndexError("list index out of range")
    return "honest"


def planted_hang(root: Path, path: Path) -> object:
    while not _is_honest(path):
        pass
    return "honest"


def planted_silence(root: Path, path: Path) -> object:
    while not _is_honest(path):
        time.sleep(60)
    return "honest"


def planted_memory(root: Path, path: Path) -> object:
    if not _is_honest(path):
        held = b"x" * (1200 << 20)
        raise UsageError(f"this took {len(held)} bytes")
    return "honest"


def planted_crash(root: Path, path: Path) -> object:
    if not _is_honest(path):
        os.kill(os.getpid(), signal.SIGSEGV)
    return "honest"


def planted_silently_other(root: Path, path: Path) -> object:
    return _is_honest(path)


class _Unbounded(VlnbertError):
    """An error that tells its text as it is."""

    def __str__(self) -> str:
        return str(self.args[0])


def planted_long_message(root: Path, path: Path) -> object:
    if not _is_honest(path):
        raise _Unbounded("x" * 501)
    return "honest"


def planted_control(root: Path, path: Path) -> object:
    if not _is_honest(path):
        raise _Unbounded("no \x1b[2J here")
    return "honest"


def planted_left_behind(root: Path, path: Path) -> object:
    if not _is_honest(path):
        (root / "out" / "imported").mkdir()
        raise VlnbertError("refused, and not tidied")
    return "honest"


def planted_code_ran(root: Path, path: Path) -> object:
    if not _is_honest(path):
        Path(os.environ[MARK]).touch()
        raise VlnbertError("refused, and run")
    return "honest"


def planted_refusal(root: Path, path: Path) -> object:
    """No fault at all."""
    if not _is_honest(path):
        raise VlnbertError("refused in a line")
    return "honest"


READERS = {
    planted_traceback: "traceback",
    planted_hang: "hang",
    planted_silence: "hang",
    planted_memory: "memory",
    planted_crash: "crash",
    planted_silently_other: "silently other",
    planted_long_message: "long message",
    planted_control: "long message",
    planted_left_behind: "left behind",
    planted_code_ran: "code ran",
    planted_refusal: "refused",
}
