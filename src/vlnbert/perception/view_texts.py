"""What a data folder says of each view, as text, for people and for agents that read: its caption, what was observed,
what was detected."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TypedDict

import torch

from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.perception.objects import readable_name
from vlnbert.perception.observations import nearest_headings
from vlnbert.progress import quiet
from vlnbert.sources.annotations import HEADINGS, ViewCaption, read_captions, read_observations
from vlnbert.sources.layout import DataFolder
from vlnbert.world.objects import ObjectTable
from vlnbert.world.world import STEPS, STOP, VIEWS, World

HELD = 256  # scans whose texts are held in memory; each has about a megabyte in the open data
CHANNELS = ("captions", "observations", "detections")

Captioned = tuple[tuple[str, tuple[str, ...]], ...]  # of 36 views, the caption and the labels, the surest first
Observed = tuple[tuple[str, ...], ...]  # of 8 headings, a caption for each level


class ViewTexts(TypedDict, total=False):
    """The texts of one view; what a folder does not have is left out."""

    captions: str
    observations: str
    detections: list[str]  # labels, the surest first, each once


class TextReader:
    """The texts of a data folder, each scan's files read when one of its views is first asked for."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        self._captions, self._observations = lru_cache(HELD)(self._read_captions), lru_cache(HELD)(self._read_observed)

    def of(self, scan: str, viewpoint: str, view: int) -> ViewTexts:
        """What is said of a view; nothing where nobody says anything."""
        found = ViewTexts()
        if captioned := self._captions(scan).get(viewpoint):
            found["captions"], labels = captioned[view]
            found["detections"] = list(labels)
        if observed := self._observations(scan).get(viewpoint):
            found["observations"] = observed[NEAREST[view]][view // STEPS]
        return found

    def _read_captions(self, scan: str) -> dict[str, Captioned]:
        path = self.folder.captions / f"{scan}.json"
        same = dict[tuple[str, ...], tuple[str, ...]]()  # most views have the labels of another

        def labels(view: ViewCaption) -> tuple[str, ...]:
            surest = sorted(view.detections, key=lambda one: -one.confidence)
            found = tuple(dict.fromkeys(one.label for one in surest))
            return same.setdefault(found, found)

        with quiet():
            panoramas = read_captions(path) if path.is_file() else []
        return {one.viewpoint: tuple((view.text, labels(view)) for view in one.views) for one in panoramas}

    def _read_observed(self, scan: str) -> dict[str, Observed]:
        path = self.folder.observations / f"{scan}.json"
        with quiet():
            return {one.viewpoint: one.captions for one in read_observations(path)} if path.is_file() else {}


class Texts:
    """The words of a data folder's views and objects, for agents that read: `data.texts`.

    Viewpoints are numbers of the world, as in `observation.state.viewpoint`; instructions are `batch.texts`. A view has
    three channels: captions (its caption), observations (what was observed in its direction) and detections (the labels
    of what was detected in it, the surest first, with commas). What nobody says is an empty text. Each scan's files are
    read when one of its views is first asked for.
    """

    def __init__(self, world: World, folder: DataFolder, open_objects: Callable[[], ObjectTable]) -> None:
        """`open_objects` gives the objects in the order in which agents see them."""
        self.world, self.folder, self._open_objects = world, folder, open_objects
        self._reader, self._there = TextReader(folder), set[str]()

    def view(self, viewpoint: int, view: int, channel: str | None = None) -> str:
        """What is said of one of a viewpoint's 36 views: by one channel, or by all that say something, with "; "."""
        names, here = self._channels(channel), self._number(viewpoint)
        if not 0 <= view < VIEWS:
            raise UsageError(f"no view {int(view)}; a viewpoint has views 0 to {VIEWS - 1}")
        said = self._reader.of(self.world.scans[self._scan_of[here]], self.world.viewpoints[here], int(view))
        words = {**said, "detections": ", ".join(said.get("detections", ()))}
        return "; ".join(str(words[name]) for name in names if words.get(name))

    def slot(self, viewpoint: int, slot: int, channel: str | None = None) -> str:
        """The same of the view that faces a neighbour; an empty text for slot 0, which stops, and for padding."""
        here = self._number(viewpoint)
        if not STOP < slot < self._choices[here]:
            return ""
        return self.view(here, self._view[here][int(slot)], channel)

    def objects(self, viewpoint: int, channel: str | None = None) -> list[str]:
        """The annotated names of a viewpoint's objects, in the order of `observation.visible_objects`.

        No camera gives such names. With a channel, what that says of the view that shows each object.
        """
        here, table = self._number(viewpoint), self._objects
        first, count = int(table.first[here]), int(table.count[here])
        if channel is not None:
            return [self.view(here, view, channel) for view in table.view[first : first + count].tolist()]
        return [readable_name(table.names[name]) for name in table.name[first : first + count].tolist()]

    def _number(self, viewpoint: int) -> int:
        if not 0 <= viewpoint < len(self.world):
            raise UsageError(f"no viewpoint {int(viewpoint)}; this world has 0 to {len(self.world) - 1}")
        return int(viewpoint)

    def _channels(self, channel: str | None) -> tuple[str, ...]:
        """The channels of a name, or all; a folder that has none of them is refused."""
        if channel is not None and channel not in CHANNELS:
            raise UnknownNameError("channel of words", channel, CHANNELS)
        asked = CHANNELS if channel is None else (channel,)
        if self._there.isdisjoint(asked):
            captions, observations = self.folder.captions.is_dir(), self.folder.observations.is_dir()
            self._there |= {name for name in asked if (observations if name == "observations" else captions)}
        if self._there.isdisjoint(asked):
            remedy = "get them with: vlnbert data fetch DIR --only captions observations"
            raise DataError(self.folder.root, f"holds no {channel or 'words'} of views", remedy)
        return asked

    @cached_property
    def _objects(self) -> ObjectTable:
        return self._open_objects()

    @cached_property
    def _scan_of(self) -> list[int]:
        return self.world.scan_of.tolist()

    @cached_property
    def _choices(self) -> list[int]:
        return self.world.choices.tolist()

    @cached_property
    def _view(self) -> list[list[int]]:
        return self.world.view.tolist()


def _nearest() -> list[int]:
    """[view] the described heading that is nearest to its own."""
    before, share = nearest_headings(torch.arange(VIEWS) % STEPS * (360 / STEPS))
    return ((before + (share > 0.5).long()) % HEADINGS).tolist()


NEAREST = _nearest()
