"""What the uses of a weight leave for its gradient, until the last of them has left something."""

from typing import Generic, TypeVar

import torch

Entry = TypeVar("Entry")


class Ledger(Generic[Entry]):
    """Entries by the backward pass in which they were made: not every pass asks for the weights."""

    def __init__(self) -> None:
        self.entries: dict[int, list[Entry]] = {}

    def add(self, entry: Entry) -> None:
        self.entries.setdefault(_this_pass(), []).append(entry)

    def take(self) -> list[Entry]:
        """Those of the pass under way; what others have left is forgotten."""
        mine = self.entries.pop(_this_pass(), [])
        self.entries.clear()
        return mine


def _this_pass() -> int:
    number: int = torch._C._current_graph_task_id()
    return number
