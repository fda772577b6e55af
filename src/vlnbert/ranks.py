"""Processes that learn together, as torchrun starts them; one alone is a team of one."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from vlnbert.errors import UsageError, VlnbertError, cut, printable, setting

TIMEOUT = 600.0  # seconds that ranks wait for each other, by default
LONGEST_TIMEOUT = 7 * 24 * 3600.0
LONGEST_FACT = 60  # characters of what ranks do not agree on
STARTED = "TORCHELASTIC_RUN_ID"  # in the environment of what torchrun started


class RankError(VlnbertError):
    """Another process of a training ended, or does not answer; this one cannot go on without it."""


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is."""

    rank: int = 0
    count: int = 1

    @property
    def writes(self) -> bool:
        """Whether this is the one process that writes files and talks to people."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, which every one of them gets."""
        if self.count == 1:
            return tensor
        total = tensor.detach().clone()
        distributed.all_reduce(total)
        return total

    def mean(self, tensor: Tensor) -> Tensor:
        """The mean over all ranks, as a floating-point number where there are several."""
        return tensor if self.count == 1 else self.sum(tensor) / self.count

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether the flag is up on any rank. Asking waits for the others."""
        return flag if self.count == 1 else bool(self.sum(torch.tensor(float(flag), device=device)))

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.count > 1:
            distributed.barrier()

    def agree(self, facts: Mapping[str, object]) -> None:
        """Refuse on every rank to train with settings that differ between ranks, naming the first difference."""
        if self.count == 1:
            return
        of_ranks: list[dict[str, str]] = [{} for _ in range(self.count)]
        distributed.all_gather_object(of_ranks, {name: str(fact) for name, fact in facts.items()})
        names = dict.fromkeys(name for own in of_ranks for name in own)
        if differing := [name for name in names if len({own.get(name) for own in of_ranks}) > 1]:
            name, more = differing[0], f", nor on {len(differing) - 1} more" if len(differing) > 1 else ""
            values = [cut(own.get(name, "nothing"), LONGEST_FACT) for own in of_ranks]
            other = next(rank for rank in range(self.count) if of_ranks[rank].get(name) != of_ranks[0].get(name))
            problem = f"the processes of this training do not agree on {name}{more}"
            shown = f"process 0 has {values[0]}, process {other} {values[other]}"
            raise UsageError(f"{problem} ({shown}); start all of them with the same")

    @contextmanager
    def needed(self, remedy: str) -> Iterator[None]:
        """Within the block, to wait in vain for another rank is a `RankError` with this remedy."""
        try:
            yield
        except RuntimeError as error:  # torch raises plain ones
            problem = _lost(error) if self.count > 1 else None
            if problem is None:
                raise
            raise RankError(f"{problem}; {remedy}") from None


ALONE = Ranks()


def is_first() -> bool:
    """Whether this is the first, or the only, of the processes that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def launcher() -> list[str]:
    """The words before a verb that start the command line as it was started: `vlnbert`, or torchrun's."""
    if STARTED not in os.environ:
        return ["vlnbert"]
    nodes = os.environ.get("GROUP_WORLD_SIZE", "1")
    several = ["--nnodes", nodes] if nodes != "1" else []
    return ["torchrun", *several, "--nproc-per-node", os.environ.get("LOCAL_WORLD_SIZE", "1"), "-m", "vlnbert"]


@contextmanager
def joined(device: str, timeout: float = TIMEOUT) -> Iterator[tuple[Ranks, str]]:
    """This process's place among those that torchrun started, and its own device; or alone, on the device named.

    A rank for which the others wait longer than `timeout` seconds is given up, and they end. An error that several of
    them would report in the same words is reported once.
    """
    if not 1 <= timeout <= LONGEST_TIMEOUT:
        problem = f"{setting('rank_timeout', timeout)} is out of range"
        raise UsageError(f"{problem}; choose 1 to {LONGEST_TIMEOUT:,.0f} seconds")
    if STARTED not in os.environ:
        yield ALONE, device
        return
    cuda = torch.device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    store: Store | None = None
    try:
        try:
            wait = timedelta(seconds=timeout)
            store, rank, count = next(rendezvous("env://", timeout=wait))
            store.set(f"came {rank}", "")
            store.wait([f"came {number}" for number in range(count)], wait)
            backend = "nccl" if cuda else "gloo"
            distributed.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=wait)
        except RuntimeError as error:
            problem = f"the processes of this training cannot reach each other ({printable(str(error))[:100]})"
            if isinstance(error, distributed.DistStoreError) or "time" in str(error).lower():
                longer = f"where one takes longer to start, give more: {setting('rank_timeout', 'SECONDS')}"
                problem = f"another process of this training did not come within {timeout:,.0f} s ({longer})"
            raise RankError(f"{problem}; begin it again") from None
        ranks = Ranks(rank, count)
        with ranks.needed("begin it again, or resume the run"):
            yield ranks, device
    except VlnbertError as error:
        error.repeated = store is not None and not _first_to_tell(store, str(error))
        raise
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _lost(error: RuntimeError) -> str | None:
    """The problem with another rank that an error of torch reports; None where it is about something else."""
    text = str(error)
    if not isinstance(error, distributed.DistError) and "gloo/" not in text:
        return None
    if "timed out" in text.lower() or "timeout" in text.lower():
        longer = f"where one may take so long, to validate or to save, give more: {setting('rank_timeout', 'SECONDS')}"
        return f"another process of this training does not answer ({longer})"
    return "another process of this training has ended"


def _first_to_tell(store: Store, text: str) -> bool:
    """Whether no other rank has reported the same; True where the store cannot say, rather than no report at all."""
    try:
        return bool(store.add(f"told {blake2b(text.encode(errors='replace'), digest_size=16).hexdigest()}", 1) == 1)
    except RuntimeError:
        return True
