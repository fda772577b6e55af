"""Fields of one's own, from records to episodes: numbers become tensors, everything else stays as it is."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import Faults, UsageError
from vlnbert.sources.instructions import EpisodeRecord


def stack_extra(records: Sequence[EpisodeRecord], faults: Faults, skip: Collection[str] = ()) -> dict[str, Any]:
    """The `extra` of records by name: numbers, and lists of as many numbers, as tensors; all else as a tuple."""
    names = [name for name in (records[0].extra if records else ()) if name not in skip]
    for record in records:
        lacking = [name for name in names if name not in record.extra]
        added = [name for name in record.extra if name not in names and name not in skip]
        if lacking or added:
            problem = f"{'lacks' if lacking else 'has'} the field '{(lacking or added)[0]}', unlike {records[0].id}"
            faults.add(f"instruction {record.id}", problem, "give every record of the split the same fields in `extra`")
    if faults.found:
        return {}
    columns = {name: [record.extra[name] for record in records] for name in names}
    return {name: _stacked(name, column, records, faults) for name, column in columns.items()}


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
