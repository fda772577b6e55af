"""`vlnbert explore`: watch agents read and walk, on a page in a browser."""

from pathlib import Path
from typing import Annotated

import tyro

from vlnbert.cli.options import Flag


def explore(
    runs: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN")]] = (),
    *,
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    open: Flag = False,
    device: str | None = None,
    threads: int | None = None,
) -> None:
    """Serve a page on which agents can be watched while they read and walk: why did it go there?

    Choose an episode, or click a start on the plan and type an instruction of your own. Without a run, a tiny agent
    that ships with vlnbert walks in a generated house. Ctrl-C ends it. Needs: pip install 'vlnbert[explore]'.

    Example: vlnbert explore --open

    Example: vlnbert explore runs/r2r-open --data data

    Example: vlnbert explore runs/first runs/second

    Example: vlnbert explore random --data data

    Args:
        runs: One or two agents, side by side: a run's folder, any navigator, or a baseline by name (random, stop,
            shortest, follow).
        data: The data folder; by default the one that a run was trained on, or a generated house.
        host: The address to serve at. Beyond 127.0.0.1 everybody who can reach this machine can visit.
        port: Where to listen; 0 takes any port that is free.
        open: Open the page in a browser.
        device: Where to walk, such as cpu or cuda.
        threads: CPU threads; by default torch's choice, and one for the agent that ships.
    """
    import sys
    import webbrowser

    from vlnbert.api import exploring

    try:
        exploring.explore(
            *runs,
            data=data,
            host=host,
            port=port,
            device=device,
            threads=threads,
            began=webbrowser.open if open else None,
        )
    except KeyboardInterrupt:
        print("the explorer has ended", file=sys.stderr)
