"""What an agent sees of the objects at its viewpoint: features, where in a view each is, and where that view looks."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import embedding

from vlnbert.errors import UsageError, setting
from vlnbert.world.geometry import STEPS, VIEWS, angle_feature, view_elevation, view_heading
from vlnbert.world.objects import ObjectTable

PADDING = VIEWS  # the view that no object is in
STRIDE = 4  # trimmed widths are multiples of it: more batches have the same shape


@dataclass(frozen=True)
class VisibleObjects:
    """The objects that each agent sees at its viewpoint, padded with zeros.

    - `features` [row, object, width]: what each looks like.
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
    """The objects of every viewpoint with a feature each. Row 0 of the tables pads.

    On the CPU, `look` is as wide as the fullest viewpoint at hand needs. Elsewhere, to know that would be to wait for
    the device, so it is as wide as the fullest of all needs; `fixed` makes it so everywhere.
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
        bank = cls(
            object_table=objects,
            widest=max(1, objects.widest),
            first=objects.first + 1,
            count=objects.count,
            view=_padded(objects.view, PADDING),
            position=_padded(objects.position),
            row=_padded(code + 1),
            table=_padded(vectors),
            compass=_compass(),
        )
        return bank.to(vectors.device)

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def look(self, viewpoint: Tensor, view: Tensor) -> VisibleObjects:
        """What agents at [agent] viewpoints see of the objects there when they face [agent] views."""
        count = self.count.index_select(0, viewpoint)
        place = torch.arange(self._room(count), device=count.device)
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

    def _room(self, count: Tensor) -> int:
        if self.fixed or count.device.type != "cpu":
            return self.widest
        fullest = max([1, *map(int, count.tolist())])
        return min(self.widest, -(-fullest // STRIDE) * STRIDE)


def _padded(table: Tensor, padding: int = 0) -> Tensor:
    return torch.cat((table.new_full((1, *table.shape[1:]), padding), table))


def _compass() -> Tensor:
    view, step = torch.arange(VIEWS)[:, None], torch.arange(STEPS)
    heading = view_heading(view) - view_heading(step)
    direction = angle_feature(heading, view_elevation(view).expand_as(heading), width=4)
    return torch.cat((direction, direction.new_zeros(1, STEPS, 4))).flatten(0, 1)
