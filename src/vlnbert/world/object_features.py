"""Object banks from feature files: each object that a viewpoint shows, matched by scan, viewpoint and id."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlnbert.errors import DataError, Faults
from vlnbert.sources.features import ObjectFeatures, read_object_features
from vlnbert.world.cache import Built, Key, cached
from vlnbert.world.objects import NONE, ObjectBank, ObjectTable
from vlnbert.world.world import World

VERSION = 1  # of the tables below; a new one makes old caches unused
SHOWN = 5  # viewpoints that a line names
ONE_SET = "use the object features, boxes and graphs of one data set"


@dataclass(frozen=True)
class Fit:
    """How well a feature file fits the boxes. Objects without a feature are left out of the bank."""

    matched: int  # objects that have both
    featureless: int  # objects that a viewpoint shows and the file does not have there
    boxless: int  # features of objects that no view shows there
    bare: tuple[str, ...]  # viewpoints, as <scan>_<viewpoint>, that show objects none of which has a feature

    def lines(self) -> list[str]:
        """What does not fit, in words, a line for each kind that occurs."""
        names = ", ".join(self.bare[:SHOWN]) + (", ..." if len(self.bare) > SHOWN else "")
        told = {
            f"{self.featureless:,} objects have a box and no feature; they are left out": self.featureless,
            f"{self.boxless:,} features are of objects that no view shows there": self.boxless,
            f"{len(self.bare):,} viewpoints show objects none of which has a feature: {names}": self.bare,
        }
        return [line for line, occurs in told.items() if occurs]


def open_object_features(
    world: World, objects: ObjectTable, path: Path, width: int | None = None, max_objects: int | None = None
) -> tuple[ObjectBank, Fit]:
    """The bank of an object feature file, and how well it fits; read once, then opened from the cache.

    Where a viewpoint shows more than `max_objects` objects, those with the largest boxes are kept.
    """
    key = Key.of(
        "object-features", [path], f"version {VERSION} width {width}", world.fingerprint(), objects.fingerprint()
    )
    tensors, _ = cached(key, lambda: read_feature_table(world, objects, path, width))
    rows = tensors["rows"]
    bank = ObjectBank.from_codebook(objects.select(rows), tensors["table"], max_objects=max_objects)
    return bank.to(world.device), _fit(world, objects, rows, int(tensors["boxless"]))


def read_feature_table(world: World, objects: ObjectTable, path: Path, width: int | None = None) -> Built:
    """`rows` of objects that have a feature, the `table` of those features, and how many others there are."""
    found, boxless = dict[int, NDArray[np.float32]](), 0
    first = objects.first.tolist()
    for viewpoint, place in placed_objects(world, read_object_features(path, width), path):
        for id, values in zip(place.ids, place.values, strict=True):
            index = objects.index(viewpoint, id)
            boxless += index == NONE
            if index != NONE:
                found[first[viewpoint] + index] = values
    if not found:
        raise DataError(path, "has a feature of none of the objects that the boxes show", ONE_SET)
    rows = sorted(found)
    table = torch.from_numpy(np.stack([found[row] for row in rows]))
    return {"rows": torch.tensor(rows), "table": table, "boxless": torch.tensor(boxless)}, {}


def placed_objects(world: World, places: Iterable[ObjectFeatures], path: Path) -> Iterator[tuple[int, ObjectFeatures]]:
    """Each with its viewpoint's number; those of left-out scans are skipped, an unknown viewpoint is a fault."""
    faults = Faults(path)
    with faults.including():
        for place in places:
            number = world.numbers.get((place.scan, place.viewpoint))
            if number is not None:
                yield number, place
            elif place.scan in world.scans:
                faults.add(f"key {place.scan}_{place.viewpoint}", "its viewpoint is not in the graph", ONE_SET)
    faults.raise_if_any()


def find_fit(world: World, objects: ObjectTable, featured: Iterable[tuple[int, str]]) -> Fit:
    """How well features fit that are of these objects, by viewpoint and id."""
    places = [(viewpoint, objects.index(viewpoint, id)) for viewpoint, id in featured]
    shown = [int(objects.first[viewpoint]) + index for viewpoint, index in places if index != NONE]
    return _fit(world, objects, torch.tensor(sorted(shown), dtype=torch.long), len(places) - len(shown))


def _fit(world: World, objects: ObjectTable, rows: Tensor, boxless: int) -> Fit:
    """Say what is missing where only `rows` of the objects have features."""
    matched = torch.bincount(objects.viewpoint[rows], minlength=len(world))
    bare = ((objects.count > 0) & (matched == 0)).nonzero().flatten().tolist()
    scan_of = world.scan_of.tolist()
    names = tuple(f"{world.scans[scan_of[place]]}_{world.viewpoints[place]}" for place in bare)
    return Fit(len(rows), len(objects) - len(rows), boxless, names)
