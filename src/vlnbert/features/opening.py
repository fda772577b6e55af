"""A `FeatureSpec` put to use: its banks opened, its files found, itself kept in a navigator's folder."""

from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path

import torch

from vlnbert.errors import DataError, UsageError, near_names, setting
from vlnbert.features.objects import ObjectSource, open_named_objects, open_object_features
from vlnbert.features.spec import CAPTIONS, FEATURES, NAMES, OBJECT_GROUPS, OBJECT_NAMES, OFF, VIEW_NAMES, FeatureSpec
from vlnbert.features.views import ViewSource, open_features
from vlnbert.navigator.storage.folder import exists, is_hub_name
from vlnbert.navigator.storage.shown import Shown
from vlnbert.plugins import LOAD_PLUGIN
from vlnbert.sources.features import check_width, feature_width, read_object_features
from vlnbert.sources.layout import DataFolder
from vlnbert.world.banks import Bank, FeatureBank, side_by_side
from vlnbert.world.objects import ObjectBank


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
        view_file_width(source.folder, spec)  # one line, in place of one for each viewpoint
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
        problem = f"the {whose} features are {width} wide, not {expected} as asked for"
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


def in_data_folder(spec: FeatureSpec, folder: DataFolder, said: FeatureSpec) -> FeatureSpec:
    """Find files that a navigator's folder names in the data folder's features/; those that a user `said` stay."""
    views, objects = spec.views, spec.objects
    if views is not None and said.views is None:
        views = _in_features(folder, views, (*VIEW_NAMES, *FEATURES))
    if objects is not None and said.objects is None:
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
