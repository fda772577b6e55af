"""The episodes of a split as tensors: start, described path and, in REVERIE, target; and user-defined fields."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from vlnbert.errors import DataError, Faults, UnknownNameError, UsageError
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.task import TASKS, metres_to_nearest
from vlnbert.world.objects import ObjectTable, Sightings, find_sightings, open_object_table
from vlnbert.world.world import World

Value = TypeVar("Value")

NONE = -1  # pads a list of viewpoints
MOST_HOPS = 1 << 26  # of all paths, padded to the length of the longest


class Extra(dict[str, Any]):
    """User-defined fields by name: a tensor [row, ...], or a sequence with a value for each row."""

    def __missing__(self, name: str) -> Any:
        raise UnknownNameError("user-defined field", name, self, "these episodes")

    def each(self, change: Callable[[Tensor], Tensor]) -> "Extra":
        """A copy with each tensor changed."""
        return Extra({name: change(value) if isinstance(value, Tensor) else value for name, value in self.items()})

    def rows(self, index: Tensor) -> "Extra":
        """The fields of some rows; values that are no tensors are looked up when they are read."""
        return Extra(
            {
                name: value[index.to(value.device)] if isinstance(value, Tensor) else Picked(value, index)
                for name, value in self.items()
            }
        )


class Picked(Sequence[Value], Generic[Value]):
    """Some of a sequence's values, by an index [row] on any device that is read only when a value is.

    Reading waits for the device, which a recorded graph cannot do: it would replay the values of its recording.
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
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            problem = "ids, texts and other values of episodes lie on the host, where a recorded update cannot read"
            raise UsageError(f"{problem}; make them numbers in `extra`, which are tensors, or train without graphs")
        if self._found is None:
            self._found = tuple(self.values[row] for row in self.rows.tolist())
        return self._found


@dataclass(frozen=True, repr=False)
class Episodes:
    """A split, bound to a world: one row an episode.

    Attributes:
        task: The name of its task.
        split: The split's name, without the task.
        ids: [episode] the instructions' names, as result files have them.
        texts: [episode] the instructions as written.
        tokens: [episode] ids of word pieces, of augmented data, which comes tokenised; None elsewhere.
        targets: [episode] REVERIE's object ids; None in other tasks.
        start: [episode] viewpoint.
        heading: [episode] float64 radians at the start.
        path: [episode, hop] viewpoints of the described path; the last one repeats as padding.
        path_length: [episode] viewpoints in the path.
        sightings: [episode, any] viewpoints that show REVERIE's target, padded with -1; None in other tasks.
        goals: [episode, any] viewpoints at any of which the episode may end; the first one, which is `goal`, repeats
            as padding. None where every episode has one goal, the path's last.
        extra: User-defined fields by name: tensors [episode, ...], or tuples with a value for each episode.
        notes: Sentences on what was left out where the episodes were made of others.
    """

    task: str
    split: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    tokens: tuple[tuple[int, ...] | None, ...]
    targets: tuple[str | None, ...]
    start: Tensor
    heading: Tensor
    path: Tensor
    path_length: Tensor
    sightings: Tensor | None
    goals: Tensor | None = None
    extra: Extra = field(default_factory=Extra)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Episodes({len(self):,} of {self.task}/{self.split}, on {self.start.device})"

    @property
    def goal(self) -> Tensor:
        """[episode] viewpoint: the end of the path, or the first of several goals."""
        return self.path[:, -1] if self.goals is None else self.goals[:, 0]

    @property
    def scored(self) -> bool:
        """Whether goals are known: a test split withholds them and holds the starts alone."""
        return self.goals is not None or bool((self.path_length > 1).any())

    def row(self, id: str) -> int:
        """The row of an episode by its id."""
        if id not in self.ids:
            raise UnknownNameError(f"episode in {self.task}/{self.split}", id, self.ids)
        return self.ids.index(id)

    def select(self, rows: Tensor) -> "Episodes":
        """Some of the episodes, in the order of `rows`."""
        chosen = rows.tolist()
        lists = ("ids", "texts", "tokens", "targets")
        picked: dict[str, Any] = {name: tuple(getattr(self, name)[row] for row in chosen) for name in lists}
        tensors = self._tensors(lambda tensor: tensor[rows.to(tensor.device)])
        return replace(self, **picked, **tensors, extra=self.extra.rows(rows))

    def to(self, device: torch.device | str) -> "Episodes":
        """The same episodes on another device."""
        moved = self._tensors(lambda tensor: tensor.to(device))
        return replace(self, **moved, extra=self.extra.each(lambda tensor: tensor.to(device)))

    def _tensors(self, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        return {name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)}


def load_episodes(
    folder: DataFolder, world: World, task: str, split: str, objects: ObjectTable | None = None
) -> Episodes:
    """Read a split of a data folder and bind it to a world; `objects` are the folder's, if they are open already."""
    kind = TASKS[task]
    path, sightings = kind.file(folder, split), None
    if kind.sees_objects:
        sightings = find_sightings(world, open_object_table(world, folder.boxes) if objects is None else objects)
    return bind(path, kind.read(path), world, task=task, split=split, sightings=sightings)


def bind(
    path: Path,
    records: Iterable[EpisodeRecord],
    world: World,
    task: str,
    split: str,
    sightings: Sightings | None = None,
) -> Episodes:
    """Turn the records of a file into tensors; its faults and what does not fit the world are reported together."""
    faults, kept, paths = Faults(path), list[EpisodeRecord](), list[list[int]]()
    with faults.including():
        for record in records:
            numbers = [_number(world, record, viewpoint, faults) for viewpoint in record.path]
            if None not in numbers:
                kept.append(record)
                paths.append([number for number in numbers if number is not None])
    check_longest(paths, [record.id for record in kept], faults)
    hops = pad_paths(paths)
    start, goals = hops[:, 0], _goals(world, kept, paths, faults)
    left = world.metres(start, hops[:, -1]) if goals is None else metres_to_nearest(world, start, goals)
    for index in torch.isinf(left).nonzero().flatten().tolist():
        goal = kept[index].path[-1] if goals is None else kept[index].goals[0]
        problem = f"its goal {goal} cannot be reached from its start"
        faults.add(f"instruction {kept[index].id}", problem, "fix the graph or remove the instruction")
    faults.raise_if_any()
    bound = check_bound(task, TASKS[task].bind_extra(world, kept), len(kept))
    extra = stack_extra(kept, faults, skip=bound)
    faults.raise_if_any()
    if sightings is not None:
        seen = pad_paths([sightings.get((record.scan, record.object_id or ""), [NONE]) for record in kept], fill=NONE)
    return Episodes(
        task=task,
        split=split,
        ids=tuple(record.id for record in kept),
        texts=tuple(record.text for record in kept),
        tokens=tuple(record.tokens for record in kept),
        targets=tuple(record.object_id for record in kept),
        start=start,
        heading=torch.tensor([record.heading for record in kept], dtype=torch.float64),
        path=hops,
        path_length=torch.tensor([len(numbers) for numbers in paths], dtype=torch.long),
        sightings=None if sightings is None else seen,
        goals=goals,
        extra=Extra({**extra, **bound}),
    )


def _goals(world: World, records: list[EpisodeRecord], paths: list[list[int]], faults: Faults) -> Tensor | None:
    """[episode, any] the goals, the end of the path first; None where no record has goals of its own."""
    if not any(record.goals for record in records):
        return None
    rows = list[list[int]]()
    for record, path in zip(records, paths, strict=True):
        numbers = [_number(world, record, viewpoint, faults) for viewpoint in record.goals or record.path[-1:]]
        goals = list(dict.fromkeys(number for number in numbers if number is not None))
        if len(path) > 1 and path[-1] not in goals:
            problem = f"its path ends at {record.path[-1]}, which is none of its goals"
            faults.add(f"instruction {record.id}", problem, "add it to the goals, or give the start of the path alone")
        rows.append(sorted(goals, key=lambda goal, end=path[-1]: goal != end) or path[-1:])  # type: ignore[misc]
    check_longest(rows, [record.id for record in records], faults)
    return pad_paths(rows, repeat=0)


def _number(world: World, record: EpisodeRecord, viewpoint: str, faults: Faults) -> int | None:
    number = world.numbers.get((record.scan, viewpoint))
    if number is None:
        known = record.scan in world.scans
        problem = f"viewpoint {viewpoint} is not in the graph of scan {record.scan}"
        remedy = "use the instructions and graphs of one data set" if known else "add the scan's connectivity file"
        faults.add(f"instruction {record.id}", problem, remedy)
    return number


def walkable(world: World, path: Tensor, length: Tensor) -> Tensor:
    """[path] whether edges join the viewpoints of a path [path, hop] of this length, each to the next."""
    within = torch.arange(1, path.shape[1], device=path.device) < length[:, None]
    moves = world.joined(path[:, :-1], path[:, 1:]) & (path[:, :-1] != path[:, 1:])
    return (moves | ~within).all(dim=1)


def check_longest(paths: Sequence[list[int]], names: Sequence[str], faults: Faults) -> None:
    """Refuse a path that is so long that the others cannot be padded to its length."""
    longest = max(range(len(paths)), key=lambda number: len(paths[number]), default=0)
    if paths and len(paths) * len(paths[longest]) > MOST_HOPS:
        problem = f"its path of {len(paths[longest]):,} viewpoints is too long beside {len(paths) - 1:,} others"
        faults.add(f"instruction {names[longest]}", problem, "shorten or remove it")
        faults.raise_if_any()


def pad_paths(rows: Sequence[list[int]], repeat: int = -1, fill: int | None = None) -> Tensor:
    """[row, any] lists of viewpoints, each padded with its last one, with that at `repeat`, or with `fill`."""
    longest = max(map(len, rows), default=1)
    padded = [row + [row[repeat] if fill is None else fill] * (longest - len(row)) for row in rows]
    return torch.tensor(padded, dtype=torch.long).view(len(rows), longest)


def require_goals(episodes: Episodes, path: Path) -> None:
    """Refuse to score a split whose goals are withheld."""
    if not episodes.scored:
        raise DataError(path, "withholds its goals", "score another split, or write a leaderboard file: vlnbert submit")


def stack_extra(records: Sequence[EpisodeRecord], faults: Faults, skip: Collection[str] = ()) -> dict[str, Any]:
    """The `extra` of records by name: numbers, and lists of equally many, as tensors; all else as a tuple."""
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


def check_bound(task: str, fields: object, count: int) -> Mapping[str, Any]:
    """Check what a task's `bind_extra` returned: a value for each of `count` episodes."""
    expected = f"give a dict of tensors [{count}, ...] or sequences of {count}, by name"
    if not isinstance(fields, Mapping):
        raise UsageError(f"bind_extra of the task {task} gave a {type(fields).__name__}; {expected}")
    for name, value in fields.items():
        sized = isinstance(value, Sequence) or (isinstance(value, Tensor) and value.dim() > 0)
        if not sized or len(value) != count:
            size = f" of {len(value):,}" if sized else ""
            given = f"'{name}' as a {type(value).__name__}{size}"
            raise UsageError(f"bind_extra of the task {task} gave {given}; {expected}")
    return fields
