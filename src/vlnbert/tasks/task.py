"""Tasks: the files of an episode and their reader, its bounds, its teacher, success, and the metrics of each task.

A user-defined task is a registered subclass; nothing else refers to a task by name:

    @vln.register_task
    class Backwards(vln.R2R):
        name = "backwards"
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from vlnbert.errors import DataError, UnknownNameError, UsageError, near_names, setting
from vlnbert.external import ExternalCall, guarded, is_ours, is_plain, kind_of, lent
from vlnbert.registry import Registry
from vlnbert.sources.instructions import EpisodeRecord, is_augmented, read_augmented, read_r2r, read_reverie
from vlnbert.sources.layout import MAKE_ONE, DataFolder
from vlnbert.world.world import STOP, World

if TYPE_CHECKING:
    from vlnbert.tasks.batches import Batch
    from vlnbert.tasks.episodes import Episodes

NAME = re.compile(r"[A-Za-z][\w.-]*")
PERCENT = "%"
NAVIGATION = ("sr", "osr", "spl", "ndtw", "sdtw", "cls", "ne")  # metrics by which any task can rank weights
GROUNDING = ("rgs", "rgspl")  # and those of tasks that ask for an object
EPISODES = "episodes"  # the last key of every summary


@dataclass(frozen=True)
class Metric:
    """A number for each episode: its key in JSON and logs, and the form of its mean in tables.

    Attributes:
        name: The key in JSON files, logs and `best_metric`; letters, digits, ".", "_" and "-".
        label: The heading in tables; by default the name.
        unit: "%" for a rate, measured as a fraction and shown in percent; else any unit, such as "m", or "" for none.
        higher: Whether higher values are better.
        meaning: One phrase that explains it, for reports.
    """

    name: str
    label: str = ""
    unit: str = ""
    higher: bool = True
    meaning: str = ""

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            problem = f"{name!r:.60} is no name of a metric"
            raise UsageError(f"{problem}; begin with a letter, then letters, digits, '.', '_' or '-'")
        kinds: dict[str, type] = {"label": str, "unit": str, "higher": bool, "meaning": str}
        wrong = [field for field, kind in kinds.items() if not isinstance(getattr(self, field), kind)]
        if wrong:
            problem = f"the metric '{name}' has a {wrong[0]} of another type"
            raise UsageError(f"{problem}; label, unit and meaning are text, higher is True or False")

    @property
    def title(self) -> str:
        """The label, or the name of a metric that has none."""
        return self.label or self.name

    @property
    def heading(self) -> str:
        """The heading of its column, with the unit; rates have none there, since the table's title says percent."""
        return self.title if self.unit in ("", PERCENT) else f"{self.title} {self.unit}"


METRICS: Registry[Metric] = Registry("metric")

for _metric in (
    Metric("sr", "SR", PERCENT, meaning="success: stopped less than 3 m from the goal"),
    Metric("osr", "OSR", PERCENT, meaning="oracle success: came that close at any time"),
    Metric("spl", "SPL", PERCENT, meaning="success weighted by path length"),
    Metric("ndtw", "nDTW", PERCENT, meaning="likeness to the reference path"),
    Metric("sdtw", "SDTW", PERCENT, meaning="the same, where successful"),
    Metric("cls", "CLS", PERCENT, meaning="coverage of the reference path, weighted by length"),
    Metric("rgs", "RGS", PERCENT, meaning="the right object was named"),
    Metric("rgspl", "RGSPL", PERCENT, meaning="the same, weighted by path length"),
    Metric("tl", "TL", "m", higher=False, meaning="trajectory length"),
    Metric("ne", "NE", "m", higher=False, meaning="from the last viewpoint to the goal"),
    Metric("perplexity", higher=False, meaning="of a speaker: how many words it is undecided between, at each word"),
    Metric(EPISODES, meaning="how many were scored"),
):
    METRICS.register(_metric.name, _metric, __name__)
BUILT_IN = tuple(METRICS.registered())


def check_metrics(task: str, metrics: object) -> tuple[str, ...]:
    """Check the metrics that a task adds: metrics with new names. Their names."""
    if not isinstance(metrics, tuple | list):
        problem = f"metrics of the task {task} is a {type(metrics).__name__}"
        raise UsageError(f"{problem}; write a tuple: metrics = (vln.Metric('name'),)")
    for metric in metrics:
        if not isinstance(metric, Metric):
            problem = f"the task {task} has {metric!r:.60} among its metrics, which is no vln.Metric"
            raise UsageError(f"{problem}; write vln.Metric('name'); all tasks have {', '.join(NAVIGATION)} anyway")
        if metric.name in BUILT_IN:
            problem = f"the task {task} has a metric '{metric.name}', which is a metric of all tasks"
            raise UsageError(f"{problem}; give it another name")
    return tuple(metric.name for metric in metrics)


AUGMENTED_FILE = "prevalent_aug.json"  # R2R's split "aug"
SUB_INSTRUCTIONS = "sub_instructions"  # R2R's split of parts of train
MOST_STEPS = 1000  # that a teacher may take to its end
NEAR = 3.0  # metres: stopping closer than this to the goal is a success; also the scale of nDTW and CLS

TeacherMemory = tuple[Tensor, ...]  # each [row, ...]: the state of the teacher
# Goals, paths, sightings and user-defined fields, one row an episode, have the same names in both.
Described: TypeAlias = "Batch | Episodes"


@dataclass(frozen=True)
class Walked:
    """The trajectories of agents, for `Task.measure`; one row an episode.

    Attributes:
        viewpoint: [episode, hop] the viewpoints visited; the last one repeats as padding.
        length: [episode] how many of them are real, the start included.
        objects: [episode] the id of the object that each agent named, or None.
    """

    viewpoint: Tensor
    length: Tensor
    objects: Sequence[str | None]


class Task:
    """The base of all tasks. Its defaults are R2R's."""

    name: str = ""
    max_tokens: int = 80  # of an instruction, [CLS] and [SEP] included
    max_steps: int = 15  # of an episode
    sees_objects: bool = False  # whether agents see objects, stop at one and name it
    stop_distance: float = NEAR  # metres from the goal within which the paper's reward counts a stop as right
    best_metric: str = "spl"  # by which a training chooses its best weights; it may be one of `metrics`
    metrics: tuple[Metric, ...] = ()  # computed by `measure`, beside the metrics that all tasks have

    def files(self, folder: DataFolder) -> dict[str, Path]:
        """The instruction file of every split that a data folder holds, by split."""
        return folder.instruction_files(self.name)

    def file(self, folder: DataFolder, split: str) -> Path:
        """The instruction file of one split."""
        found = self.files(folder)
        if not found:
            raise DataError(folder.root / self.name, f"holds no {self.name.upper()}_<split>.json", MAKE_ONE)
        if split.endswith("_aug") and split not in found:
            near = near_names(split, [name for name in found if name.endswith("_aug")])
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            problem = f"no such file, which the split {self.name}/{split} is read from"
            remedy = f"make it with: vlnbert augment speak (docs/howto/augment.md){hint}"
            raise DataError(folder.root / self.name / f"{split}.json", problem, remedy)
        if split not in found:
            raise UnknownNameError(f"{self.name} split in {folder.root}", split, found)
        return found[split]

    def read(self, path: Path) -> Iterator[EpisodeRecord]:
        """The records of an instruction file; its faults are collected and raised together."""
        raise NotImplementedError

    def begin_teacher(self, episodes: Described) -> TeacherMemory:
        """The initial state of the teacher, each [row, ...]; here the goal, or all of several."""
        return (episodes.goal if episodes.goals is None else episodes.goals,)

    def teacher(self, world: World, viewpoint: Tensor, memory: TeacherMemory) -> tuple[Tensor, TeacherMemory]:
        """[row] the slot to choose at these viewpoints, and the memory for the next step; here towards the goal.

        It takes the shortest path, to the nearest of several goals. Called once a step for every row, in the order of
        the walk. It may not wait for the device.
        """
        (goal,) = memory
        return world.slot_toward(viewpoint, goal if goal.dim() == 1 else nearest(world, viewpoint, goal)), memory

    def teacher_steps(self, world: World, start: Tensor, episodes: Described) -> int:
        """The most steps that the teacher takes in any of these episodes, the stop included. Waits for the device."""
        viewpoint, memory, steps = start, self.begin_teacher(episodes), 1
        slot, memory = self.teacher(world, viewpoint, memory)
        while slot.any():
            if steps >= MOST_STEPS:
                problem = f"the teacher of the task {self.name} has not stopped after {steps:,} steps"
                raise UsageError(f"{problem}; let it choose slot {STOP} where an episode ends")
            viewpoint = world.neighbour[viewpoint, slot]
            slot, memory = self.teacher(world, viewpoint, memory)
            steps += 1
        return steps

    def arrived(self, world: World, viewpoint: Tensor, episodes: Described) -> Tensor:
        """[row, time] whether to stop at viewpoints [row, time] is a success; here less than 3 m from a goal."""
        return metres_to_goal(world, viewpoint, episodes) < NEAR

    def bind_extra(self, world: World, records: Sequence[EpisodeRecord]) -> Mapping[str, Tensor | Sequence[Any]]:
        """User-defined fields that cannot be stacked from `extra` of the records, such as viewpoints as numbers.

        By name, a tensor [episode, ...] on the world's device or a sequence with a value for each record.
        """
        return {}

    def measure(self, world: World, episodes: "Episodes", trajectories: Walked) -> Mapping[str, Tensor]:
        """[episode] by name, each of the task's own `metrics`; on the world's device, after all have walked."""
        return {}


def metres_to_goal(world: World, viewpoint: Tensor, episodes: Described) -> Tensor:
    """[row, time] metres along the graph from viewpoints [row, time] to the goal, or to the nearest of several."""
    if episodes.goals is None:
        return world.metres(viewpoint, episodes.goal[:, None].expand_as(viewpoint))
    return metres_to_nearest(world, viewpoint, episodes.goals[:, None])


def metres_to_nearest(world: World, viewpoint: Tensor, goals: Tensor) -> Tensor:
    """[...] metres along the graph from viewpoints [...] to the nearest of their goals [..., any]."""
    return world.metres(viewpoint[..., None], goals).amin(dim=-1)


def nearest(world: World, viewpoint: Tensor, goals: Tensor) -> Tensor:
    """[row] the goal of goals [row, any] that is nearest to a viewpoint [row]; of equals, the first."""
    place = world.metres(viewpoint[:, None], goals).argmin(dim=1, keepdim=True)
    return goals.gather(1, place).squeeze(1)


TASKS: Registry[Task] = Registry("task")

AnyTask = TypeVar("AnyTask", bound=type[Task])


def register_task(task: AnyTask) -> AnyTask:
    """Register a task under its name: a decorator.

    Args:
        task: A subclass of `Task` with a name and a reader.
    """
    if not task.name:
        raise UsageError(f"the task {task.__name__} has no name; give it one: name = ...")
    if task.read is Task.read:
        raise UsageError(f"the task {task.name} has no reader; define read(self, path), or inherit that of vln.R2R")
    own = check_metrics(task.name, task.metrics)
    if bool(own) != (task.measure is not Task.measure):
        lacks = "no measure(self, world, episodes, trajectories)" if own else "no metrics"
        remedy = "define it" if own else "name what it measures: metrics = (vln.Metric('name'),)"
        raise UsageError(f"the task {task.name} has {'metrics' if own else 'a measure'} and {lacks}; {remedy}")
    ranking = (*NAVIGATION, *(GROUNDING if task.sees_objects else ()), *own)
    if task.best_metric not in ranking:
        problem = f"the task {task.name} cannot choose its best weights by {task.best_metric!r:.60}"
        raise UsageError(f"{problem}; set best_metric to one of {', '.join(ranking)}")
    for metric in task.metrics:
        if METRICS.registered().get(metric.name) != metric:
            METRICS.register(metric.name, metric, task.__module__)
    TASKS.register(task.name, _guarded(task()), task.__module__)
    return task


def _guarded(task: Task) -> Task:
    """The task with guarded user-defined methods: their errors name the task, and tensors they return are checked."""
    what = f"the task {task.name}"
    theirs = {name: method for name in vars(Task) if callable(method := getattr(task, name)) and not is_ours(method)}

    def begin_teacher(episodes: Described) -> TeacherMemory:
        with ExternalCall(what):
            memory = theirs["begin_teacher"](lent(episodes))
        return _memory(what, memory)

    def teacher(world: World, viewpoint: Tensor, memory: TeacherMemory) -> tuple[Tensor, TeacherMemory]:
        with ExternalCall(what, world):
            answer: Any = theirs["teacher"](world, viewpoint.clone(), memory)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise UsageError(f"{what}: teacher gave {kind_of(answer)}; it must give slots and memory, (slot, memory)")
        slot = _like(f"{what}: teacher", answer[0], viewpoint, torch.long)
        if slot.device.type == "cpu" and len(slot) and not 0 <= int(slot.min()) <= int(slot.max()) < world.slots:
            raise UsageError(f"{what}: teacher chose a slot that is none; they are {STOP} (stop) to {world.slots - 1}")
        return slot, _memory(what, answer[1])

    def arrived(world: World, viewpoint: Tensor, episodes: Described) -> Tensor:
        with ExternalCall(what, world):
            found = theirs["arrived"](world, viewpoint.clone(), lent(episodes))
        return _like(f"{what}: arrived", found, viewpoint, torch.bool)

    held: dict[str, Any] = {"begin_teacher": begin_teacher, "teacher": teacher, "arrived": arrived}
    for name, method in theirs.items():
        setattr(task, name, held.get(name) or guarded(what, method))
    return task


def _memory(what: str, value: Any) -> TeacherMemory:
    if isinstance(value, tuple) and all(isinstance(part, Tensor) and is_plain(part) for part in value):
        return value
    parts = ", ".join(map(kind_of, value)) if isinstance(value, tuple) else kind_of(value)
    raise UsageError(f"{what}: what its teacher remembers is {parts}; it must be a tuple of tensors [row, ...]")


def _like(what: str, value: Any, like: Tensor, dtype: torch.dtype) -> Tensor:
    """The value, if it is a tensor of this type with the shape and device of another."""
    same = isinstance(value, Tensor) and is_plain(value) and value.shape == like.shape
    if same and value.dtype == dtype and value.device == like.device:
        return value  # type: ignore[no-any-return]  # a tensor, as checked
    expected = f"{str(dtype).removeprefix('torch.')} {list(like.shape)} on {like.device}"
    raise UsageError(f"{what} gave {kind_of(value)}; it must give {expected}")


@register_task
class R2R(Task):
    """Room-to-Room: go where the instruction leads. PREVALENT's augmented paths are its split "aug"."""

    name = "r2r"

    def files(self, folder: DataFolder) -> dict[str, Path]:
        augmented = folder.augmented_files(self.name)
        named = {"aug" if path.name == AUGMENTED_FILE else split: path for split, path in augmented.items()}
        return super().files(folder) | named

    def file(self, folder: DataFolder, split: str) -> Path:
        path = folder.root / self.name / AUGMENTED_FILE
        if split == "aug" and not path.exists():
            remedy = f"fetch PREVALENT's augmented paths, or do without: {setting('train_on', 'r2r/train')}"
            raise DataError(path, "no such file, which the split r2r/aug is read from", remedy)
        return super().file(folder, split)

    def read(self, path: Path) -> Iterator[EpisodeRecord]:
        return read_augmented(path) if is_augmented(path) else read_r2r(path)


@register_task
class REVERIE(Task):
    """Go to the object that the instruction describes, stop there and name it."""

    name = "reverie"
    max_tokens = 50
    sees_objects = True
    stop_distance = 1.0

    def files(self, folder: DataFolder) -> dict[str, Path]:
        return super().files(folder) | folder.augmented_files(self.name)

    def read(self, path: Path) -> Iterator[EpisodeRecord]:
        return read_augmented(path) if is_augmented(path) else read_reverie(path)

    def arrived(self, world: World, viewpoint: Tensor, episodes: Described) -> Tensor:
        """[row, time] whether the target is visible from viewpoints [row, time]."""
        if episodes.sightings is None:
            raise UsageError("nobody knows where the targets are visible; open the objects with the episodes")
        return (viewpoint[:, :, None] == episodes.sightings[:, None, :]).any(dim=2)


def path_teacher(world: World, viewpoint: Tensor, memory: TeacherMemory) -> tuple[Tensor, TeacherMemory]:
    """Follow a path by progress along it: the memory is the path [row, hop], its length [row] and the progress [row].

    Progress is the place of the path's last viewpoint that was reached in order. On the path the teacher goes on to the
    next one, and stops at the last. Off the path it takes the shortest way back, to the nearer of the viewpoint where
    it left the path and the next one; of equals, to the next. So no part of a path is skipped that comes by the same
    place twice.
    """
    path, length, progress = memory
    rows = torch.arange(len(path), device=path.device)
    following = (progress + 1).minimum(length - 1)
    reached = (viewpoint == path[rows, following]) & (following > progress)
    progress = progress + reached.long()
    left, following = path[rows, progress], path[rows, (progress + 1).minimum(length - 1)]
    on_path = viewpoint == left
    nearer_back = world.metres(viewpoint, left) < world.metres(viewpoint, following)
    aim = torch.where(on_path | ~nearer_back, following, left)
    return world.slot_toward(viewpoint, aim), (path, length, progress)


@register_task
class R4R(Task):
    """Paths of R2R joined in pairs (Jain et al. 2019, arXiv:1905.12255); the teacher follows the path in order."""

    name = "r4r"
    max_tokens = 160
    max_steps = 30
    best_metric = "sdtw"

    def read(self, path: Path) -> Iterator[EpisodeRecord]:
        return read_r2r(path)

    def begin_teacher(self, episodes: Described) -> TeacherMemory:
        return episodes.path, episodes.path_length, torch.zeros_like(episodes.path_length)

    def teacher(self, world: World, viewpoint: Tensor, memory: TeacherMemory) -> tuple[Tensor, TeacherMemory]:
        return path_teacher(world, viewpoint, memory)
