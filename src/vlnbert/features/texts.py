"""Words of a data folder for each view: caption, observations and detected labels, for people and agents that read."""

from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import TypedDict

from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.features.objects import readable_name
from vlnbert.progress import quiet
from vlnbert.sources.annotations import HEADINGS, ViewCaption, read_captions, read_observations
from vlnbert.sources.layout import DataFolder
from vlnbert.world.objects import ObjectTable
from vlnbert.world.world import STEPS, STOP, VIEWS, World

# Scans whose texts are held in memory; each has about a megabyte in the open data.
HELD = 256
CHANNELS = ("captions", "observations", "detections")
NEAREST = [round(view % STEPS * HEADINGS / STEPS) % HEADINGS for view in range(VIEWS)]  # [view] described heading

Captioned = tuple[tuple[str, tuple[str, ...]], ...]  # of 36 views, the caption and the labels, the surest first
Observed = tuple[tuple[str, ...], ...]  # of 8 headings, a caption for each level


class ViewTexts(TypedDict, total=False):
    """The texts of one view; what a folder does not have is left out."""

    captions: str
    observations: str
    detections: list[str]  # labels, the surest first, each once


class TextReader:
    """The texts of a data folder, each scan's files read when one of its views is first looked up."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        self._captions, self._observations = lru_cache(HELD)(self._read_captions), lru_cache(HELD)(self._read_observed)

    def of(self, scan: str, viewpoint: str, view: int) -> ViewTexts:
        """The texts of a view; none where the folder has none."""
        texts = ViewTexts()
        if captioned := self._captions(scan).get(viewpoint):
            texts["captions"], labels = captioned[view]
            texts["detections"] = list(labels)
        if observed := self._observations(scan).get(viewpoint):
            texts["observations"] = observed[NEAREST[view]][view // STEPS]
        return texts

    def _read_captions(self, scan: str) -> dict[str, Captioned]:
        path = self.folder.captions / f"{scan}.json"
        # Most views have the labels of another.
        known = dict[tuple[str, ...], tuple[str, ...]]()

        def labels(view: ViewCaption) -> tuple[str, ...]:
            surest = sorted(view.detections, key=lambda detection: -detection.confidence)
            distinct = tuple(dict.fromkeys(detection.label for detection in surest))
            return known.setdefault(distinct, distinct)

        with quiet():
            panoramas = read_captions(path) if path.is_file() else []
        return {place.viewpoint: tuple((view.text, labels(view)) for view in place.views) for place in panoramas}

    def _read_observed(self, scan: str) -> dict[str, Observed]:
        path = self.folder.observations / f"{scan}.json"
        with quiet():
            return {place.viewpoint: place.captions for place in read_observations(path)} if path.is_file() else {}


class Texts:
    """The words of a data folder's views and objects, for agents that read: `data.texts`.

    Viewpoints are numbers of the world, as in `observation.state.viewpoint`; instructions are `batch.texts`. A view has
    three channels: captions (its caption), observations (a description in its direction) and detections (the labels of
    objects detected in it, the surest first, with commas). A channel without words for a view is an empty text. Each
    scan's files are read when one of its views is first looked up.
    """

    def __init__(self, world: World, folder: DataFolder, open_objects: Callable[[], ObjectTable]) -> None:
        """`open_objects` gives the objects in the order in which agents see them."""
        self.world, self.folder, self._objects = world, folder, cache(open_objects)
        self._reader, self._present = TextReader(folder), set[str]()

    def view(self, viewpoint: int, view: int, channel: str | None = None) -> str:
        """The words of one of a viewpoint's 36 views: of one channel, or of all that have any, joined by "; "."""
        names, here = self._channels(channel), self._number(viewpoint)
        if not 0 <= view < VIEWS:
            raise UsageError(f"no view {int(view)}; a viewpoint has views 0 to {VIEWS - 1}")
        texts = self._reader.of(self.world.scans[self._tables[0][here]], self.world.viewpoints[here], int(view))
        words = {**texts, "detections": ", ".join(texts.get("detections", ()))}
        return "; ".join(str(words[name]) for name in names if words.get(name))

    def slot(self, viewpoint: int, slot: int, channel: str | None = None) -> str:
        """The words of the view that faces a neighbour; an empty text for slot 0, which stops, and for padding."""
        here = self._number(viewpoint)
        _, choices, views = self._tables
        return self.view(here, views[here][int(slot)], channel) if STOP < slot < choices[here] else ""

    def objects(self, viewpoint: int, channel: str | None = None) -> list[str]:
        """The annotated names of a viewpoint's objects, in the order of `observation.visible_objects`.

        No camera gives such names. With a channel, its words for the view that shows each object.
        """
        here, table = self._number(viewpoint), self._objects()
        rows = slice(int(table.first[here]), int(table.first[here] + table.count[here]))
        if channel is not None:
            return [self.view(here, view, channel) for view in table.view[rows].tolist()]
        return [readable_name(table.names[name]) for name in table.name[rows].tolist()]

    def _number(self, viewpoint: int) -> int:
        if not 0 <= viewpoint < len(self.world):
            raise UsageError(f"no viewpoint {int(viewpoint)}; this world has 0 to {len(self.world) - 1}")
        return int(viewpoint)

    def _channels(self, channel: str | None) -> tuple[str, ...]:
        """The channels of a name, or all; a folder that has none of them is refused."""
        if channel is not None and channel not in CHANNELS:
            raise UnknownNameError("channel of words", channel, CHANNELS)
        names = CHANNELS if channel is None else (channel,)
        folders = {"observations": self.folder.observations}
        if self._present.isdisjoint(names):
            self._present |= {name for name in names if folders.get(name, self.folder.captions).is_dir()}
        if self._present.isdisjoint(names):
            remedy = "get them with: vlnbert data fetch DIR --only captions observations"
            raise DataError(self.folder.root, f"holds no {channel or 'words'} of views", remedy)
        return names

    @cached_property
    def _tables(self) -> tuple[list[int], list[int], list[list[int]]]:
        """The scan and the number of choices of each viewpoint, and the view of each [viewpoint, slot]."""
        return self.world.scan_of.tolist(), self.world.choices.tolist(), self.world.view.tolist()
