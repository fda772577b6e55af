"""Train to the end, with a bar and logs, and a way to stop that loses nothing."""

import signal
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vlnbert.learning.trainer import Trainer


def train_to_the_end(trainer: "Trainer", again: str) -> bool:
    """Whether training came to its end. An interrupt finishes the update, saves and says how to go on: `again`."""
    from vlnbert.learning.callbacks import Bar, JsonLog, TensorBoard

    def stop(*_: object) -> None:
        trainer.stopping = True
        for name in before:  # who asks twice does not want to wait
            signal.signal(name, signal.default_int_handler)

    done, total = trainer.progress.iteration, trainer.config.iterations
    before = {name: signal.signal(name, stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        with ExitStack() as stack:
            bar = stack.enter_context(Bar(total, done, disabled=not trainer.ranks.writes))
            if trainer.ranks.writes:
                board = stack.enter_context(closing(TensorBoard(trainer.run / "tensorboard", done)))
                trainer.callbacks = [bar, JsonLog(trainer.run / "log.jsonl"), board]
            trainer.train()
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    if trainer.progress.iteration < total and trainer.stopping:
        if trainer.ranks.writes:
            print(f"stopped after {trainer.progress.iteration} updates; go on with: {again}", file=sys.stderr)
        return False
    return True
