"""Processes that learn together, as torchrun starts them; one alone is a team of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


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


ALONE = Ranks()


def is_first() -> bool:
    """Whether this is the first, or the only, of the processes that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def joined(device: str) -> Iterator[tuple[Ranks, str]]:
    """This process's place among those that torchrun started, and its own device; or alone, on the device named."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield ALONE, device
        return
    cuda = torch.device(device).type == "cuda"
    if cuda:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size()), device
    finally:
        distributed.destroy_process_group()
