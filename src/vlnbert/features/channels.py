"""The channels of a view's and of an object's feature, by name. No torch, since commands list these.

`captions,observations` sets channels side by side, in that order. Some names stand for several channels; one that is
named twice, alone or within another, is there once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from vlnbert.errors import UnknownNameError, UsageError

CAPTION_FILES, OBSERVATION_FILES, BOX_FILES = "captions", "observations", "reverie/BBox"  # folders of a data folder


@dataclass(frozen=True)
class Channel:
    """Part of a feature."""

    shows: str
    files: str  # the folder that it is made of
    embeds: bool = True  # whether it is made of texts, by the encoder


CAPTION_TEXT, DETECTIONS, CAPTIONS_BESIDE = "caption-text", "detections", "captions-beside"
DETECTION_PLACES = "detection-places"
OBSERVATIONS_AHEAD, OBSERVATIONS_ABOVE_BELOW = "observations-ahead", "observations-above-below"

VIEW_CHANNELS = {
    CAPTION_TEXT: Channel("the caption of the view", CAPTION_FILES),
    DETECTIONS: Channel("for each class, the confidence of its surest detection", CAPTION_FILES, embeds=False),
    DETECTION_PLACES: Channel(
        "the same for the left, the middle and the right third of the view", CAPTION_FILES, embeds=False
    ),
    CAPTIONS_BESIDE: Channel("the captions of the views to its left and right", CAPTION_FILES),
    OBSERVATIONS_AHEAD: Channel("the observations at the view's elevation, in its direction", OBSERVATION_FILES),
    OBSERVATIONS_ABOVE_BELOW: Channel("those at the two other elevations", OBSERVATION_FILES),
}
VIEW_GROUPS = {
    "captions": (CAPTION_TEXT, DETECTIONS),
    "observations": (OBSERVATIONS_AHEAD, OBSERVATIONS_ABOVE_BELOW),
}

NAME, VIEW_CAPTION, OVERLAPS, OBSERVATIONS = "name", "view-caption", "overlapping-detections", "observations"
OVERLAPS_IN_ALL_VIEWS, BOX_SHAPE = "detections-in-all-views", "box-shape"
OBJECT_CHANNELS = {
    NAME: Channel("the annotated name of the object", CAPTION_FILES),
    VIEW_CAPTION: Channel("the caption of the view that shows it", CAPTION_FILES),
    OVERLAPS: Channel("classes and captions of the detections that overlap its box", CAPTION_FILES),
    OVERLAPS_IN_ALL_VIEWS: Channel("the same in all views that show it", CAPTION_FILES),
    OBSERVATIONS: Channel("the observations in the direction of its box", OBSERVATION_FILES),
    BOX_SHAPE: Channel("how wide and high its box is, and whether the view cuts it off", BOX_FILES, embeds=False),
}
OBJECT_GROUPS = {
    "names": (NAME, VIEW_CAPTION),
    "detections": (VIEW_CAPTION, OVERLAPS),
}
WITHOUT_NAMES = ",".join((VIEW_CAPTION, OVERLAPS_IN_ALL_VIEWS, BOX_SHAPE, OBSERVATIONS))  # the best of them


def channel_names(
    text: str, known: Sequence[Mapping[str, object]], groups: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The channels that a text such as captions,observations names, each once; an unknown name is refused."""
    found = dict[str, None]()
    for name in (part.strip() for part in text.split(",")):
        if not name:
            raise UsageError(f"'{text}' names an empty channel; write names with single commas between them")
        if name not in groups and not any(name in channels for channels in known):
            raise UnknownNameError("channel", name, [*groups, *chain(*known)])
        found |= dict.fromkeys(groups.get(name, (name,)))
    return tuple(found)
