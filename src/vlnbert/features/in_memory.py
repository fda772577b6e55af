"""User-defined features: a bank, a tensor or a function that makes one, checked against the world."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor

from vlnbert.errors import UsageError
from vlnbert.external import ExternalCall, is_plain, kind_of
from vlnbert.features.spec import FEATURES, IN_MEMORY, FeatureSpec
from vlnbert.features.views import ViewSource, facing_views
from vlnbert.world.banks import Bank, FeatureBank, look
from vlnbert.world.world import STOP, VIEWS, World

CHUNK = 256  # viewpoints that are looked at together
Features = Bank | Tensor | Callable[[World], Bank | Tensor]  # what `vln.open_data` takes


def is_in_memory(features: Any) -> TypeGuard[Features]:
    """Whether these are features themselves, not the name of some; anything else is refused."""
    if features is None or isinstance(features, FeatureSpec | str | Path):
        return False
    if isinstance(features, Tensor) or callable(features) or hasattr(features, "look"):
        return True
    problem = f"features are of the type {type(features).__name__}"
    raise UsageError(f"{problem}; give a file, a registered name, a FeatureSpec, a tensor, a function or a bank")


def registered_name(features: Any) -> str | None:
    """The name under which features were registered, if they were."""
    return next((name for name, one in FEATURES.items() if one is features), None)


def open_registered(source: ViewSource, name: str) -> Bank:
    """Features that were registered by name."""
    return _open(source, FEATURES[name], name)


def open_held(source: ViewSource, name: str) -> Bank:
    """Features that the user holds in memory."""
    if source.in_memory is None:
        problem = "these views look like what was held in memory"
        raise UsageError(f"{problem}; give it again: data=vln.open_data(DIR, features=...)")
    return _open(source, source.in_memory, IN_MEMORY)


def _open(source: ViewSource, features: Features, name: str) -> Bank:
    """Features as a bank on the world's device, checked at every viewpoint; a misfit is one line."""
    world, panorama, whose = source.world, source.panorama, f"the features '{name}'"
    makes = isinstance(features, type) or not (isinstance(features, Tensor) or hasattr(features, "look"))
    with ExternalCall(whose, world):
        bank: Any = features(world) if makes else features  # type: ignore[operator]  # callable, then
    if panorama:
        # A bank or a tensor by choice knows nothing of the other views.
        shape = tuple(bank.shape) if isinstance(bank, Tensor) else ()
        if len(shape) != 3 or shape[:2] != (len(world), VIEWS):
            problem = f"{whose} do not show all {VIEWS} views, and a panorama is wanted"
            raise UsageError(f"{problem}; give a tensor [viewpoint, {VIEWS}, width], or see by something else")
        row = torch.arange(len(world) * VIEWS, device=world.device).view(-1, VIEWS)
        bank = FeatureBank(bank.to(world.device).flatten(0, 1), row)
    elif isinstance(bank, Tensor):
        bank = tensor_bank(world, bank, whose)
    elif not hasattr(bank, "look") or not isinstance(getattr(bank, "width", None), int):
        problem = f"{whose} {'are made' if makes else 'are'} of {type(bank).__name__}"
        raise UsageError(f"{problem}; give a tensor, or an object with width (a number) and look(viewpoint)")
    elif hasattr(bank, "to"):
        with ExternalCall(whose):
            bank = bank.to(world.device)
    for _ in _looks(world, bank, whose, VIEWS if panorama else world.slots):
        pass
    return bank  # type: ignore[no-any-return]  # as was checked


def tensor_bank(world: World, values: Tensor, whose: str = "the features") -> FeatureBank:
    """A bank of [viewpoint, 36, width] values by view or [viewpoint, slot, width] ones by choice; stopping is zero."""
    if not is_plain(values) or not values.is_floating_point():
        problem = f"{whose} are {kind_of(values)}, not floating-point numbers that lie open"
        raise UsageError(f"{problem}; mend them, or see by something else")
    count = values.shape[1] if values.dim() == 3 else 0
    if values.dim() != 3 or len(values) != len(world) or count not in (world.slots, VIEWS):
        expected = f"[{len(world)}, {VIEWS}, width] by view or [{len(world)}, {world.slots}, width] by choice"
        raise UsageError(f"{whose} have the shape {list(values.shape)}; in this world they have {expected}")
    values = values.to(world.device)
    slots = torch.arange(world.slots, device=world.device)
    if count == world.slots:
        real = (slots != STOP) & (slots < world.choices[:, None])
        row = torch.zeros(len(world), world.slots, dtype=torch.long, device=world.device)
        row[real] = torch.arange(1, int(real.sum()) + 1, device=world.device)
        return FeatureBank.from_codebook(values[real], row)
    views = facing_views(world)
    number = torch.from_numpy(views.number).to(world.device)
    return FeatureBank.from_codebook(values[number > 0], views.row)


def bank_digest(world: World, bank: Bank) -> str:
    """Digest of a bank's features at all viewpoints."""
    digest = hashlib.blake2b(f"{bank.width}".encode(), digest_size=16)
    for seen in _looks(world, bank, "the features", world.slots):
        digest.update(seen.cpu().contiguous().float().numpy().data)
    return digest.hexdigest()


def _looks(world: World, bank: Bank, whose: str, count: int) -> Iterator[Tensor]:
    """Looks of a bank from every viewpoint in `count` slots or views, some viewpoints at a time, checked."""
    what = "slot" if count == world.slots else "view"
    for viewpoint in torch.split(torch.arange(len(world), device=world.device), CHUNK):
        seen: Any = look(bank, viewpoint)
        expected, problem = (len(viewpoint), count, bank.width), ""
        if not isinstance(seen, Tensor):
            problem = f"show {type(seen).__name__}, not a tensor"
        elif not is_plain(seen):
            problem = f"show {kind_of(seen)}, not numbers that lie open"
        elif tuple(seen.shape) != expected:
            problem = f"show {list(seen.shape)}, not [viewpoint, {what}, width], here {list(expected)}"
        elif not seen.is_floating_point():
            problem = f"are of {str(seen.dtype).removeprefix('torch.')}, not of floating-point numbers"
        elif seen.device != world.device:
            problem = f"are on {seen.device}, the world on {world.device}"
        elif seen.device.type == "cpu" and not bool(seen.isfinite().all()):
            problem = "are not finite everywhere"
        if problem:
            raise UsageError(f"{whose} {problem}; mend them, or see by something else")
        yield seen
