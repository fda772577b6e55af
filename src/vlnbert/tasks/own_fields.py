"""Fields of one's own on episodes: numbers become tensors, everything else stays as it is, on the host."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from vlnbert.errors import Faults, UnknownNameError, UsageError
from vlnbert.sources.instructions import EpisodeRecord

Value = TypeVar("Value")


class Extra(dict[str, Any]):
    """Fields of one's own by name: a tensor [row, ...], or a sequence with a value for each row."""

    def __missing__(self, name: str) -> Any:
        raise UnknownNameError("field of one's own", name, self, "these episodes")

    def tensors(self) -> dict[str, Tensor]:
        """Those that are tensors."""
        return {name: value for name, value in self.items() if isinstance(value, Tensor)}

    def each(self, change: Callable[[Tensor], Tensor]) -> "Extra":
        """The same with each tensor changed."""
        return Extra(self | {name: change(value) for name, value in self.tensors().items()})

    def rows(self, index: Tensor) -> "Extra":
        """Those of some rows; values that are no tensors are looked up when they are asked for."""
        return Extra(
            {
                name: value[index.to(value.device)] if isinstance(value, Tensor) else Picked(value, index)
                for name, value in self.items()
            }
        )


class Picked(Sequence[Value], Generic[Value]):
    """Some of a sequence's values, by an index [row] on any device that is read only when a value is asked for.

    To ask waits for the device, which a recorded graph cannot do: it would replay the values of its recording.
    """

    def __init__(self, values: Sequence[Value], index: Tensor) -> None:
        self.values, self.rows = values, index
        self._found: tuple[Value, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        return self._picked()[place]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._picked())

    def __repr__(self) -> str:
        return f"Picked({len(self)} of {len(self.values):,})"

    def _picked(self) -> tuple[Value, ...]:
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            problem = "ids, texts and other values of episodes lie on the host, where a recorded update cannot read"
            raise UsageError(f"{problem}; make them numbers in `extra`, which are tensors, or train without graphs")
        if self._found is None:
            self._found = tuple(self.values[row] for row in self.rows.tolist())
        return self._found


def stack_extra(records: Sequence[EpisodeRecord], faults: Faults, skip: Collection[str] = ()) -> Extra:
    """The `extra` of records by name: numbers, and lists of as many numbers, as tensors; all else as a tuple."""
    names = [name for name in (records[0].extra if records else ()) if name not in skip]
    for record in records:
        lacking = [name for name in names if name not in record.extra]
        added = [name for name in record.extra if name not in names and name not in skip]
        if lacking or added:
            problem = f"{'lacks' if lacking else 'has'} the field '{(lacking or added)[0]}', unlike {records[0].id}"
            faults.add(f"instruction {record.id}", problem, "give every record of the split the same fields in `extra`")
    if faults.found:
        return Extra()
    columns = {name: [record.extra[name] for record in records] for name in names}
    return Extra({name: _stacked(name, column, records, faults) for name, column in columns.items()})


def _stacked(name: str, column: Sequence[Any], records: Sequence[EpisodeRecord], faults: Faults) -> Any:
    if (whole := _numbers(column)) is not None:
        return whole
    each = [_numbers(value) for value in column]
    for record, numbers in zip(records, each, strict=True):
        if numbers is None or each[0] is None:
            return tuple(column)
        if numbers.shape != each[0].shape:
            shapes = f"{list(numbers.shape)}, where {records[0].id} has {list(each[0].shape)}"
            problem = f"the field '{name}' has the shape {shapes}"
            faults.add(f"instruction {record.id}", problem, "pad it, or lay it out in the task's bind_extra")
            break
    return ()


def _numbers(value: Any) -> Tensor | None:
    """Numbers, true and false, in lists of equal lengths, as a tensor; None for anything else."""
    try:
        return torch.tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def check_bound(task: str, given: object, count: int) -> Mapping[str, Any]:
    """What a task's `bind_extra` gave, if it has a value for each of `count` episodes."""
    expected = f"give a dict of tensors [{count}, ...] or sequences of {count}, by name"
    if not isinstance(given, Mapping):
        raise UsageError(f"bind_extra of the task {task} gave a {type(given).__name__}; {expected}")
    for name, value in given.items():
        sized = isinstance(value, Sequence) or (isinstance(value, Tensor) and value.dim() > 0)
        if not sized or len(value) != count:
            size = f" of {len(value):,}" if sized else ""
            raise UsageError(
                f"bind_extra of the task {task} gave '{name}' as a {type(value).__name__}{size}; {expected}"
            )
    return given
