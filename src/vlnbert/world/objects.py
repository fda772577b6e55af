"""Objects in the world: which ones each viewpoint shows, in which view and where in it.

An object is shown in one view, that in which its box is largest; one that no view shows is not there to be seen.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from vlnbert.errors import Faults
from vlnbert.sources.annotations import (
    IMAGE_HEIGHT,
    IMAGE_WIDTH,
    Box,
    BoxedObject,
    ViewpointObjects,
    box_files,
    read_box_folder,
)
from vlnbert.world.cache import Built, Key, cached
from vlnbert.world.world import World

VERSION = 1  # of the tables below; a new one makes old caches unused
TABLES = ("name", "viewpoint", "view", "position", "first", "count")
NONE = -1  # the place of an object that is not shown
AREA = 4  # the column of `position` in which the area stands

Boxes = list[tuple[int, tuple[float, ...]]]  # views, each with left, top, right and bottom as shares of it
Sightings = dict[tuple[str, str], list[int]]  # (scan, object id) -> viewpoints


@dataclass(frozen=True)
class ObjectTable:
    """Flat tables with a row for every object of every viewpoint, on the CPU.

    Those of a viewpoint are `count` rows from `first` on, ordered by id: as numbers, then as text.
    """

    ids: tuple[str, ...]  # [row]
    names: tuple[str, ...]  # the distinct ones
    name: Tensor  # [row] place in `names`
    viewpoint: Tensor  # [row]
    view: Tensor  # [row] the one of 36 that shows it
    position: Tensor  # [row, 5] left, top, right, bottom and area of its box, as shares of the view
    first: Tensor  # [viewpoint]
    count: Tensor  # [viewpoint]
    left_out: int = 0  # rows that the files have and these tables do not

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def widest(self) -> int:
        """How many objects the fullest viewpoint shows."""
        return max(self.count.tolist(), default=0)

    def index(self, viewpoint: int, id: str) -> int:
        """The place of an object among those of a viewpoint, NONE where it is not shown."""
        return self._places.get((viewpoint, id), NONE)

    def ids_at(self, viewpoint: Tensor, index: Tensor) -> list[str | None]:
        """[agent] the ids at these places of these viewpoints; None for NONE and beyond the last: "no object"."""
        first, count = self.first.tolist(), self.count.tolist()
        places = zip(viewpoint.tolist(), index.tolist(), strict=True)
        return [self.ids[first[where] + place] if 0 <= place < count[where] else None for where, place in places]

    def name_of(self, viewpoint: int, id: str) -> str:
        """The name of an object that a viewpoint shows."""
        return self.names[int(self.name[int(self.first[viewpoint]) + self.index(viewpoint, id)])]

    def select(self, rows: Tensor) -> "ObjectTable":
        """Some of the rows, given in ascending order; the others count as left out."""
        count = torch.bincount(self.viewpoint[rows], minlength=len(self.count))
        return replace(
            self,
            ids=tuple(self.ids[row] for row in rows.tolist()),
            **{name: getattr(self, name)[rows] for name in ("name", "viewpoint", "view", "position")},
            first=count.cumsum(0) - count,
            count=count,
            left_out=self.left_out + len(self) - len(rows),
        )

    def largest(self, max_objects: int) -> Tensor:
        """The rows that remain when a viewpoint shows at most `max_objects`: the largest boxes, the first of equals."""
        by_area = self.position[:, AREA].argsort(descending=True, stable=True)
        order = by_area[self.viewpoint[by_area].argsort(stable=True)]
        rank = torch.arange(len(self)) - self.first[self.viewpoint]  # of the ordered ones, within their viewpoint
        return order[rank < max_objects].sort().values

    def fingerprint(self) -> str:
        """Tells tables apart whose rows stand for other objects."""
        digest = hashlib.blake2b(json.dumps(self.ids).encode(), digest_size=16)
        digest.update(self.count.numpy().data)
        return digest.hexdigest()

    @cached_property
    def _places(self) -> dict[tuple[int, str], int]:
        places = (torch.arange(len(self)) - self.first[self.viewpoint]).tolist()
        return dict(zip(zip(self.viewpoint.tolist(), self.ids, strict=True), places, strict=True))


def open_object_table(world: World, folder: Path) -> ObjectTable:
    """The objects of a BBox folder; its files are read once, then opened from the cache."""
    key = Key.of("objects", box_files(folder), f"version {VERSION}", world.fingerprint())

    def build() -> Built:
        built = build_object_table(world, read_box_folder(folder), folder)
        return {name: getattr(built, name) for name in TABLES}, {"ids": list(built.ids), "names": list(built.names)}

    tensors, lists = cached(key, build)
    name, viewpoint, view, position, first, count = (tensors[table] for table in TABLES)
    return ObjectTable(tuple(lists["ids"]), tuple(lists["names"]), name, viewpoint, view, position, first, count)


def build_object_table(world: World, boxes: Iterable[ViewpointObjects], folder: Path) -> ObjectTable:
    """What the viewpoints of a world show. `folder` is where the boxes lie: its files' faults are reported together."""
    shown, faults = [list[BoxedObject]() for _ in range(len(world))], Faults(folder)
    with faults.including():
        for place in boxes:
            number = world.numbers.get((place.scan, place.viewpoint))
            if number is not None:
                shown[number] = sorted((item for item in place.objects if item.views), key=_order)
            elif place.scan in world.scans:  # a world of some scans has no use for the others' boxes
                remedy = "use the boxes and graphs of one data set"
                faults.add("", "its viewpoint is not in the graph", remedy, place.path)
    faults.raise_if_any()
    items, seen = [item for items in shown for item in items], [_seen(item) for items in shown for item in items]
    codes = {name: code for code, name in enumerate(sorted({item.name for item in items}))}
    count = torch.tensor([len(items) for items in shown], dtype=torch.long)
    return ObjectTable(
        ids=tuple(item.id for item in items),
        names=tuple(codes),
        name=torch.tensor([codes[item.name] for item in items], dtype=torch.long),
        viewpoint=torch.arange(len(world)).repeat_interleave(count),
        view=torch.tensor([view for view, _ in seen], dtype=torch.long),
        position=torch.tensor([position for _, position in seen], dtype=torch.float32).view(-1, AREA + 1),
        first=count.cumsum(0) - count,
        count=count,
    )


def boxes_by_view(world: World, objects: ObjectTable, folder: Path) -> list[Boxes]:
    """[row] every view that shows an object, and its box there; read from the files, as few need it."""
    shown: list[Boxes] = [[] for _ in range(len(objects))]
    for place in read_box_folder(folder):
        viewpoint = world.numbers.get((place.scan, place.viewpoint), NONE)
        for item in place.objects if viewpoint != NONE else ():
            if (index := objects.index(viewpoint, item.id)) != NONE:
                boxes = (_shares(box)[:AREA] for box in item.boxes)
                shown[int(objects.first[viewpoint]) + index] = list(zip(item.views, boxes, strict=True))
    return shown


def find_sightings(world: World, objects: ObjectTable) -> Sightings:
    """The viewpoints that show each object."""
    sightings, scan_of = Sightings(), world.scan_of.tolist()
    for viewpoint, id in zip(objects.viewpoint.tolist(), objects.ids, strict=True):
        sightings.setdefault((world.scans[scan_of[viewpoint]], id), []).append(viewpoint)
    return sightings


def _order(item: BoxedObject) -> tuple[bool, int, str, str]:
    """Ids that are numbers first, by their value, however long; then the others, as text."""
    number = item.id.isascii() and item.id.isdecimal()
    digits = item.id.lstrip("0") if number else ""
    return not number, len(digits), digits, item.id


def _seen(item: BoxedObject) -> tuple[int, tuple[float, ...]]:
    """The view in which an object's box is largest, the earliest of equals, and the box there."""
    found = zip(item.views, map(_shares, item.boxes), strict=True)
    return max(found, key=lambda seen: (seen[1][AREA], -seen[0]))


def _shares(box: Box) -> tuple[float, ...]:
    """Left, top, right, bottom and area of what lies in the view."""
    x, y, width, height = box
    left, right = (min(max(edge, 0), IMAGE_WIDTH) for edge in (x, x + max(width, 0)))
    top, bottom = (min(max(edge, 0), IMAGE_HEIGHT) for edge in (y, y + max(height, 0)))
    area = (right - left) * (bottom - top) / (IMAGE_WIDTH * IMAGE_HEIGHT)  # of pixels: equal boxes have equal areas
    return left / IMAGE_WIDTH, top / IMAGE_HEIGHT, right / IMAGE_WIDTH, bottom / IMAGE_HEIGHT, area
