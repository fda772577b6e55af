"""Feature banks from files: image features, detected objects and captions of the views that face a neighbour.

Most agents look at those views alone, one in ten, so only those are kept; panoramas have all views. What shows objects
is asked for by view.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlnbert.errors import Faults
from vlnbert.progress import track
from vlnbert.sources.annotations import IMAGE_WIDTH, Box, PanoramaCaptions, read_captions
from vlnbert.sources.features import feature_width, read_features
from vlnbert.world.banks import FeatureBank
from vlnbert.world.cache import Built, Key, cached
from vlnbert.world.world import VIEWS, World

VERSION = 1  # of the tables below; a new one makes old caches unused
THIRDS = 3  # of a view: left, middle and right


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
    settings: tuple[str, ...] = ()  # of the cache keys of what is made of them


def all_views(world: World) -> KeptViews:
    """Every view of every viewpoint, for panorama banks."""
    number = np.arange(1, len(world) * VIEWS + 1).reshape(-1, VIEWS)
    return KeptViews(torch.from_numpy(number).to(world.device), number, number.size, settings=("all views",))


def facing_views(world: World) -> KeptViews:
    """Number the views that face neighbours, viewpoint by viewpoint."""
    slots = torch.arange(world.slots)
    real = (slots > 0) & (slots < world.choices.cpu()[:, None])
    flat = (torch.arange(len(world))[:, None] * VIEWS + world.view.cpu())[real]
    views, inverse = torch.unique(flat, return_inverse=True)
    row = torch.zeros(len(world), world.slots, dtype=torch.long)
    row[real] = inverse + 1
    number = np.zeros(len(world) * VIEWS, dtype=np.int64)
    number[views.numpy()] = np.arange(1, len(views) + 1)
    return KeptViews(row.to(world.device), number.reshape(-1, VIEWS), len(views))


def open_features(world: World, path: Path, width: int | None = None, views: KeptViews | None = None) -> FeatureBank:
    """The bank of an image feature file, TSV or HDF5; read once, then opened from the cache.

    It keeps `views`, by default those that face a neighbour.
    """
    views = views or facing_views(world)
    key = Key.of("features", [path], f"version {VERSION} width {width}", world.fingerprint(), *views.settings)
    tensors, _ = cached(key, lambda: ({"table": _read_table(world, views, path, width)}, {}))
    return FeatureBank(tensors["table"].to(world.device), views.row)


def open_labels(world: World, folder: Path, views: KeptViews | None = None) -> tuple[FeatureBank, tuple[str, ...]]:
    """The bank of detected objects and its classes: for each class, the confidence of its surest detection."""
    return _open_labels(world, folder, "labels", parts=1, views=views)


def open_label_places(
    world: World, folder: Path, views: KeptViews | None = None
) -> tuple[FeatureBank, tuple[str, ...]]:
    """The same by where in the view: all classes for its left third, then for its middle and for its right one.

    A confidence counts by the share of the detection's width that lies in the third.
    """
    return _open_labels(world, folder, "label-places", parts=THIRDS, views=views)


def _open_labels(
    world: World, folder: Path, kind: str, *, parts: int, views: KeptViews | None
) -> tuple[FeatureBank, tuple[str, ...]]:
    views = views or facing_views(world)
    key = Key.of(kind, caption_files(world, folder), f"version {VERSION}", world.fingerprint(), *views.settings)
    tensors, names = cached(key, lambda: _read_labels(world, views, folder, parts))
    return FeatureBank(tensors["table"].to(world.device), views.row), tuple(names["labels"])


def index_captions(world: World, folder: Path) -> tuple[list[str], Tensor]:
    """The distinct captions of facing views, and the code of each [viewpoint, slot], from 1: a codebook's index."""
    views = facing_views(world)
    texts, code = _coded_captions(world, folder, views.number > 0)
    code_of = np.zeros(views.count + 1, dtype=np.int64)
    code_of[views.number] = code
    return texts, torch.from_numpy(code_of)[views.row.cpu()].to(world.device)


def index_captions_of(world: World, folder: Path, viewpoint: Tensor, view: Tensor) -> tuple[list[str], Tensor]:
    """The distinct captions of any [pair] of viewpoint and view, and the code of each pair, from 0; on the CPU."""
    wanted = np.zeros((len(world), VIEWS), dtype=np.bool_)
    wanted[viewpoint.numpy(), view.numpy()] = True
    texts, code = _coded_captions(world, folder, wanted)
    return texts, torch.from_numpy(code)[viewpoint, view] - 1


def _coded_captions(world: World, folder: Path, wanted: NDArray[np.bool_]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct captions of the wanted ones of [viewpoint, 36] views, and the code of each, from 1; 0 elsewhere."""
    codes, code_of = dict[str, int](), np.zeros(wanted.shape, dtype=np.int64)
    needed = np.any(wanted, axis=1)
    for viewpoint, panorama in placed(world, read_captions_of(world, folder), folder, needed):
        for view in np.flatnonzero(wanted[viewpoint]):
            code_of[viewpoint, view] = codes.setdefault(panorama.views[view].text, len(codes) + 1)
    return list(codes), code_of


def placed(
    world: World, panoramas: Iterable[AnyPanorama], path: Path, needed: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, AnyPanorama]]:
    """Each panorama with its viewpoint's number. Those of left-out viewpoints are skipped; a missing one is a fault.

    Of the viewpoints, `needed` says who must have one; by default, who has a neighbour and so a view that faces it.
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


def _read_table(world: World, views: KeptViews, path: Path, width: int | None) -> Tensor:
    table = np.zeros((views.count + 1, width or feature_width(path)), dtype=np.float32)
    for viewpoint, panorama in placed(world, read_features(path, width), path):
        number = views.number[viewpoint]
        table[number[number > 0]] = panorama.values[number > 0]
    return torch.from_numpy(table)


def _read_labels(world: World, views: KeptViews, folder: Path, parts: int) -> Built:
    labels, found = set[str](), dict[tuple[int, int, str], float]()  # (row, part, label) -> confidence
    for viewpoint, panorama in placed(world, read_captions_of(world, folder), folder):
        labels |= {item.label for view in panorama.views for item in view.detections}
        for view in np.flatnonzero(views.number[viewpoint]):
            for item in panorama.views[view].detections:
                for part, share in enumerate(shares_across(item.box, parts)):
                    place = int(views.number[viewpoint, view]), part, item.label
                    found[place] = max(found.get(place, 0.0), share * item.confidence)
    column = {label: place for place, label in enumerate(sorted(labels))}
    table = np.zeros((views.count + 1, parts * len(column)), dtype=np.float32)
    for (row, part, label), confidence in found.items():
        table[row, part * len(column) + column[label]] = confidence
    return {"table": torch.from_numpy(table)}, {"labels": list(column)}


def shares_across(box: Box, parts: int) -> list[float]:
    """The shares of a box's width that lie in equal parts of a view, from the left; one without width lies in one."""
    if parts == 1:
        return [1.0]
    left, right = (min(max(edge, 0.0), float(IMAGE_WIDTH)) for edge in (box[0], box[2]))
    edges = [IMAGE_WIDTH * part / parts for part in range(parts + 1)]
    if right <= left:
        return [float(first <= left < last or left == last == IMAGE_WIDTH) for first, last in pairwise(edges)]
    return [max(0.0, min(right, last) - max(left, first)) / (right - left) for first, last in pairwise(edges)]


def read_captions_of(world: World, folder: Path) -> Iterator[PanoramaCaptions]:
    """The captions of a world's scans, one scan in memory at a time."""
    for path in track(caption_files(world, folder), "captions"):
        yield from read_captions(path)


def caption_files(world: World, folder: Path) -> list[Path]:
    """The caption file of each of a world's scans."""
    return [folder / f"{scan}.json" for scan in world.scans]
