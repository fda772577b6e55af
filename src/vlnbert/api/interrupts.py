"""Ctrl-C, and its like from other programs, end a training without losing what was trained."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from vlnbert.learning.trainer import Trainer


@contextmanager
def stopped_by_signals(trainer: Trainer, tell: Callable[[str], object]) -> Iterator[None]:
    """Interrupts within the block stop the training: it finishes what is under way and saves.

    A second Ctrl-C does without the validation, which the resumed run makes up for. Only a third stops at once, and
    loses the updates since the last checkpoint. Who sends SIGTERM waits for seconds before it kills, and may send it
    more than once (a scheduler does, and torchrun passes it on): the first does without the validation, and no other
    does more. `tell` is told what is waited for.
    """

    def stop(number: int, _: object) -> None:
        terminated = number == signal.SIGTERM
        if trainer.hurrying:
            if terminated:
                return
            raise KeyboardInterrupt
        trainer.stopped_by = trainer.stopped_by or number
        hurried, trainer.stopping = terminated or trainer.stopping, True
        trainer.hurrying = hurried
        if hurried and trainer.walking:
            raise KeyboardInterrupt
        if trainer.ranks.writes:
            with suppress(RuntimeError):  # of an output that was just being written to
                tell(waiting(trainer))

    with _handled(stop):
        yield


def uninterrupted() -> AbstractContextManager[None]:
    """No interrupt counts within the block, which must be short: half of what it does would be worse than nothing."""
    return _handled(lambda *_: None)


@contextmanager
def _handled(handler: Callable[..., object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's business
        yield
        return
    before = {name: signal.signal(name, handler) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, old in before.items():
            signal.signal(name, old)


def waiting(trainer: Trainer) -> str:
    """What a training that is asked to stop waits for, and what asking again would do."""
    if trainer.hurrying:
        return "stopping after the update under way is saved; another Ctrl-C ends at once, and loses what is not saved"
    if trainer.walking:
        return "stopping after the validation under way; another Ctrl-C leaves it to whoever resumes the run"
    if not trainer.listens:
        return "stopping at the next report of the losses, and saving"
    if not trainer.progress.validated or trainer.due(trainer.config.validate_every, ahead=1):
        return "stopping after the update under way is saved and validated; another Ctrl-C leaves out the validation"
    return "stopping after the update under way is saved"
