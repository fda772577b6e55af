"""Where tensors can be."""


def require_device(name: str) -> None:
    """Refuse a device that this machine does not have, before anything is put there."""
    import torch

    from vlnbert.errors import UsageError

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        devices = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise UsageError(f"no device '{name}' here; choose one of {', '.join(devices)}") from None
