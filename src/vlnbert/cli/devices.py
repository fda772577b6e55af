"""What a command asks of the machine, checked before anything is begun."""


def require_device(name: str) -> None:
    """Refuse a device that this machine does not have, before anything is put there."""
    import torch

    from vlnbert.errors import UsageError

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        devices = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise UsageError(f"no device '{name}' here; choose one of {', '.join(devices)}") from None


def require_least(**options: tuple[int, int]) -> None:
    """Refuse numbers that are too small: each option comes with its value and the least that makes sense."""
    from vlnbert.errors import UsageError

    for name, (value, least) in options.items():
        if value < least:
            raise UsageError(f"--{name} {value} is too few; choose {least} or more")
