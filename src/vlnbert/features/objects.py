"""Object banks: from feature files, or by names, captions, detections and observations.

Detections and boxes are given in one frame, a view of 640 x 480 pixels, so they can be compared: in the open data the
edges of detections reach 640 and 480, and where the detector and REVERIE's annotators agree on a word (928 cases in 20
scans), the best detection overlaps the box by an IoU of 0.78 in the median.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from json import dumps
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from vlnbert.errors import DataError, Faults, UnknownNameError, UsageError
from vlnbert.features.encoder import Index, Source, TextCodes, mixed
from vlnbert.features.spec import OVERLAPS
from vlnbert.features.views import captions_of, index_captions_of, nearest_headings, observations_of
from vlnbert.progress import quiet
from vlnbert.sources.annotations import (
    HEADINGS,
    IMAGE_HEIGHT,
    IMAGE_WIDTH,
    Detection,
    ViewCaption,
    box_files,
    read_captions,
    read_observations,
)
from vlnbert.sources.features import ObjectFeatures, read_object_features
from vlnbert.sources.layout import DataFolder
from vlnbert.world.cache import Built, Key, cached
from vlnbert.world.objects import AREA, NONE, Boxes, ObjectBank, ObjectTable, boxes_by_view
from vlnbert.world.world import STEPS, STOP, VIEWS, World, view_elevation, view_heading

VERSION = 1  # of tables of feature files; a new one makes old caches unused
SHOWN = 5  # viewpoints that a line names
ONE_SET = "use the object features, boxes and graphs of one data set"
LOG_USUAL_SIZE = 5.0  # of about 150 pixels
# Pixels; the vertical field of view is 60 degrees.
FOCAL = (IMAGE_HEIGHT / 2) / math.tan(math.radians(30))

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ObjectSource(Source):
    """Where channels of objects come from."""

    objects: ObjectTable = field(kw_only=True)

    def key_of_boxes(self, kind: str, files: Iterable[Path]) -> Key:
        """Key of channels that depend on which objects there are and where each is seen, but not on their names."""
        seen = self.objects.view.numpy().tobytes() + self.objects.position.numpy().tobytes()
        digest = hashlib.blake2b(seen, digest_size=16).hexdigest()
        return self.key(kind, files, self.objects.fingerprint(), digest)

    @property
    def names_key(self) -> Key:
        """Key of names and captions."""
        # The fingerprint covers which objects there are; the same ones may have other names, or show in other views.
        names = dumps((self.objects.names, self.objects.name.tolist(), self.objects.view.tolist()))
        return self.key("object-names", self.caption_files, self.objects.fingerprint(), names)

    def describe(self) -> dict[str, Tensor]:
        """Embed names and captions of objects, each text once.

        Gives `names` and `captions` [text, width] in half precision, and the place of each object's in them, `name` and
        `caption` [object].
        """

        def index() -> Index:
            phrases, names = [readable_name(name) for name in self.objects.names], TextCodes()
            name = torch.tensor(names.of(phrases[name] for name in self.objects.name.tolist()), dtype=torch.int)
            captions, caption = self.captions_of_objects()
            return {"names": names.texts, "captions": captions}, {"name": name, "caption": caption.int()}

        tables = self.embedded(self.names_key, index)
        return tables | {name: tables[name].long() for name in ("name", "caption")}

    def captions_of_objects(self) -> tuple[list[str], Tensor]:
        """The distinct captions of the views that show the objects, and the code of each object's, from 0."""
        return index_captions_of(self.world, self.folder.captions, self.objects.viewpoint, self.objects.view)


def open_named_objects(source: ObjectSource, max_objects: int | None = None) -> ObjectBank:
    """The bank of names and captions, the usual two channels: a codebook, since there are few distinct pairs."""
    tables = source.describe()
    (name, caption), code = torch.unique(torch.stack((tables["name"], tables["caption"])), dim=1, return_inverse=True)
    vectors = torch.cat((tables["names"][name], tables["captions"][caption]), dim=1)
    return ObjectBank.from_codebook(source.objects, vectors.to(source.world.device).float(), code, max_objects)


def open_names(source: ObjectSource, name: str) -> Tensor:
    """[object, width] its name."""
    tables = source.describe()
    return tables["names"][tables["name"]].float()


def readable_name(name: str) -> str:
    """An object's name as one would write it.

    '#' and '_' become spaces, slashes commas, and "/w" becomes "with".
    """
    # In REVERIE's 1,093 names '#' is the space within a phrase ("bowl#of#fruit", "sofa#chair"), never a border between
    # two things; '_' does not occur and is read alike. A slash of either kind adds another word for the thing or the
    # place where it is ("stand/table", "wall#/other#room"): a comma serves both. Alone, "/w" and "w/" mean "with"
    # ("box#/w#books"). Misspellings stay: word pieces bear them, and to correct them would be to guess.
    phrase = re.sub(r"[#_\s]+", " ", name)
    phrase = re.sub(r"(?<!\S)(?:/w|w/)(?!\S)", "with", phrase)
    return re.sub(r"\s*[/\\]+\s*", ", ", phrase).strip(" ,")


def open_view_captions(source: ObjectSource, name: str) -> Tensor:
    """[object, width] the caption of the view that shows it."""

    def index() -> Index:
        texts, code = source.captions_of_objects()
        return {"vectors": texts}, {"code": code.int()}

    tables = source.embedded(source.key_of_boxes("object-captions", source.caption_files), index)
    return tables["vectors"].float()[tables["code"].long()]


def open_overlaps(source: ObjectSource, name: str) -> Tensor:
    """[object, classes + width] the detections that overlap its box, in its view or in all views that show it.

    Each counts by its IoU with the box times its confidence: the most of each class, then the mean of the detections'
    own captions. Where nothing overlaps, all is zero.

    A detector that misses an object in the view where it is largest may find it in another. Of the targets that REVERIE
    trains on, at the ends of their paths, the best IoU is 0.05 in the median there, and 0.26 over all views.
    """
    world, objects, boxes = source.world, source.objects, source.folder.boxes
    largest = name == OVERLAPS
    files = source.caption_files + ([] if largest else box_files(boxes))

    def index() -> Index:
        positions = objects.position[:, :AREA].double().tolist()
        boxed = [[(view, tuple(box))] for view, box in zip(objects.view.tolist(), positions, strict=True)]
        shown = boxed if largest else boxes_by_view(world, objects, boxes)
        return _index_overlaps(world, objects, source.folder.captions, shown)

    kind = "object-overlaps" if largest else "object-overlaps-in-all-views"
    tables = source.embedded(source.key_of_boxes(kind, files), index)
    code, weight, first = tables["code"].long(), tables["weight"], tables["first"].long()
    texts = embedding_bag(code, tables["vectors"].float(), first, mode="sum", per_sample_weights=weight)
    return torch.cat((tables["classes"], texts), dim=1)


def _index_overlaps(world: World, objects: ObjectTable, folder: Path, shown: list[Boxes]) -> Index:
    """Index the detections that overlap objects; `shown` [object] has the views to look into, and its box in each."""
    labels, overlaps = set[str](), [list[tuple[float, Detection]]() for _ in range(len(objects))]
    for viewpoint, panorama in captions_of(world, folder, (objects.count > 0).numpy()):
        labels |= {item.label for view in panorama.views for item in view.detections}
        for row in _rows_at(objects, viewpoint):
            for view, box in shown[row]:
                overlaps[row] += _overlapping(box, panorama.views[view].detections)
    column = {label: place for place, label in enumerate(sorted(labels))}
    classes, codes = np.zeros((len(objects), len(column)), dtype=np.float32), TextCodes()
    for row, items in enumerate(overlaps):
        for weight, item in items:
            place = row, column[item.label]
            classes[place] = max(classes[place], weight)
    count = torch.tensor([len(items) for items in overlaps], dtype=torch.long)
    shares = [weight / sum(other for other, _ in items) for items in overlaps for weight, _ in items]
    tables = {
        "classes": torch.from_numpy(classes),
        "code": torch.tensor(codes.of(item.caption for items in overlaps for _, item in items), dtype=torch.int),
        "weight": torch.tensor(shares, dtype=torch.float32),
        "first": (count.cumsum(0) - count).int(),
    }
    return {"vectors": codes.texts}, tables


def _rows_at(objects: ObjectTable, viewpoint: int) -> range:
    first = int(objects.first[viewpoint])
    return range(first, first + int(objects.count[viewpoint]))


def _overlapping(box: tuple[float, ...], seen: tuple[Detection, ...]) -> list[tuple[float, Detection]]:
    """The detections of a view that overlap a box in it, given in shares of the view, and the weight of each."""
    if not seen:
        return []
    pixels = np.array(box) * (IMAGE_WIDTH, IMAGE_HEIGHT, IMAGE_WIDTH, IMAGE_HEIGHT)
    ratios = overlap(pixels, np.array([item.box for item in seen])).tolist()
    weighted = [(ratio * item.confidence, item) for ratio, item in zip(ratios, seen, strict=True)]
    return [(weight, item) for weight, item in weighted if weight > 0]


def overlap(box: Floats, others: Floats) -> Floats:
    """The intersection over the union of a box, left, top, right, bottom, and each of [other, 4]."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.maximum(high - low, 0).prod(axis=1)
    area, areas = (np.maximum(edges[..., 2:] - edges[..., :2], 0).prod(axis=-1) for edges in (box, others))
    union = area + areas - shared
    ratio: Floats = np.divide(shared, union, out=np.zeros(len(others)), where=union > 0)
    return ratio


def open_object_observations(source: ObjectSource, name: str) -> Tensor:
    """[object, width] the observations in the direction of the middle of its box, at its view's elevation."""
    objects = source.objects
    before, share = nearest_headings(torch.rad2deg(box_direction(objects)[0]))

    def index() -> Index:
        codes, code = TextCodes(), np.zeros((len(objects), 2), dtype=np.int32)
        heading, view = before.tolist(), objects.view.tolist()
        shows = (objects.count > 0).numpy()
        for viewpoint, panorama in observations_of(source.world, source.folder.observations, shows):
            for row in _rows_at(objects, viewpoint):
                pair = heading[row], (heading[row] + 1) % HEADINGS
                code[row] = codes.of(panorama.captions[place][view[row] // STEPS] for place in pair)
        return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}

    tables = source.embedded(source.key_of_boxes("object-observations", source.observation_files), index)
    return mixed(tables["vectors"], tables["code"], torch.stack((1 - share, share), dim=1))


def box_direction(objects: ObjectTable) -> tuple[Tensor, Tensor]:
    """[object] the heading and the elevation of the middle of its box, radians."""
    left, top, right, bottom, _ = objects.position.double().T
    across = ((left + right) / 2 - 0.5) * IMAGE_WIDTH / FOCAL
    up = (0.5 - (top + bottom) / 2) * IMAGE_HEIGHT / FOCAL
    elevation = view_elevation(objects.view).double()
    ahead, above = elevation.cos() - up * elevation.sin(), elevation.sin() + up * elevation.cos()
    return view_heading(objects.view) + torch.atan2(across, ahead), torch.atan2(above, torch.hypot(across, ahead))


def open_box_shapes(source: ObjectSource, name: str) -> Tensor:
    """[object, 5] the logarithms of its box's width and height, and how many sides, tops and bottoms cut it off.

    Boxes differ in size by factors, so their logarithms are given: a navigator sees the edges, but makes none of them.
    In a mirror a box has the same shape.
    """
    left, top, right, bottom, _ = source.objects.position.T
    pixels = torch.stack(((right - left) * IMAGE_WIDTH, (bottom - top) * IMAGE_HEIGHT), dim=1)
    cut = torch.stack(((left <= 0).float() + (right >= 1).float(), (top <= 0).float(), (bottom >= 1).float()), dim=1)
    # Divided so that both are about as large as confidences are.
    return torch.cat((((pixels + 1).log() - LOG_USUAL_SIZE) / 2, cut / 2), dim=1)


@dataclass(frozen=True)
class Fit:
    """How well a feature file fits the boxes. Objects without a feature are left out of the bank."""

    matched: int  # objects that have both
    featureless: int  # objects that a viewpoint shows and the file does not have there
    boxless: int  # features of objects that no view shows there
    bare: tuple[str, ...]  # viewpoints, as <scan>_<viewpoint>, that show objects none of which has a feature

    @classmethod
    def of(cls, world: World, objects: ObjectTable, rows: Tensor, boxless: int) -> "Fit":
        """The fit of a file that has features of these rows of the objects."""
        matched = torch.bincount(objects.viewpoint[rows], minlength=len(world))
        bare = ((objects.count > 0) & (matched == 0)).nonzero().flatten().tolist()
        scan_of = world.scan_of.tolist()
        names = tuple(f"{world.scans[scan_of[place]]}_{world.viewpoints[place]}" for place in bare)
        return cls(len(rows), len(objects) - len(rows), boxless, names)

    def lines(self) -> list[str]:
        """A line for each kind of misfit that occurs."""
        names = ", ".join(self.bare[:SHOWN]) + (", ..." if len(self.bare) > SHOWN else "")
        lines = {
            f"{self.featureless:,} objects have a box and no feature; they are left out": self.featureless,
            f"{self.boxless:,} features are of objects that no view shows there": self.boxless,
            f"{len(self.bare):,} viewpoints show objects none of which has a feature: {names}": self.bare,
        }
        return [line for line, occurs in lines.items() if occurs]


def find_fit(world: World, objects: ObjectTable, featured: Iterable[tuple[int, str]]) -> Fit:
    """The fit of features of these objects, given by viewpoint and id."""
    places = [(viewpoint, objects.index(viewpoint, id)) for viewpoint, id in featured]
    shown = [int(objects.first[viewpoint]) + index for viewpoint, index in places if index != NONE]
    return Fit.of(world, objects, torch.tensor(sorted(shown), dtype=torch.long), len(places) - len(shown))


def open_object_features(
    world: World, objects: ObjectTable, path: Path, width: int | None = None, max_objects: int | None = None
) -> tuple[ObjectBank, Fit]:
    """Open the bank of an object feature file, and how well it fits; read once, then opened from the cache.

    Objects are matched by scan, viewpoint and id. Where a viewpoint shows more than `max_objects` of them, those with
    the largest boxes are kept.
    """

    def build() -> Built:
        features, boxless = dict[int, NDArray[np.float32]](), 0
        first = objects.first.tolist()
        for viewpoint, place in placed_objects(world, read_object_features(path, width), path):
            for id, values in zip(place.ids, place.values, strict=True):
                index = objects.index(viewpoint, id)
                boxless += index == NONE
                if index != NONE:
                    features[first[viewpoint] + index] = values
        if not features:
            raise DataError(path, "has a feature of none of the objects that the boxes show", ONE_SET)
        rows = sorted(features)
        table = torch.from_numpy(np.stack([features[row] for row in rows]))
        return {"rows": torch.tensor(rows), "table": table, "boxless": torch.tensor(boxless)}, {}

    version = f"version {VERSION} width {width}"
    key = Key.of("object-features", [path], version, world.fingerprint(), objects.fingerprint())
    tables, _ = cached(key, build)
    rows = tables["rows"]
    bank = ObjectBank.from_codebook(objects.select(rows), tables["table"], max_objects=max_objects)
    return bank.to(world.device), Fit.of(world, objects, rows, int(tables["boxless"]))


def placed_objects(world: World, places: Iterable[ObjectFeatures], path: Path) -> Iterator[tuple[int, ObjectFeatures]]:
    """Each place with its viewpoint's number; those of left-out scans are skipped, an unknown viewpoint is a fault."""
    faults = Faults(path)
    with faults.including():
        for place in places:
            number = world.numbers.get((place.scan, place.viewpoint))
            if number is not None:
                yield number, place
            elif place.scan in world.scans:
                faults.add(f"key {place.scan}_{place.viewpoint}", "its viewpoint is not in the graph", ONE_SET)
    faults.raise_if_any()


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
