"""Features of views and objects by name: channels, and the `FeatureSpec` that names them. Imports no torch.

`captions,observations` sets channels side by side, in that order. Some names stand for several channels; one that is
named twice, alone or within another, is there once.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.registry import Registry, by_name
from vlnbert.weights.options import MINILM

IN_MEMORY = "<in memory>"  # as views: features that a user holds in memory
OFF = "off"  # as objects: agents see none
CAPTIONS, NAMES = "captions", "names"  # of open data: texts of views, names of objects
CAPTION_TEXT, DETECTIONS, CAPTIONS_BESIDE = "caption-text", "detections", "captions-beside"
DETECTION_PLACES = "detection-places"
OBSERVATIONS_AHEAD, OBSERVATIONS_ABOVE_BELOW = "observations-ahead", "observations-above-below"
NAME, VIEW_CAPTION, OVERLAPS, OBSERVATIONS = "name", "view-caption", "overlapping-detections", "observations"
OVERLAPS_IN_ALL_VIEWS, BOX_SHAPE = "detections-in-all-views", "box-shape"


@dataclass(frozen=True)
class Channel:
    """Part of a feature of views or of objects."""

    name: str
    needs: str  # kind of data that it is made of, as `data.inventory.NEEDS` has them; empty for user-defined features
    opener: str  # module and function of this package, imported late: commands list channels without torch
    embeds: bool = True  # made of texts, by the encoder
    sided: bool = False  # has a left and a right that nobody can exchange, as a mirror would, or may have

    def open(self, source: Any) -> Any:
        """A bank, made from a `ViewSource`, or an [object, width] tensor, from an `ObjectSource`."""
        module, _, function = self.opener.partition(":")
        return getattr(import_module(f"vlnbert.features.{module}"), function)(source, self.name)

    def width(self, source: Any) -> int:
        """Numbers of a view or of an object, known once the channel is open."""
        opened = self.open(source)
        return int(opened.width if hasattr(opened, "width") else opened.shape[1])


_VIEW_CHANNELS = (
    # The caption of the view
    Channel(CAPTION_TEXT, "captions", "views:open_captions"),
    # For each class, the confidence of its surest detection: in the view, then in its left, middle and right third
    Channel(DETECTIONS, "captions", "views:open_detections", embeds=False),
    Channel(DETECTION_PLACES, "captions", "views:open_detections", embeds=False, sided=True),
    # The captions of the views to its left and right
    Channel(CAPTIONS_BESIDE, "captions", "views:open_captions_beside"),
    # The observations in its direction: at its elevation, then at the two others
    Channel(OBSERVATIONS_AHEAD, "observations", "views:open_observations"),
    Channel(OBSERVATIONS_ABOVE_BELOW, "observations", "views:open_observations"),
)
_OBJECT_CHANNELS = (
    # The annotated name of the object
    Channel(NAME, "captions", "objects:open_names"),
    # The caption of the view that shows it
    Channel(VIEW_CAPTION, "captions", "objects:open_view_captions"),
    # Classes and captions of the detections that overlap its box: in that view, then in all views that show it
    Channel(OVERLAPS, "captions", "objects:open_overlaps"),
    Channel(OVERLAPS_IN_ALL_VIEWS, "captions", "objects:open_overlaps"),
    # The observations in the direction of its box
    Channel(OBSERVATIONS, "observations", "objects:open_object_observations"),
    # How wide and high its box is, and whether the view cuts it off
    Channel(BOX_SHAPE, "boxes", "objects:open_box_shapes", embeds=False),
)
VIEW_CHANNELS = {channel.name: channel for channel in _VIEW_CHANNELS}
OBJECT_CHANNELS = {channel.name: channel for channel in _OBJECT_CHANNELS}
VIEW_GROUPS = {
    CAPTIONS: (CAPTION_TEXT, DETECTIONS),
    "observations": (OBSERVATIONS_AHEAD, OBSERVATIONS_ABOVE_BELOW),
}
OBJECT_GROUPS = {NAMES: (NAME, VIEW_CAPTION), "detections": (VIEW_CAPTION, OVERLAPS)}
VIEW_NAMES, OBJECT_NAMES = (*VIEW_GROUPS, *VIEW_CHANNELS), (*OBJECT_GROUPS, *OBJECT_CHANNELS)
# The best of them.
WITHOUT_NAMES = ",".join((VIEW_CAPTION, OVERLAPS_IN_ALL_VIEWS, BOX_SHAPE, OBSERVATIONS))

# Features that no channel names; `name` is how an error calls them. A file of objects may lack some of them, so it is
# opened as a bank of its own, by `open_object_bank`.
VIEW_FILE = Channel("a file of image features", "features", "opening:open_view_file", embeds=False, sided=True)
OBJECT_FILE = Channel("a file of objects' features", "object features", "", embeds=False, sided=True)
HELD = Channel("features held in memory", "", "opening:open_user_features", embeds=False, sided=True)

AnyMaker = TypeVar("AnyMaker", bound=Callable[..., Any])
FEATURES: Registry[Callable[..., Any]] = Registry("features")


def register_features(name: str) -> Callable[[AnyMaker], AnyMaker]:
    """A decorator that names user-defined features: `vln.train(..., features="my-depth")`.

    It decorates a function `f(world)` that returns the features of views: a [viewpoint, 36, width] tensor by view, a
    [viewpoint, slot, width] tensor by choice, or a bank, any object with `width` and `look(viewpoint)`. A class of such
    objects, made with a world, will do as well.

    Args:
        name: Name for the setting `features.views`, in place of a file.
    """
    register = by_name(FEATURES, name)
    if name == IN_MEMORY or name in VIEW_GROUPS or name in VIEW_CHANNELS:
        raise UsageError(f"the name {name} is taken; choose another for features of your own")
    if "," in name:
        raise UsageError(f"the name {name} has a comma, which stands between channels; choose another")
    return register


@dataclass(frozen=True)
class FeatureSpec:
    """Features by which an agent sees views and objects."""

    views: str | None = None
    """Features of views: an image feature file, or channels that stand side by side, such as captions,observations.
    captions are the view's caption and detected objects (caption-text,detections), observations are descriptions in its
    direction (observations-ahead,observations-above-below); others are captions-beside, detection-places and features
    that were registered (vlnbert plugins lists them). By default the only file in the data folder's features/."""
    view_width: int | None = None
    """How many numbers of an image feature to use, the first ones: some files append class scores. All by default."""
    objects: str | None = None
    """Features of REVERIE's objects: a feature file, channels side by side, or off to see none. names are their
    annotated names and the captions of the views that show them (name,view-caption); detections do without names: those
    captions and the detections there (view-caption,overlapping-detections); detections-in-all-views are those in all
    views that show them, observations are descriptions in their direction, box-shape is how large their box is and
    whether the view cuts it off. By default the only such file in the data folder's features/."""
    object_width: int | None = None
    """How many numbers of an object's feature to use, the first ones. All by default."""
    max_objects: int | None = None
    """Objects that a viewpoint shows at most, those with the largest boxes; all of them by default."""
    encoder: str = MINILM
    """Text encoder of captions and names: a BERT, or any encoder that transformers opens, such as
    sentence-transformers/all-mpnet-base-v2; a folder or a hub name."""

    @property
    def view_channels(self) -> tuple[str, ...]:
        """The channels of a view's feature, in their order; none where it comes from a file or from memory."""
        if self.views is None or self.views == IN_MEMORY:
            return ()
        return _named_channels(self.views, VIEW_GROUPS, VIEW_CHANNELS, FEATURES)

    @property
    def object_channels(self) -> tuple[str, ...]:
        """The channels of an object's feature, in their order; none where it comes from a file, or agents see none."""
        if self.objects is None or self.objects == OFF:
            return ()
        return _named_channels(self.objects, OBJECT_GROUPS, OBJECT_CHANNELS)

    @property
    def of_views(self) -> tuple[Channel, ...]:
        """Parts of a view's feature: its channels, or a file or features in memory as one."""
        if names := self.view_channels:
            return tuple(VIEW_CHANNELS.get(name) or replace(HELD, name=name) for name in names)
        return (HELD if self.views == IN_MEMORY else VIEW_FILE,)

    @property
    def of_objects(self) -> tuple[Channel, ...]:
        """Parts of an object's feature: its channels, or a file as one; none where agents see no objects."""
        if names := self.object_channels:
            return tuple(OBJECT_CHANNELS[name] for name in names)
        return () if self.objects == OFF else (OBJECT_FILE,)

    @property
    def needs(self) -> set[str]:
        """Kinds of data that are read, as `data.inventory.NEEDS` has them."""
        return {channel.needs for channel in (*self.of_views, *self.of_objects)}

    @property
    def reads_captions(self) -> bool:
        return "captions" in self.needs

    @property
    def reads_observations(self) -> bool:
        return "observations" in self.needs

    @property
    def reads_view_file(self) -> bool:
        return VIEW_FILE in self.of_views

    @property
    def reads_object_file(self) -> bool:
        return OBJECT_FILE in self.of_objects

    @property
    def uses_encoder(self) -> bool:
        """Whether any of it is text, which the encoder reads."""
        return any(channel.embeds for channel in (*self.of_views, *self.of_objects))

    @property
    def user_views(self) -> bool:
        """Whether views have user-defined features: registered by name, or held in memory."""
        return any(not channel.needs for channel in self.of_views)

    @property
    def sided(self) -> str:
        """The first part that would have to change its sides in a mirror, or may have to; empty where there is none."""
        return next((channel.name for channel in (*self.of_views, *self.of_objects) if channel.sided), "")

    def updated_by(self, other: "FeatureSpec") -> "FeatureSpec":
        """The same, but for the fields of another that are not at their defaults."""
        usual = FeatureSpec()
        values: dict[str, Any] = {field.name: getattr(other, field.name) for field in fields(other)}
        return replace(self, **{name: value for name, value in values.items() if value != getattr(usual, name)})


def as_spec(features: Any) -> FeatureSpec:
    """A spec from itself, or from the features of views alone, a text or a path; an empty one from None."""
    if isinstance(features, FeatureSpec):
        return features
    return FeatureSpec(views=None if features is None else str(features))


def _named_channels(text: str, groups: Mapping[str, tuple[str, ...]], *known: Mapping[str, object]) -> tuple[str, ...]:
    """The channels that a text such as captions,observations names, each once; none where it names a file."""
    if text not in groups and not any(text in channels for channels in known):
        # A text may be too long for a path.
        with suppress(OSError):
            if "," not in text or Path(text).exists():
                return ()
    named = dict[str, None]()
    for name in (part.strip() for part in text.split(",")):
        if not name:
            raise UsageError(f"'{text}' names an empty channel; write names with single commas between them")
        if name not in groups and not any(name in channels for channels in known):
            raise UnknownNameError("channel", name, [*groups, *chain(*known)])
        named |= dict.fromkeys(groups.get(name, (name,)))
    return tuple(named)
