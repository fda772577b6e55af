"""Processes for tests: they fork from one that has imported torch already, and some of them work as a team."""

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from vlnbert.ranks import Ranks

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "torch._dynamo", "torch.distributed", "tests.learning.samples"])
PATIENCE = 600  # seconds; on a busy machine, several processes that import torch take minutes


def together(
    count: int,
    folder: Path,
    work: Callable[..., Any],
    *words: object,
    timeout: float = PATIENCE,
    heard: int | None = None,
) -> list[Any]:
    """What `work(ranks, *words)` gives in each of some processes that can talk to each other; None where one died.

    They wait for each other as many seconds as `timeout` says. Only the first `heard` are waited for, if not all.
    """
    pipes = [PROCESSES.Pipe(duplex=False) for _ in range(count)]
    team = [
        PROCESSES.Process(
            target=_member, args=(Ranks(rank, count), folder / "store", pipes[rank][1], work, words, timeout)
        )
        for rank in range(count)
    ]
    try:
        for member, (_, end) in zip(team, pipes, strict=True):
            member.start()
            end.close()
        return [_heard(start) for start, _ in pipes[:heard]]
    finally:
        for member, (start, _) in zip(team, pipes, strict=True):
            member.kill()
            member.join()
            start.close()


def _heard(pipe: Connection) -> Any:
    assert pipe.poll(PATIENCE), "a member of the team is silent"
    try:
        return pipe.recv()
    except EOFError:
        return None


def _member(
    ranks: Ranks,
    store: Path,
    pipe: Connection,
    work: Callable[..., Any],
    words: tuple[object, ...],
    timeout: float,
) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=ranks.rank,
        world_size=ranks.count,
        timeout=timedelta(seconds=timeout),
    )
    pipe.send(work(ranks, *words))
    with suppress(RuntimeError):  # where another died
        distributed.barrier()  # who is done first must not hang up on the others
    distributed.destroy_process_group()
