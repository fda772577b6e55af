"""What a command asks of the machine, checked before anything is begun."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16", "fastest"]


def require_device(name: str) -> None:
    """Refuse a device that this machine does not have, before anything is put there."""
    import torch

    from vlnbert.errors import UsageError

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        devices = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise UsageError(f"no device '{name}' here; choose one of {', '.join(devices)}") from None


def require_within(**options: tuple[int, int, int]) -> None:
    """Refuse numbers out of range: each option comes with its value, the least and the most that make sense."""
    from vlnbert.errors import UsageError

    for name, (value, least, most) in options.items():
        if not least <= value <= most:
            raise UsageError(f"--{name} {value} is out of range; choose {least:,} to {most:,}")


def use_threads(threads: int | None) -> None:
    """Let torch use so many CPU threads; its own choice otherwise."""
    import torch

    if threads is not None:
        require_within(threads=(threads, 1, 256))
        torch.set_num_threads(threads)


def chosen_precision(asked: Precision, device: "torch.device", width: int) -> str:
    """float32 or bfloat16; which one is the fastest for tokens of a width is measured, and told."""
    import sys

    from vlnbert.runtime import fastest_precision

    if asked != "fastest":
        return asked
    chosen = fastest_precision(device, width)
    print(f"the fastest precision here is {chosen}", file=sys.stderr)
    return chosen


def usual_batch(device: "torch.device") -> int:
    """Episodes that are walked together, unless told otherwise."""
    return 64 if device.type == "cpu" else 1024
