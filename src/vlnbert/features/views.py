"""Feature banks of views: image features, detected labels, captions and observations.

Most agents look only at the views that face a neighbour, one in ten, so only those are kept. Panorama banks have all
36: of texts they keep the distinct ones, and mix them when an agent looks, since a table would take 580 MB a channel.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlnbert.errors import Faults
from vlnbert.features.encoder import Index, Source, TextCodes, mixed, scan_files
from vlnbert.features.spec import DETECTION_PLACES, OBSERVATIONS_AHEAD
from vlnbert.progress import track
from vlnbert.sources.annotations import (
    HEADINGS,
    IMAGE_WIDTH,
    LEVELS,
    Box,
    PanoramaCaptions,
    PanoramaObservations,
    read_captions,
    read_observations,
)
from vlnbert.sources.features import feature_width, read_features
from vlnbert.world.banks import Bank, FeatureBank, MixedBank
from vlnbert.world.cache import Built, Key, cached
from vlnbert.world.world import STEPS, VIEWS, World

VERSION = 1  # of tables without texts; a new one makes old caches unused
THIRDS = 3  # of a view: left, middle and right
DEGREES = 360 / STEPS  # between two views
BESIDE = [  # [view] the views to its left and right, at its elevation
    [view - view % STEPS + (view + step) % STEPS for step in (-1, 1)] for view in range(VIEWS)
]


class Panorama(Protocol):
    @property
    def scan(self) -> str: ...
    @property
    def viewpoint(self) -> str: ...


AnyPanorama = TypeVar("AnyPanorama", bound=Panorama)


@dataclass(frozen=True)
class KeptViews:
    """The views that a bank keeps, numbered from 1; 0 stands for no view."""

    row: Tensor  # [viewpoint, slot], or [viewpoint, 36] of a panorama bank
    number: NDArray[np.int64]  # [viewpoint, 36] by view
    count: int
    settings: tuple[str, ...] = ()  # added to cache keys


def all_views(world: World) -> KeptViews:
    """Every view of every viewpoint, for panorama banks."""
    number = np.arange(1, len(world) * VIEWS + 1).reshape(-1, VIEWS)
    return KeptViews(torch.from_numpy(number).to(world.device), number, number.size, settings=("all views",))


def facing_views(world: World) -> KeptViews:
    """The views that face neighbours, viewpoint by viewpoint."""
    slots = torch.arange(world.slots)
    real = (slots > 0) & (slots < world.choices.cpu()[:, None])
    flat = (torch.arange(len(world))[:, None] * VIEWS + world.view.cpu())[real]
    views, inverse = torch.unique(flat, return_inverse=True)
    row = torch.zeros(len(world), world.slots, dtype=torch.long)
    row[real] = inverse + 1
    number = np.zeros(len(world) * VIEWS, dtype=np.int64)
    number[views.numpy()] = np.arange(1, len(views) + 1)
    return KeptViews(row.to(world.device), number.reshape(-1, VIEWS), len(views))


@dataclass(frozen=True)
class ViewSource(Source):
    """Where channels of views come from: of those that face a neighbour, or with `panorama` of all 36."""

    panorama: bool = False
    in_memory: Any = None  # the features themselves, where the spec says that they are held in memory

    @cached_property
    def views(self) -> KeptViews:
        return all_views(self.world) if self.panorama else facing_views(self.world)

    @property
    def captions_key(self) -> Key:
        return self.key("panorama-captions" if self.panorama else "captions", self.caption_files)

    @cached_property
    def captions(self) -> FeatureBank:
        """The views' own captions, as a codebook, since many views share one."""

        def index() -> Index:
            texts, code = index_captions(self.world, self.folder.captions, self.views)
            return {"vectors": texts}, {"code": code.int().cpu()}

        return self._codebook(self.captions_key, index)

    @property
    def observations_key(self) -> Key:
        return self.key("panorama-observations" if self.panorama else "observations", self.observation_files)

    @cached_property
    def observations(self) -> tuple[Bank, ...]:
        """Observations in the direction of each view: at its own elevation, and the mean of the two others.

        A view looks between two of the eight headings; their embeddings count by how near they are.
        """
        view = torch.arange(VIEWS) if self.panorama else torch.from_numpy(np.argwhere(self.views.number > 0)[:, 1])
        before, share = nearest_headings(DEGREES * (view % STEPS))
        if self.panorama:
            index = partial(_index_panoramas, self.world, self.folder.observations)
            texts = self._codebook(self.observations_key, index)
            heading = torch.stack((before, (before + 1) % HEADINGS), dim=1)
            return tuple(_mixed_bank(texts, place, weight) for place, weight in _by_level(view, heading, share))
        index = partial(_index_directions, self.world, self.folder.observations, self.views)
        tables = self.embedded(self.observations_key, index)
        vectors, code = tables["vectors"], tables["code"].flatten(1)  # [view, heading and level]
        parts = _by_level(view, torch.arange(2).expand(len(view), 2), share)
        # Sorted, since the order of additions is part of the bits that earlier runs have seen.
        mixtures = [mixed(vectors, code.gather(1, place.sort(dim=1).values), weight) for place, weight in parts]
        return tuple(FeatureBank.from_codebook(table.to(self.world.device), self.views.row) for table in mixtures)

    def _codebook(self, key: Key, index: Callable[[], Index]) -> FeatureBank:
        tables = self.embedded(key, index)
        vectors, code = tables["vectors"].float(), tables["code"].long()
        return FeatureBank.from_codebook(vectors.to(self.world.device), code.to(self.world.device))


def open_captions(source: ViewSource, name: str) -> FeatureBank:
    """Captions of the views."""
    return source.captions if source.panorama else source.captions.laid_out(source.views.row)


def open_captions_beside(source: ViewSource, name: str) -> Bank:
    """The mean of the captions of the views to the left and to the right, at the same elevation."""
    half = torch.full((1, 2), 1 / 2)
    if source.panorama:
        return _mixed_bank(source.captions, torch.tensor(BESIDE), half.expand(VIEWS, 2))
    views = source.views

    def index() -> Index:
        codes, code = TextCodes(), np.zeros((views.count, 2), dtype=np.int32)
        for viewpoint, panorama in captions_of(source.world, source.folder.captions):
            for view in np.flatnonzero(views.number[viewpoint]):
                code[views.number[viewpoint, view] - 1] = codes.of(panorama.views[one].text for one in BESIDE[view])
        return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}

    tables = source.embedded(source.key("captions-beside", source.caption_files), index)
    table = mixed(tables["vectors"], tables["code"], half.expand(views.count, 2))
    return FeatureBank.from_codebook(table.to(source.world.device), views.row)


def open_detections(source: ViewSource, name: str) -> FeatureBank:
    """Confidences of the classes that were detected, in the whole view or in each third of it."""
    parts = THIRDS if name == DETECTION_PLACES else 1
    return open_labels(source.world, source.folder.captions, source.views, parts)[0]


def open_observations(source: ViewSource, name: str) -> Bank:
    """Observations at a view's elevation, or at the two others."""
    return source.observations[name != OBSERVATIONS_AHEAD]


def open_features(world: World, path: Path, width: int | None = None, views: KeptViews | None = None) -> FeatureBank:
    """Open the bank of an image feature file, TSV or HDF5; read once, then opened from the cache.

    It keeps `views`, by default those that face a neighbour.
    """
    views = views or facing_views(world)

    def build() -> Built:
        table = np.zeros((views.count + 1, width or feature_width(path)), dtype=np.float32)
        for viewpoint, panorama in placed(world, read_features(path, width), path):
            number = views.number[viewpoint]
            table[number[number > 0]] = panorama.values[number > 0]
        return {"table": torch.from_numpy(table)}, {}

    key = Key.of("features", [path], f"version {VERSION} width {width}", world.fingerprint(), *views.settings)
    return FeatureBank(cached(key, build)[0]["table"].to(world.device), views.row)


def open_labels(
    world: World, folder: Path, views: KeptViews | None = None, parts: int = 1
) -> tuple[FeatureBank, tuple[str, ...]]:
    """Open the bank of detected objects and its classes: for each class, the confidence of its surest detection.

    With several `parts` of a view, all classes for its left part, then for the next: there a confidence counts by the
    share of the detection's width that lies in the part.
    """
    views = views or facing_views(world)

    def build() -> Built:
        labels, surest = set[str](), dict[tuple[int, int, str], float]()  # (row, part, label) -> confidence
        for viewpoint, panorama in captions_of(world, folder):
            labels |= {item.label for view in panorama.views for item in view.detections}
            for view in np.flatnonzero(views.number[viewpoint]):
                for item in panorama.views[view].detections:
                    for part, share in enumerate(shares_across(item.box, parts)):
                        place = int(views.number[viewpoint, view]), part, item.label
                        surest[place] = max(surest.get(place, 0.0), share * item.confidence)
        column = {label: place for place, label in enumerate(sorted(labels))}
        table = np.zeros((views.count + 1, parts * len(column)), dtype=np.float32)
        for (row, part, label), confidence in surest.items():
            table[row, part * len(column) + column[label]] = confidence
        return {"table": torch.from_numpy(table)}, {"labels": list(column)}

    kind = "labels" if parts == 1 else "label-places"
    key = Key.of(kind, scan_files(world, folder), f"version {VERSION}", world.fingerprint(), *views.settings)
    tables, names = cached(key, build)
    return FeatureBank(tables["table"].to(world.device), views.row), tuple(names["labels"])


def shares_across(box: Box, parts: int) -> list[float]:
    """The shares of a box's width that lie in equal parts of a view, from the left; one without width lies in one."""
    if parts == 1:
        return [1.0]
    left, right = (min(max(edge, 0.0), float(IMAGE_WIDTH)) for edge in (box[0], box[2]))
    edges = [IMAGE_WIDTH * part / parts for part in range(parts + 1)]
    if right <= left:
        return [float(first <= left < last or left == last == IMAGE_WIDTH) for first, last in pairwise(edges)]
    return [max(0.0, min(right, last) - max(left, first)) / (right - left) for first, last in pairwise(edges)]


def index_captions(world: World, folder: Path, views: KeptViews) -> tuple[list[str], Tensor]:
    """Index the distinct captions of views: the texts, and the code of each [viewpoint, slot or view], from 1."""
    texts, code = _coded_captions(world, folder, views.number > 0)
    code_of = np.zeros(views.count + 1, dtype=np.int64)
    code_of[views.number] = code
    return texts, torch.from_numpy(code_of)[views.row.cpu()].to(world.device)


def index_captions_of(world: World, folder: Path, viewpoint: Tensor, view: Tensor) -> tuple[list[str], Tensor]:
    """Index the distinct captions of any [pair] of viewpoint and view; codes from 0, on the CPU."""
    wanted = np.zeros((len(world), VIEWS), dtype=np.bool_)
    wanted[viewpoint.numpy(), view.numpy()] = True
    texts, code = _coded_captions(world, folder, wanted, np.any(wanted, axis=1))
    return texts, torch.from_numpy(code)[viewpoint, view] - 1


def _coded_captions(
    world: World, folder: Path, wanted: NDArray[np.bool_], needed: NDArray[np.bool_] | None = None
) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct captions of the wanted ones of [viewpoint, 36] views, and the code of each, from 1; 0 elsewhere."""
    codes, code_of = TextCodes(), np.zeros(wanted.shape, dtype=np.int64)
    for viewpoint, panorama in captions_of(world, folder, needed):
        views = np.flatnonzero(wanted[viewpoint])
        code_of[viewpoint, views] = np.array(codes.of(panorama.views[view].text for view in views), dtype=np.int64) + 1
    return codes.texts, code_of


def _index_directions(world: World, folder: Path, views: KeptViews) -> Index:
    """Index the observations that the kept views need: codes [view, heading, level], from 0."""
    codes, code = TextCodes(), np.zeros((views.count, 2, len(LEVELS)), dtype=np.int32)
    before, share = (part.tolist() for part in nearest_headings(DEGREES * torch.arange(STEPS)))
    for viewpoint, panorama in observations_of(world, folder):
        for view in np.flatnonzero(views.number[viewpoint]):
            first = before[view % STEPS]
            # A heading of weight zero is not embedded.
            second = (first + 1) % HEADINGS if share[view % STEPS] else first
            code[views.number[viewpoint, view] - 1] = [codes.of(panorama.captions[one]) for one in (first, second)]
    return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}


def _index_panoramas(world: World, folder: Path) -> Index:
    """Index all observations: codes [viewpoint, heading and level], from 1; 0 where a viewpoint has none."""
    codes, code = TextCodes(), np.zeros((len(world), HEADINGS * len(LEVELS)), dtype=np.int32)
    for viewpoint, panorama in observations_of(world, folder):
        code[viewpoint] = codes.of(text for levels in panorama.captions for text in levels)
        code[viewpoint] += 1
    return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}


def _by_level(view: Tensor, heading: Tensor, share: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """[view, text] which texts make up a view's own level, then the two others, and their weights.

    Texts are numbered heading by heading, level by level; `heading` [view, 2] are those between which a view looks.
    """
    own = torch.div(view, STEPS, rounding_mode="floor")[:, None]
    of_heading = torch.stack((1 - share, share), dim=1)[:, :, None]
    for level in (own, (own + torch.arange(1, len(LEVELS))) % len(LEVELS)):  # [view, level]
        place = heading[:, :, None] * len(LEVELS) + level[:, None]
        yield place.flatten(1), (of_heading / level.shape[1]).expand(place.shape).flatten(1)


def _mixed_bank(texts: FeatureBank, place: Tensor, weight: Tensor) -> MixedBank:
    device = texts.table.device
    return MixedBank(texts.table, texts.row, place.to(device), weight.to(device))


def nearest_headings(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """The described heading at or before a direction, and the share of the next one in it, from 0 to 1."""
    place = degrees * (HEADINGS / 360)
    before = place.floor()
    return before.long() % HEADINGS, place - before


def captions_of(
    world: World, folder: Path, needed: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, PanoramaCaptions]]:
    """The captions of each viewpoint, by its number, one scan in memory at a time."""
    panoramas = (one for path in track(scan_files(world, folder), "captions") for one in read_captions(path))
    return placed(world, panoramas, folder, needed)


def observations_of(
    world: World, folder: Path, needed: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, PanoramaObservations]]:
    """The observations of each viewpoint, by its number, one scan in memory at a time."""
    files = track(scan_files(world, folder), "observations")
    return placed(world, (one for path in files for one in read_observations(path)), folder, needed)


def placed(
    world: World, panoramas: Iterable[AnyPanorama], path: Path, needed: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, AnyPanorama]]:
    """Each panorama with its viewpoint's number. Those of left-out viewpoints are skipped; a missing one is a fault.

    `needed` [viewpoint] says which must have one; by default those with a neighbour and so a view that faces it.
    """
    seen = (world.choices == 1).cpu().numpy() if needed is None else ~needed
    for panorama in panoramas:
        viewpoint = world.numbers.get((panorama.scan, panorama.viewpoint))
        if viewpoint is not None:
            seen[viewpoint] = True
            yield viewpoint, panorama
    faults, scan_of = Faults(path), world.scan_of.tolist()
    for missing in np.flatnonzero(~seen):
        place = f"scan {world.scans[scan_of[missing]]} viewpoint {world.viewpoints[missing]}"
        faults.add(place, "is missing", "use files made for these graphs")
    faults.raise_if_any()
