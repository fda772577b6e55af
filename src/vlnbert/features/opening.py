"""A `FeatureSpec` put to use: its banks opened, user-defined ones too, its files found, itself kept in a folder."""

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor

from vlnbert.errors import DataError, UsageError, near_names, setting
from vlnbert.external import ExternalCall, is_plain, kind_of
from vlnbert.features.objects import ObjectSource, open_named_objects, open_object_features
from vlnbert.features.spec import (
    CAPTIONS,
    FEATURES,
    IN_MEMORY,
    NAMES,
    OBJECT_GROUPS,
    OBJECT_NAMES,
    OFF,
    VIEW_NAMES,
    FeatureSpec,
)
from vlnbert.features.views import ViewSource, facing_views, open_features
from vlnbert.navigator.storage.folder import Shown, exists, is_hub_name
from vlnbert.plugins import LOAD_PLUGIN
from vlnbert.sources.features import check_width, feature_width, read_object_features
from vlnbert.sources.layout import DataFolder
from vlnbert.world.banks import Bank, FeatureBank, look, side_by_side
from vlnbert.world.objects import ObjectBank
from vlnbert.world.world import STOP, VIEWS, World

# Viewpoints that are looked at together.
CHUNK = 256
# User-defined features, as `vln.open_data` takes them.
Features = Bank | Tensor | Callable[[World], Bank | Tensor]


def open_view_bank(source: ViewSource) -> Bank:
    """Open the features of views: a file, channels side by side, or those held in memory."""
    spec = source.spec
    bank = side_by_side([channel.open(source) for channel in spec.of_views])
    if not spec.reads_view_file:
        _require_width(f"'{spec.views}'", bank.width, spec.view_width)
    return bank


def open_view_file(source: ViewSource, name: str) -> FeatureBank:
    """The bank of the file of view features that a spec names, or else of the only one in the data folder."""
    spec = source.spec
    if spec.view_width is not None:
        # One line, in place of one for each viewpoint.
        view_file_width(source.folder, spec)
    return open_features(source.world, view_feature_file(source.folder, spec), spec.view_width, source.views)


def open_object_bank(source: ObjectSource) -> tuple[ObjectBank, tuple[str, ...]]:
    """Open the features of objects, with a line for each kind of misfit between a file and the boxes."""
    spec = source.spec
    if spec.reads_object_file:
        path = object_feature_file(source.folder, spec)
        if spec.object_width is not None:
            object_file_width(source.folder, spec)
        bank, fit = open_object_features(source.world, source.objects, path, spec.object_width, spec.max_objects)
        return bank, tuple(f"{path}: {line}" for line in fit.lines())
    if spec.object_channels == OBJECT_GROUPS[NAMES]:
        bank = open_named_objects(source, spec.max_objects)
    else:
        vectors = torch.cat([channel.open(source) for channel in spec.of_objects], dim=1).to(source.world.device)
        bank = ObjectBank.from_codebook(source.objects, vectors, max_objects=spec.max_objects)
    _require_width("objects'", bank.width, spec.object_width)
    return bank, ()


def _require_width(whose: str, width: int, expected: int | None) -> None:
    if expected is not None and width != expected:
        problem = f"the {whose} features are {width} wide, not {expected} as requested"
        settings = ", ".join(setting(f"features.{name}") for name in ("views", "objects", "encoder"))
        raise UsageError(f"{problem}; name what it was trained with ({settings})")


def view_feature_file(folder: DataFolder, spec: FeatureSpec) -> Path:
    """The file of view features that is named, or the only one in the data folder."""
    if spec.views is None:
        return _only_file(folder, folder.feature_files(), "feature file", "features.views", CAPTIONS)
    problem = f"no features '{spec.views}': no file, no channel ({', '.join(VIEW_NAMES)}), and nobody registers them"
    return _named_file(spec.views, problem, (*VIEW_NAMES, *FEATURES), f"name a file or channels, or {LOAD_PLUGIN}")


def object_feature_file(folder: DataFolder, spec: FeatureSpec) -> Path:
    """The file of object features that is named, or the only one in the data folder."""
    if spec.objects is None:
        return _only_file(folder, folder.object_feature_files(), "object feature file", "features.objects", NAMES)
    problem = f"no features of objects '{spec.objects}': no file and no channel ({', '.join(OBJECT_NAMES)})"
    return _named_file(spec.objects, problem, OBJECT_NAMES, "name a file or channels, or off to see none")


def _named_file(name: str, problem: str, known: Collection[str], remedy: str) -> Path:
    """The file of a name; one that has no ending and does not exist was meant as a channel."""
    path = Path(name)
    if not path.suffix and not exists(path):
        near = " or ".join(near_names(name, known))
        raise UsageError(f"{problem}{f'; did you mean {near}?' if near else ''}; {remedy}")
    return path


def _only_file(folder: DataFolder, files: list[Path], what: str, place: str, channels: str) -> Path:
    if len(files) != 1:
        problem = f"holds {len(files)} {what}s" if files else f"holds no {what}"
        remedy = f"name one with {setting(place, 'FILE')}, or see by {setting(place, channels)}"
        raise DataError(folder.features, problem, remedy)
    return files[0]


def view_file_width(folder: DataFolder, spec: FeatureSpec) -> int:
    """The width of the views of a file, by its first panorama; too narrow a file is refused."""
    path = view_feature_file(folder, spec)
    return _cut_width(path, feature_width(path), "features.view_width", spec.view_width)


def object_file_width(folder: DataFolder, spec: FeatureSpec) -> int:
    """The width of the objects of a file, by its first object, 0 without any; too narrow a file is refused."""
    path = object_feature_file(folder, spec)
    width = next((place.values.shape[1] for place in read_object_features(path) if place.ids), 0)
    return _cut_width(path, width, "features.object_width", spec.object_width)


def _cut_width(path: Path, width: int, place: str, wanted: int | None) -> int:
    check_width(wanted)
    if wanted is not None and width < wanted:
        problem = f"{setting(place)} is {wanted}, but the features in {path} are {width} wide"
        raise UsageError(f"{problem}; choose at most {width}, or another file")
    return width if wanted is None else wanted


def as_kept(spec: FeatureSpec, *, sees_objects: bool) -> Shown:
    """A spec as a navigator's folder keeps it, without paths of this machine.

    Files are kept by their names, an encoder in a folder as that folder's name and /.
    """
    if not sees_objects:
        spec = replace(spec, objects=OFF, object_width=None, max_objects=None)
    views = _file_name(spec.views) if spec.views is not None and spec.reads_view_file else spec.views
    objects = _file_name(spec.objects) if spec.objects is not None and spec.reads_object_file else spec.objects
    encoder = spec.encoder if spec.uses_encoder else None
    if encoder is not None and Path(encoder).is_dir():
        encoder = f"{_file_name(encoder)}/"
    elif encoder is not None and (Path(encoder).exists() or not is_hub_name(encoder)):
        encoder = _file_name(encoder)
    values = {**asdict(spec), "views": views, "objects": objects, "encoder": encoder}
    return {name: value for name, value in values.items() if value is not None}


def _file_name(path: str) -> str:
    return "".join(mark if mark.isprintable() else "?" for mark in Path(path).resolve().name)


def from_kept(shown: Shown | None) -> FeatureSpec:
    """The spec that a navigator's folder keeps, of defaults where it keeps none."""
    return FeatureSpec(**(shown or {}))  # type: ignore[arg-type]  # types were checked when they were read


def in_data_folder(spec: FeatureSpec, folder: DataFolder, requested: FeatureSpec) -> FeatureSpec:
    """Find files that a navigator's folder names in the data folder's features/; those of a user's request stay."""
    views, objects = spec.views, spec.objects
    if views is not None and requested.views is None:
        views = _in_features(folder, views, (*VIEW_NAMES, *FEATURES))
    if objects is not None and requested.objects is None:
        objects = _in_features(folder, objects, OBJECT_NAMES)
    return replace(spec, views=views, objects=objects)


def _in_features(folder: DataFolder, text: str, channels: Collection[str]) -> str:
    """The path of a file, under its own name or that of a link to it, else where it would be; channels stay."""
    if not Path(text).suffix or all(part.strip() in channels for part in text.split(",")):
        return text
    name, files = Path(text).name, sorted(folder.features.glob("*"))
    named = [path for path in files if path.name == name] + [path for path in files if path.resolve().name == name]
    return str(named[0] if named else folder.features / name)


def require_encoder_folder(spec: FeatureSpec, name: str) -> None:
    """Refuse an encoder that lay in a folder elsewhere, where a navigator, called by its name, would read with it."""
    if spec.uses_encoder and spec.encoder.endswith("/") and not Path(spec.encoder).is_dir():
        problem = f"{name} reads what it sees through the encoder {spec.encoder}, a folder that is not here"
        raise UsageError(f"{problem}; name it: {setting('features.encoder', 'DIR')}")


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


def open_user_features(source: ViewSource, name: str) -> Bank:
    """User-defined features, registered or held in memory, as a bank that is checked at every viewpoint."""
    if (held := source.spec.views == IN_MEMORY) and source.in_memory is None:
        problem = "these views look like what was held in memory"
        raise UsageError(f"{problem}; give it again: data=vln.open_data(DIR, features=...)")
    features: Features = source.in_memory if held else FEATURES[name]
    world, panorama, whose = source.world, source.panorama, f"the features '{IN_MEMORY if held else name}'"
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
        raise UsageError(f"{problem}; fix them, or use other features")
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
            raise UsageError(f"{whose} {problem}; fix them, or use other features")
        yield seen
