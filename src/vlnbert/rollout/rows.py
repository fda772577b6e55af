"""Some of the rows of a batch: those that still walk.

On the CPU, who has stopped need not be computed any more. On a GPU, to ask who has is to wait for it.
"""

from typing import TypeVar

from torch import Tensor

from vlnbert.environment.environment import State

Value = TypeVar("Value", Tensor, State)


def walking(state: State, rows: Tensor | None) -> Tensor | None:
    """The places, among `rows`, of those that have not stopped; None where all walk, or where to ask is to wait."""
    if state.ended.device.type != "cpu":
        return None
    ended = of_rows(state.ended, rows)
    return (~ended).nonzero().squeeze(1) if ended.any() else None


def narrowed(rows: Tensor | None, kept: Tensor) -> Tensor:
    """Which rows are left when only those at the places `kept` are."""
    return kept if rows is None else rows.index_select(0, kept)


def of_rows(value: Value, rows: Tensor | None) -> Value:
    """What concerns some rows only."""
    if rows is None:
        return value
    if isinstance(value, Tensor):
        return value.index_select(0, rows)
    return State(*(part.index_select(0, rows) for part in (value.viewpoint, value.view, value.ended)))


def among_all(part: Tensor, rows: Tensor | None, count: int) -> Tensor:
    """[row, ...] a tensor of some rows, among `count`; zero for the others."""
    return part if rows is None else part.new_zeros(count, *part.shape[1:]).index_copy(0, rows, part)
