"""Objects in the world: those that each viewpoint shows, with view, box and features, and what agents see of them.

An object is shown in one view, that in which its box is largest; one that no view shows cannot be seen.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import embedding

from vlnbert.errors import Faults, UsageError, setting
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
from vlnbert.world.world import STEPS, VIEWS, World, angle_feature, view_elevation, view_heading

VERSION = 1  # of the tables below; a new one makes old caches unused
TABLES = ("name", "viewpoint", "view", "position", "first", "count")
NONE = -1  # the place of an object that is not shown
AREA = 4  # the column of `position` in which the area stands
PADDING = VIEWS  # the view of padding
STRIDE = 4  # trimmed widths are multiples of it: more batches have the same shape

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
    left_out: int = 0  # objects of the files that these tables lack

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def widest(self) -> int:
        """The most objects that a viewpoint shows."""
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
        """A table of some rows, given in ascending order; the others count as left out."""
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
        # The place by area within each viewpoint.
        rank = torch.arange(len(self)) - self.first[self.viewpoint]
        return order[rank < max_objects].sort().values

    def fingerprint(self) -> str:
        """A hash of the objects in the rows."""
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
    """The objects that the viewpoints of a world show; faults of all files in `folder` are reported together."""
    shown, faults = [list[BoxedObject]() for _ in range(len(world))], Faults(folder)
    with faults.including():
        for place in boxes:
            number = world.numbers.get((place.scan, place.viewpoint))
            if number is not None:
                shown[number] = sorted((item for item in place.objects if item.views), key=_order)
            elif place.scan in world.scans:
                # A world of some scans leaves the others' boxes out.
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
    """[row] every view that shows an object, and its box there; read from the files, not cached."""
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
    """Sort key of objects: ids that are numbers first, by value, then the others, as text."""
    number = item.id.isascii() and item.id.isdecimal()
    digits = item.id.lstrip("0") if number else ""
    return not number, len(digits), digits, item.id


def _seen(item: BoxedObject) -> tuple[int, tuple[float, ...]]:
    """The view in which an object's box is largest, the earliest of equals, and the box there."""
    views = zip(item.views, map(_shares, item.boxes), strict=True)
    return max(views, key=lambda seen: (seen[1][AREA], -seen[0]))


def _shares(box: Box) -> tuple[float, ...]:
    """Left, top, right, bottom and area of what lies in the view."""
    x, y, width, height = box
    left, right = (min(max(edge, 0), IMAGE_WIDTH) for edge in (x, x + max(width, 0)))
    top, bottom = (min(max(edge, 0), IMAGE_HEIGHT) for edge in (y, y + max(height, 0)))
    # Computed in pixels, so that equal boxes have equal areas.
    area = (right - left) * (bottom - top) / (IMAGE_WIDTH * IMAGE_HEIGHT)
    return left / IMAGE_WIDTH, top / IMAGE_HEIGHT, right / IMAGE_WIDTH, bottom / IMAGE_HEIGHT, area


@dataclass(frozen=True)
class VisibleObjects:
    """The objects that each agent sees at its viewpoint, padded with zeros.

    - `features` [row, object, width]: their visual features.
    - `position` [row, object, 5]: left, top, right, bottom and area of its box, as shares of the view.
    - `direction` [row, object, 4]: of the view that shows it, as for slots.
    - `present` [row, object] bool: false for padding.
    """

    features: Tensor
    position: Tensor
    direction: Tensor
    present: Tensor


@dataclass(frozen=True)
class ObjectBank:
    """The objects of every viewpoint with a feature each. Row 0 of the tables is padding.

    On the CPU, `look` is as wide as the fullest viewpoint of the batch needs. Elsewhere, finding that out would wait
    for the device, so it is as wide as the fullest of all needs; with `fixed` it is so everywhere.
    """

    object_table: ObjectTable  # whose rows these are, on the CPU: ids, names and the way back from a choice
    widest: int  # objects that the fullest viewpoint shows, at least 1
    first: Tensor  # [viewpoint]
    count: Tensor  # [viewpoint]
    view: Tensor  # [1 + row]
    position: Tensor  # [1 + row, 5]
    row: Tensor  # [1 + row] place in `table`
    table: Tensor  # [1 + code, width]
    compass: Tensor  # [view x heading step, 4] directions of views from each of the 12 headings an agent may face
    fixed: bool = False

    @classmethod
    def from_codebook(
        cls, objects: ObjectTable, vectors: Tensor, code: Tensor | None = None, max_objects: int | None = None
    ) -> "ObjectBank":
        """A bank from [code, width] vectors and the code of each row of `objects`; without codes, one a row.

        Where a viewpoint shows more than `max_objects` objects, those with the largest boxes are kept:
        `object_table.left_out` of the bank counts the others, and whatever else was left out before.
        """
        code = torch.arange(len(objects)) if code is None else code.cpu()
        if len(code) != len(objects) or (len(code) and not 0 <= int(code.min()) <= int(code.max()) < len(vectors)):
            raise UsageError(f"{len(vectors)} vectors and {len(code)} codes do not serve {len(objects)} objects")
        if max_objects is not None and max_objects < 1:
            raise UsageError(f"{setting('features.max_objects', max_objects)} would leave none; choose 1 or more")
        if max_objects is not None:
            rows = objects.largest(max_objects)
            objects, code = objects.select(rows), code[rows]
        seen, step = torch.arange(VIEWS)[:, None], torch.arange(STEPS)
        heading = view_heading(seen) - view_heading(step)
        compass = angle_feature(heading, view_elevation(seen).expand_as(heading), width=4)
        bank = cls(
            object_table=objects,
            widest=max(1, objects.widest),
            first=objects.first + 1,
            count=objects.count,
            view=_padded(objects.view, PADDING),
            position=_padded(objects.position),
            row=_padded(code + 1),
            table=_padded(vectors),
            compass=torch.cat((compass, compass.new_zeros(1, STEPS, 4))).flatten(0, 1),
        )
        return bank.to(vectors.device)

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def look(self, viewpoint: Tensor, view: Tensor) -> VisibleObjects:
        """The objects that agents see at [agent] viewpoints, facing [agent] views."""
        count = self.count.index_select(0, viewpoint)
        width = self.widest
        if not self.fixed and count.device.type == "cpu":
            fullest = max([1, *map(int, count.tolist())])
            width = min(width, -(-fullest // STRIDE) * STRIDE)
        place = torch.arange(width, device=count.device)
        present = place < count[:, None]
        row = (self.first.index_select(0, viewpoint)[:, None] + place).masked_fill(~present, 0)
        seen_from = self.view[row] * STEPS + (view % STEPS)[:, None]
        return VisibleObjects(
            features=embedding(self.row[row], self.table),
            position=embedding(row, self.position),
            direction=embedding(seen_from, self.compass),
            present=present,
        )

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "ObjectBank":
        """The same bank on another device, its features in another precision."""
        names = ("first", "count", "view", "position", "row", "compass")
        moved = {name: getattr(self, name).to(device) for name in names}
        return replace(self, **moved, table=self.table.to(device, dtype))


def _padded(table: Tensor, padding: int = 0) -> Tensor:
    return torch.cat((table.new_full((1, *table.shape[1:]), padding), table))
