"""What a `FeatureSpec` names, opened as feature banks."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor

from vlnbert.data.own import Features, open_own
from vlnbert.data.spec import CAPTIONS, FEATURES, IN_MEMORY, NAMES, FeatureSpec
from vlnbert.errors import DataError, UsageError, near_names, setting
from vlnbert.navigator.storage.hub import exists
from vlnbert.perception.captions import open_captions_beside, open_sentences
from vlnbert.perception.channels import (
    BOX_SHAPE,
    CAPTION_TEXT,
    CAPTIONS_BESIDE,
    DETECTION_PLACES,
    DETECTIONS,
    NAME,
    OBJECT_CHANNELS,
    OBJECT_GROUPS,
    OBSERVATIONS,
    OBSERVATIONS_ABOVE_BELOW,
    OBSERVATIONS_AHEAD,
    OVERLAPS,
    OVERLAPS_IN_ALL_VIEWS,
    VIEW_CAPTION,
    VIEW_CHANNELS,
    VIEW_GROUPS,
)
from vlnbert.perception.object_channels import (
    box_shapes,
    open_object_observations,
    open_overlaps,
    open_overlaps_in_all_views,
    open_view_captions,
)
from vlnbert.perception.objects import open_descriptions, open_object_names
from vlnbert.perception.observations import Observations, open_observations
from vlnbert.perception.panoramas import (
    PanoramaCaptions,
    PanoramaObservations,
    open_panorama_captions,
    open_panorama_observations,
)
from vlnbert.plugins import LOAD_PLUGIN
from vlnbert.sources.features import check_width, feature_width, read_object_features
from vlnbert.sources.layout import DataFolder
from vlnbert.world.banks import Bank, side_by_side
from vlnbert.world.object_features import open_object_features
from vlnbert.world.objects import ObjectBank, ObjectTable
from vlnbert.world.sights import all_views, facing_views, open_features, open_label_places, open_labels
from vlnbert.world.world import World


def view_feature_file(folder: DataFolder, spec: FeatureSpec) -> Path:
    """The file of view features that is named, or the only one in the data folder."""
    if spec.views is not None:
        known = ", ".join((*VIEW_GROUPS, *VIEW_CHANNELS))
        near = near_names(spec.views, (*VIEW_GROUPS, *VIEW_CHANNELS, *FEATURES))
        problem = f"no features '{spec.views}': no file, no channel ({known}), and nobody registers them{_hint(near)}"
        return _named(spec.views, f"{problem}; name a file or channels, or {LOAD_PLUGIN}")
    return _only(folder, folder.feature_files(), "feature file", "features.views", instead=CAPTIONS)


def object_feature_file(folder: DataFolder, spec: FeatureSpec) -> Path:
    """The same for the features of objects."""
    if spec.objects is not None:
        known = (*OBJECT_GROUPS, *OBJECT_CHANNELS)
        problem = f"no features of objects '{spec.objects}': no file and no channel ({', '.join(known)})"
        problem += _hint(near_names(spec.objects, known))
        return _named(spec.objects, f"{problem}; name a file or channels, or off to see none")
    return _only(folder, folder.object_feature_files(), "object feature file", "features.objects", instead=NAMES)


def view_file_width(folder: DataFolder, spec: FeatureSpec) -> int:
    """How wide the views are that a file will give, told by its first panorama; too narrow a file is refused."""
    path = view_feature_file(folder, spec)
    return _cut_width(path, feature_width(path), "features.view_width", spec.view_width)


def object_file_width(folder: DataFolder, spec: FeatureSpec) -> int:
    """The same for objects; 0 for a file without any."""
    path = object_feature_file(folder, spec)
    found = next((place.values.shape[1] for place in read_object_features(path) if place.ids), 0)
    return _cut_width(path, found, "features.object_width", spec.object_width)


def open_view_bank(
    world: World, folder: DataFolder, spec: FeatureSpec, own: Features | None = None, panorama: bool = False
) -> Bank:
    """What the views of a world look like: by channels side by side, by a file, or `own`, in memory.

    Of the views that face each choice, or with `panorama` of all 36.
    """
    if spec.reads_view_file:
        if spec.view_width is not None:
            view_file_width(folder, spec)  # one line for what would be one for each viewpoint
        views = all_views(world) if panorama else None
        return open_features(world, view_feature_file(folder, spec), spec.view_width, views)
    if spec.views == IN_MEMORY:
        if own is None:
            problem = "these views look like what was held in memory"
            raise UsageError(f"{problem}; give it again: data=vln.open_data(DIR, features=...)")
        bank = open_own(world, own, IN_MEMORY, panorama)
    else:
        channels = open_view_channels(world, folder, spec, panorama)
        bank = side_by_side([channels[name] for name in spec.view_channels])
    _check_width(f"'{spec.views}'", bank.width, spec.view_width)
    return bank


def open_view_channels(world: World, folder: DataFolder, spec: FeatureSpec, panorama: bool = False) -> dict[str, Bank]:
    """The bank of each channel of a view's feature; ours have a row for each view that faces a neighbour.

    With `panorama` they are of all 36 views.
    """
    ours = _panorama_channels(world, folder, spec) if panorama else _facing_channels(world, folder, spec)
    return {
        name: ours[name]() if name in ours else open_own(world, FEATURES[name], name, panorama)
        for name in spec.view_channels
    }


def _facing_channels(world: World, folder: DataFolder, spec: FeatureSpec) -> dict[str, Callable[[], Bank]]:
    observations: Callable[[], Observations] = cache(
        lambda: open_observations(world, folder.observations, spec.encoder, world.device)
    )
    captions = folder.captions
    return {
        CAPTION_TEXT: lambda: open_sentences(world, captions, spec.encoder, world.device).laid_out(
            facing_views(world).row
        ),
        DETECTIONS: lambda: open_labels(world, captions)[0],
        DETECTION_PLACES: lambda: open_label_places(world, captions)[0],
        CAPTIONS_BESIDE: lambda: open_captions_beside(world, captions, spec.encoder, world.device),
        OBSERVATIONS_AHEAD: lambda: observations().ahead,
        OBSERVATIONS_ABOVE_BELOW: lambda: observations().above_below,
    }


def _panorama_channels(world: World, folder: DataFolder, spec: FeatureSpec) -> dict[str, Callable[[], Bank]]:
    captions: Callable[[], PanoramaCaptions] = cache(
        lambda: open_panorama_captions(world, folder.captions, spec.encoder, world.device)
    )
    observations: Callable[[], PanoramaObservations] = cache(
        lambda: open_panorama_observations(world, folder.observations, spec.encoder, world.device)
    )
    return {
        CAPTION_TEXT: lambda: captions().own,
        DETECTIONS: lambda: open_labels(world, folder.captions, all_views(world))[0],
        DETECTION_PLACES: lambda: open_label_places(world, folder.captions, all_views(world))[0],
        CAPTIONS_BESIDE: lambda: captions().beside,
        OBSERVATIONS_AHEAD: lambda: observations().ahead,
        OBSERVATIONS_ABOVE_BELOW: lambda: observations().above_below,
    }


def open_object_bank(
    world: World, folder: DataFolder, objects: ObjectTable, spec: FeatureSpec
) -> tuple[ObjectBank, tuple[str, ...]]:
    """What the objects of a world look like, and what of their features does not fit, in words."""
    if spec.reads_object_file:
        path = object_feature_file(folder, spec)
        if spec.object_width is not None:
            object_file_width(folder, spec)
        bank, fit = open_object_features(world, objects, path, spec.object_width, spec.max_objects)
        return bank, tuple(f"{path}: {line}" for line in fit.lines())
    if spec.object_channels == OBJECT_GROUPS[NAMES]:  # few distinct ones: a codebook
        bank = open_object_names(
            world, objects, folder.captions, encoder=spec.encoder, device=world.device, max_objects=spec.max_objects
        )
    else:
        vectors = torch.cat([*open_object_channels(world, folder, objects, spec).values()], dim=1)
        bank = ObjectBank.from_codebook(objects, vectors.to(world.device), max_objects=spec.max_objects)
    _check_width("objects'", bank.width, spec.object_width)
    return bank, ()


def open_object_channels(
    world: World, folder: DataFolder, objects: ObjectTable, spec: FeatureSpec
) -> dict[str, Tensor]:
    """[object, width] each channel of every object's feature."""
    return {name: _open_object_channel(world, folder, objects, spec, name) for name in spec.object_channels}


def _open_object_channel(
    world: World, folder: DataFolder, objects: ObjectTable, spec: FeatureSpec, channel: str
) -> Tensor:
    """[object, width] one channel of every object's feature."""
    if channel == NAME:
        said = open_descriptions(world, objects, folder.captions, spec.encoder, world.device)
        return said.names[said.name].float()
    if channel == BOX_SHAPE:
        return box_shapes(objects)
    opened: dict[str, tuple[Callable[..., Tensor], Path]] = {
        VIEW_CAPTION: (open_view_captions, folder.captions),
        OVERLAPS: (open_overlaps, folder.captions),
        OVERLAPS_IN_ALL_VIEWS: (partial(open_overlaps_in_all_views, boxes=folder.boxes), folder.captions),
        OBSERVATIONS: (open_object_observations, folder.observations),
    }
    open_channel, files = opened[channel]
    return open_channel(world, objects, files, encoder=spec.encoder, device=world.device)


def _cut_width(path: Path, found: int, place: str, asked: int | None) -> int:
    check_width(asked)
    if asked is not None and found < asked:
        problem = f"{setting(place)} is {asked}, but the features in {path} are {found} wide"
        raise UsageError(f"{problem}; choose at most {found}, or another file")
    return found if asked is None else asked


def _hint(near: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _named(name: str, refusal: str) -> Path:
    """The file of a name; one that has no ending and is not there was meant as a channel."""
    path = Path(name)
    if not path.suffix and not exists(path):
        raise UsageError(refusal)
    return path


def _only(folder: DataFolder, files: list[Path], what: str, place: str, instead: str) -> Path:
    if len(files) != 1:
        found = f"holds {len(files)} {what}s" if files else f"holds no {what}"
        raise DataError(
            folder.features, found, f"name one with {setting(place, 'FILE')}, or see by {setting(place, instead)}"
        )
    return files[0]


def _check_width(whose: str, found: int, expected: int | None) -> None:
    if expected is not None and found != expected:
        problem = f"the {whose} features are {found} wide, not {expected} as asked for"
        settings = ", ".join(setting(f"features.{name}") for name in ("views", "objects", "encoder"))
        raise UsageError(f"{problem}; name what it was trained with ({settings})")
