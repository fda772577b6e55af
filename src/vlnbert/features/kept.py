"""What a navigator was shown, as its folder keeps it: a `FeatureSpec` without the paths of one machine."""

from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path

from vlnbert.errors import UsageError, setting
from vlnbert.features.channels import OBJECT_CHANNELS, OBJECT_GROUPS, VIEW_CHANNELS, VIEW_GROUPS
from vlnbert.features.spec import FEATURES, OFF, FeatureSpec
from vlnbert.navigator.storage.hub import is_hub_name
from vlnbert.navigator.storage.shown import Shown
from vlnbert.sources.layout import DataFolder


def as_kept(spec: FeatureSpec, *, sees_objects: bool) -> Shown:
    """The values to keep with a navigator: files by their names, an encoder in a folder as that folder's name and /."""
    if not sees_objects:
        spec = replace(spec, objects=OFF, object_width=None, max_objects=None)
    views = _name(spec.views) if spec.views is not None and spec.reads_view_file else spec.views
    objects = _name(spec.objects) if spec.objects is not None and spec.reads_object_file else spec.objects
    encoder = _encoder_name(spec.encoder) if spec.uses_encoder else None
    values = {**asdict(spec), "views": views, "objects": objects, "encoder": encoder}
    return {name: value for name, value in values.items() if value is not None}


def from_kept(shown: Shown | None) -> FeatureSpec:
    """The same as a spec, in which nothing is said where a folder keeps none."""
    return FeatureSpec(**(shown or {}))  # type: ignore[arg-type]  # types were checked when they were read


def in_data_folder(spec: FeatureSpec, folder: DataFolder, said: FeatureSpec) -> FeatureSpec:
    """Files that a navigator's folder names are those in the data folder's features/; what a user said stays."""
    views, objects = spec.views, spec.objects
    if views is not None and said.views is None and _names_file(views, (*VIEW_GROUPS, *VIEW_CHANNELS, *FEATURES)):
        views = _in_features(folder, Path(views).name)
    if objects is not None and said.objects is None and _names_file(objects, (*OBJECT_GROUPS, *OBJECT_CHANNELS)):
        objects = _in_features(folder, Path(objects).name)
    return replace(spec, views=views, objects=objects)


def require_encoder_folder(spec: FeatureSpec, name: str) -> None:
    """Refuse an encoder that lay in a folder elsewhere, where a navigator, called by its name, would read with it."""
    if spec.uses_encoder and spec.encoder.endswith("/") and not Path(spec.encoder).is_dir():
        problem = f"{name} reads what it sees through the encoder {spec.encoder}, a folder that is not here"
        raise UsageError(f"{problem}; name it: {setting('features.encoder', 'DIR')}")


def _names_file(text: str, channels: Collection[str]) -> bool:
    return bool(Path(text).suffix) and not all(part.strip() in channels for part in text.split(","))


def _in_features(folder: DataFolder, name: str) -> str:
    """The file of a name, its own or that of what it is a link to; where there is none, the place where it would be."""
    files = sorted(folder.features.glob("*"))
    found = [one for one in files if one.name == name] + [one for one in files if one.resolve().name == name]
    return str(found[0] if found else folder.features / name)


def _encoder_name(encoder: str) -> str:
    path = Path(encoder)
    if path.is_dir():
        return f"{_name(encoder)}/"
    return _name(encoder) if path.exists() or not is_hub_name(encoder) else encoder


def _name(path: str) -> str:
    name = Path(path).resolve().name
    return "".join(mark if mark.isprintable() else "?" for mark in name)
