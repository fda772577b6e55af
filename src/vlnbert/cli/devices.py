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


def require_within(**options: tuple[int, int, int]) -> None:
    """Refuse numbers out of range: each option comes with its value, the least and the most that make sense."""
    from vlnbert.errors import UsageError

    for name, (value, least, most) in options.items():
        if not least <= value <= most:
            raise UsageError(f"--{name} {value} is out of range; choose {least:,} to {most:,}")
