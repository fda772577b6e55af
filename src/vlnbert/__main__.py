"""The command `vlnbert`, and `python -m vlnbert`: an interrupt is answered from the first moment on."""

import os
import signal

from vlnbert.cli.interrupted import exit_code, tell_interrupted


def main() -> None:
    """Run the command line; who is interrupted while it is imported has done nothing yet, and just leaves."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, _leave)
    from vlnbert.cli.main import main as run

    run()


def _leave(number: int, *_: object) -> None:
    tell_interrupted()
    os._exit(exit_code(number))


if __name__ == "__main__":
    main()
