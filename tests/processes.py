"""Processes for tests: they fork from one that has imported torch already, and some of them work as a team."""

import multiprocessing
import os
import resource
import sys
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


def limit_files(room: int) -> None:
    """Let no file grow beyond so many bytes: to the program, a disk that is full."""
    sys.dont_write_bytecode = True  # Python would keep half a module and stumble over it ever after
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def spoken_with_room(room: int, *words: object) -> tuple[int | None, str]:
    """How `vlnbert` with some words ends where no file may have more bytes than `room`, and its standard error.

    To the program that is a full disk: Python ignores the signal that comes with it.
    """
    start, end = PROCESSES.Pipe(duplex=False)
    cache, state = os.environ["VLNBERT_CACHE"], os.environ["VLNBERT_STATE"]
    process = PROCESSES.Process(target=_spoken, args=(room, [*map(str, words)], cache, state, end))
    process.start()
    end.close()
    try:
        said = b""
        with suppress(EOFError):
            while start.poll(PATIENCE):
                said += start.recv_bytes()
        process.join(PATIENCE)
    finally:
        process.kill()
        process.join()
        start.close()
    return process.exitcode, said.decode()


def _spoken(room: int, words: list[str], cache: str, state: str, pipe: Connection) -> None:
    from vlnbert.cli.main import main

    os.environ["VLNBERT_CACHE"], os.environ["VLNBERT_STATE"] = cache, state
    read, write = os.pipe()
    os.dup2(write, 2)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    sys.argv = ["vlnbert", *words]
    limit_files(room)
    try:
        main()
    finally:
        sys.stderr.flush()
        os.set_blocking(read, False)
        with suppress(BlockingIOError):
            pipe.send_bytes(os.read(read, 1 << 16))  # what a pipe holds
