"""How much memory a call takes at its peak, beyond what was there before it."""

import os
from collections.abc import Callable
from itertools import accumulate

import torch
from torch.autograd.profiler import profile

ALLOCATION = "[memory]"  # the profiler's name for what is taken, and given back with a minus


def peak_memory(run: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """Bytes of tensors and kernels' buffers that torch's allocator holds for a call at its peak.

    What libraries beneath it allocate on their own is not seen. The first call of a kind may take more: let one pass.
    """
    if torch.device(device).type == "cuda":
        return _cuda_peak(run, device)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler tells standard error that it starts and stops
    with profile(profile_memory=True) as profiled:
        run()
    results = profiled.kineto_results
    found = [] if results is None else [event for event in results.events() if event.name() == ALLOCATION]
    taken = (event.nbytes() for event in sorted(found, key=lambda event: event.start_ns()))
    return max(accumulate(taken), default=0)


def _cuda_peak(run: Callable[[], object], device: torch.device | str) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before
