"""What views and objects look like: said once, by an experiment, a run, an evaluation or a user."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from vlnbert.errors import UsageError
from vlnbert.features.channels import (
    CAPTION_FILES,
    DETECTION_PLACES,
    OBJECT_CHANNELS,
    OBJECT_GROUPS,
    OBSERVATION_FILES,
    VIEW_CHANNELS,
    VIEW_GROUPS,
    Channel,
    channel_names,
)
from vlnbert.registry import Registry, require_name
from vlnbert.weights.options import MINILM

CAPTIONS = "captions"  # channels, where a file of view features could be named
IN_MEMORY = "<in memory>"  # the same, for what somebody holds in memory
NAMES, OFF = "names", "off"  # where a file of object features could

AnyMaker = TypeVar("AnyMaker", bound=Callable[..., Any])
FEATURES: Registry[Callable[..., Any]] = Registry("features")


def register_features(name: str) -> Callable[[AnyMaker], AnyMaker]:
    """A decorator that gives features of one's own a name: `vln.train(..., features="my-depth")`.

    It decorates a function `f(world)` that gives what views look like: a [viewpoint, 36, width] tensor by view, a
    [viewpoint, slot, width] tensor by choice, or a bank, any object with `width` and `look(viewpoint)`. A class of such
    objects, made with a world, will do as well.

    Args:
        name: What the setting `features.views` calls it, in place of a file.
    """
    require_name(FEATURES.kind, name)
    if name == IN_MEMORY or name in VIEW_GROUPS or name in VIEW_CHANNELS:
        raise UsageError(f"the name {name} is taken; choose another for features of your own")
    if "," in name:
        raise UsageError(f"the name {name} has a comma, which stands between channels; choose another")

    def register(maker: AnyMaker) -> AnyMaker:
        FEATURES.register(name, maker)
        return maker

    return register


@dataclass(frozen=True)
class FeatureSpec:
    """What an agent sees of views and of objects."""

    views: str | None = None
    """What views look like: an image feature file, or channels that stand side by side, such as captions,observations.
    captions are the view's caption and detected objects (caption-text,detections), observations what was described in
    its direction (observations-ahead,observations-above-below); others are captions-beside, detection-places and
    features that were registered (vlnbert plugins lists them). By default the only file in the data folder's
    features/."""
    view_width: int | None = None
    """How many numbers of an image feature to use, the first ones: some files append class scores. All by default."""
    objects: str | None = None
    """What REVERIE's objects look like: a feature file, channels side by side, or off to see none. names are their
    annotated names and the captions of the views that show them (name,view-caption); detections do without names: those
    captions and what was detected there (view-caption,overlapping-detections); detections-in-all-views is what was
    detected in all views that show them, observations what was described in their direction, box-shape how large
    their box is and whether the view cuts it off. By default the only such file in the data folder's features/."""
    object_width: int | None = None
    """How many numbers of an object's feature to use, the first ones. All by default."""
    max_objects: int | None = None
    """Objects that a viewpoint shows at most, those with the largest boxes; all of them by default."""
    encoder: str = MINILM
    """What turns captions and names into features: a BERT, or any encoder that transformers opens, such as
    sentence-transformers/all-mpnet-base-v2; a folder or a hub name."""

    @property
    def view_channels(self) -> tuple[str, ...]:
        """The channels of a view's feature, in their order; none where it comes from a file or from memory."""
        views = self.views
        if views is None or views == IN_MEMORY:
            return ()
        if views in VIEW_GROUPS or views in VIEW_CHANNELS or views in FEATURES or _lists_channels(views):
            return channel_names(views, (VIEW_CHANNELS, FEATURES), VIEW_GROUPS)
        return ()

    @property
    def object_channels(self) -> tuple[str, ...]:
        """The channels of an object's feature, in their order; none where it comes from a file, or agents see none."""
        objects = self.objects
        if objects is None or objects == OFF:
            return ()
        if objects in OBJECT_GROUPS or objects in OBJECT_CHANNELS or _lists_channels(objects):
            return channel_names(objects, (OBJECT_CHANNELS,), OBJECT_GROUPS)
        return ()

    @property
    def reads_captions(self) -> bool:
        return self._reads(CAPTION_FILES)

    @property
    def reads_observations(self) -> bool:
        return self._reads(OBSERVATION_FILES)

    @property
    def uses_encoder(self) -> bool:
        """Whether any of it is text, which the encoder reads."""
        return any(channel.embeds for channel in self._our_channels)

    @property
    def own_views(self) -> bool:
        """Whether some of what views look like is what somebody made: registered by name, or held in memory."""
        return self.views == IN_MEMORY or any(name not in VIEW_CHANNELS for name in self.view_channels)

    @property
    def sided(self) -> str:
        """What of the features would have to change its sides in a mirror, or may have to; empty where nothing."""
        if self.reads_view_file:
            return "a file of image features"
        if self.views == IN_MEMORY:
            return "features held in memory"
        if self.reads_object_file:
            return "a file of objects' features"
        return next((name for name in self.view_channels if name not in VIEW_CHANNELS or name == DETECTION_PLACES), "")

    @property
    def reads_view_file(self) -> bool:
        return self.views != IN_MEMORY and not self.view_channels

    @property
    def reads_object_file(self) -> bool:
        return self.objects != OFF and not self.object_channels

    @property
    def _our_channels(self) -> list[Channel]:
        ours = [VIEW_CHANNELS[name] for name in self.view_channels if name in VIEW_CHANNELS]
        return ours + [OBJECT_CHANNELS[name] for name in self.object_channels]

    def _reads(self, files: str) -> bool:
        return any(channel.files == files for channel in self._our_channels)

    def updated_by(self, other: "FeatureSpec") -> "FeatureSpec":
        """The same, but for what the other says: a field of it that is not at its default."""
        usual = FeatureSpec()
        said: dict[str, Any] = {field.name: getattr(other, field.name) for field in fields(other)}
        return replace(self, **{name: value for name, value in said.items() if value != getattr(usual, name)})


def _lists_channels(text: str) -> bool:
    try:
        return "," in text and not Path(text).exists()
    except OSError:  # too long for a path
        return True


def as_spec(features: Any) -> FeatureSpec:
    """A spec from itself, or from what views look like alone, a text or a path; nothing where nothing is said."""
    if isinstance(features, FeatureSpec):
        return features
    return FeatureSpec(views=None if features is None else str(features))
