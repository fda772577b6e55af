"""Processes that learn together, as torchrun starts them; one alone is a team of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b

import torch
from torch import Tensor, distributed

from vlnbert.errors import UsageError, VlnbertError, setting

TIMEOUT = 600.0  # seconds that ranks wait for each other, unless told otherwise
LONGEST_TIMEOUT = 7 * 24 * 3600.0
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

    A rank for which the others wait longer than `timeout` seconds is given up, and they end. What several of them would
    tell in the same words, one tells.
    """
    if not 1 <= timeout <= LONGEST_TIMEOUT:
        raise UsageError(
            f"{setting('rank_timeout', timeout)} is out of range; choose 1 to {LONGEST_TIMEOUT:,.0f} seconds"
        )
    if STARTED not in os.environ:
        yield ALONE, device
        return
    cuda = torch.device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(seconds=timeout))
    ranks = Ranks(distributed.get_rank(), distributed.get_world_size())
    try:
        with ranks.needed("begin it again, or resume the run"):
            yield ranks, device
    except VlnbertError as error:
        error.repeated = not _first_to_tell(str(error))
        raise
    finally:
        distributed.destroy_process_group()


def _lost(error: RuntimeError) -> str | None:
    """What an error of torch says of another rank; nothing where it is about something else."""
    told = str(error)
    if not isinstance(error, distributed.DistError) and "gloo/" not in told:
        return None
    if "timed out" in told.lower() or "timeout" in told.lower():
        longer = f"where one may take so long, to validate or to save, give more: {setting('rank_timeout', 'SECONDS')}"
        return f"another process of this training does not answer ({longer})"
    return "another process of this training has ended"


def _first_to_tell(text: str) -> bool:
    """Whether no other rank has told the same. Where they cannot be asked, better twice than not at all."""
    try:
        store = distributed.distributed_c10d._get_default_store()
        return bool(store.add(f"told {blake2b(text.encode(errors='replace'), digest_size=16).hexdigest()}", 1) == 1)
    except RuntimeError:
        return True
