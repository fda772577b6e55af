"""Callbacks watch a training: a bar for people, lines for programs, curves for TensorBoard."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from socket import gethostname
from typing import Any, Protocol, TypeVar

from vlnbert.errors import DataError, UsageError, setting
from vlnbert.evaluation.metrics import Summary, own_keys, shown
from vlnbert.external import ExternalCall, guarded
from vlnbert.progress import Bar
from vlnbert.registry import Registry, by_name
from vlnbert.sources.files import is_number, opened
from vlnbert.sources.writing import append_whole
from vlnbert.tasks.task import METRICS

LONG = 20 * 60  # seconds of a training of which people want to know beforehand
LONGEST_LINE = 1 << 20  # bytes of a log's; ours have a few hundred
TIMED = 3  # updates whose time tells that of the others


class Callback(Protocol):
    """Receives training events. These two are all that it must have.

    `begun(trainer)`, where it has that, is called before the first update, with the trainer, whose `finish()` ends the
    training. One that is named in an experiment may keep `state()`, plain values that go into every checkpoint and come
    back to `resumed(state)`.
    """

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        """Some updates were made; the parts of the loss are means over them."""

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None: ...


CALLBACKS: Registry[Callable[[], Callback]] = Registry("callback")
AnyCallback = TypeVar("AnyCallback", bound=Callable[[], Any])


def register_callback(name: str) -> Callable[[AnyCallback], AnyCallback]:
    """Decorate a class of callbacks, or a function that makes one, so that experiments can name it.

    Args:
        name: What the training's setting `callbacks` calls it.
    """
    return by_name(CALLBACKS, name)


def make_callback(name: str) -> Callback:
    """The callback of that name."""
    with ExternalCall(f"the callback '{name}'"):
        made = CALLBACKS[name]()
    lacking = [method for method in ("updated", "validated") if not callable(getattr(made, method, None))]
    for method in ("begun", "updated", "validated", "state", "resumed"):
        if callable(getattr(made, method, None)):
            setattr(made, method, guarded(f"the callback '{name}'", getattr(made, method)))
    if lacking:
        raise UsageError(f"the callback '{name}' has no {' and no '.join(lacking)}; see vln.Callback")
    return made


@dataclass
class JsonLog:
    """`log.jsonl`: a line for each report and each validation. A resumed run writes on."""

    path: Path
    chosen_by: Mapping[str, str] = field(default_factory=dict)  # what each validation's line says of the choice

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        self._write({"iteration": iteration, "learning_rate": learning_rate, **parts})

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
        summaries = {name: dict(summary) for name, summary in scores.items()}
        self._write({"iteration": iteration, "scores": summaries, **self.chosen_by})

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            append_whole(self.path, json.dumps({"time": round(time.time(), 3), **line}).encode() + b"\n", lines=True)
        except OSError as error:
            raise _unwritten(self.path, error) from None


class TensorBoard:
    """Curves in `tensorboard/`; a resumed run draws on from where it was.

    Its own writer works in a thread, which would tell of a full disk in its own words. This one writes at once.
    """

    def __init__(self, folder: Path, done: int) -> None:
        from tensorboard.compat.proto import summary_pb2

        # These take a moment to import.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise DataError(folder, "is a link or a file, where a folder of the run's own belongs", "move it away")
        self.folder, self.event, self.summary = folder, Event, summary_pb2.Summary
        self.path = folder / f"events.out.tfevents.{time.time_ns():019d}.{gethostname()}.{os.getpid()}"
        # What is written after the checkpoint is written again: it is drawn once.
        begun = SessionLog(status=SessionLog.START)
        self._write(Event(file_version="brain.Event:2"), Event(step=done + 1, session_log=begun))

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        named = {"learning_rate": learning_rate, **parts}
        self._draw(iteration, {f"training/{name}": value for name, value in named.items()})

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
        named = {f"{split}/{name}": value for split, summary in scores.items() for name, value in summary.items()}
        self._draw(iteration, {name: value for name, value in named.items() if value is not None})

    def _draw(self, iteration: int, values: Mapping[str, float]) -> None:
        points = [self.summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(*(self.event(step=iteration, summary=self.summary(value=[point])) for point in points))

    def _write(self, *events: Any) -> None:
        """Append events, whole or not at all."""
        from tensorboard.summary.writer.record_writer import RecordWriter

        content = BytesIO()
        for event in events:
            event.wall_time = time.time()
            RecordWriter(content).write(event.SerializeToString())
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            append_whole(self.path, content.getvalue())
        except OSError as error:
            raise _unwritten(self.folder, error) from None


@dataclass
class ProgressBar:
    """A bar with the losses and the time left, and a line for each validation.

    It moves with every update (`advanced`). Where those that are left will take long, a line says so after a few, if
    they are `timed`: a GPU works on after it was given its work.
    """

    bar: Bar
    timed: bool = True
    began: tuple[int, float] | None = None  # the first update, whose time is not typical, and when it was made

    def advanced(self, iteration: int) -> None:
        self.bar.update(iteration)
        if self.began is None:
            self.began = iteration, time.monotonic()
        elif self.timed and iteration - self.began[0] == TIMED:
            seconds, left = (time.monotonic() - self.began[1]) / TIMED, (self.bar.total or 0) - iteration
            if seconds * left >= LONG:
                minutes = round(seconds * left / 60)
                lasts = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
                line = f"an update takes {seconds:.2f} s here, so the {left:,} that are left about {lasts}"
                self.bar.say(f"{line}, validations aside; Ctrl-C saves and stops")

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        first = next((name for name in parts if name != "total"), None)
        part = "" if first is None else f", {first.replace('_', ' ')} {parts[first]:.2f}"
        self.bar.update(iteration, f"loss {parts['total']:.2f}{part}, rate {learning_rate:.0e}")

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
        for split, summary in scores.items():
            known = {name: summary.get(name) for name in ("sr", "spl", "rgs", "perplexity", *own_keys(summary))}
            rates = (f"{METRICS[name].heading} {shown(name, rate)}" for name, rate in known.items() if rate is not None)
            self.bar.say(f"after {iteration} updates, {split}: {', '.join(rates)}")


def require_callbacks(callbacks: object) -> None:
    """Refuse what cannot watch a training, before one is begun."""
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        problem = f"{setting('callbacks')} is a {type(callbacks).__name__}, not a list of those who watch"
        raise UsageError(f"{problem}; put it into one: callbacks=[...]")
    for one in callbacks:
        lacking = [name for name in ("updated", "validated") if not callable(getattr(one, name, None))]
        if lacking or isinstance(one, type):
            what = "is a class, not an object of it" if isinstance(one, type) else f"has no {' and no '.join(lacking)}"
            takes = "updated(iteration, learning_rate, parts) and validated(iteration, scores)"
            raise UsageError(f"a callback, {one!r:.60}, {what}; give objects with {takes}")


@dataclass
class Watching:
    """Guards a user's callback: it gets copies, and its errors are known as its own."""

    callback: Any

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        with self._calling:
            self.callback.updated(iteration, learning_rate, dict(parts))

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
        with self._calling:
            self.callback.validated(iteration, {split: dict(summary) for split, summary in scores.items()})

    def begun(self, trainer: Any) -> None:
        begun = getattr(self.callback, "begun", None)
        if begun is not None:
            with self._calling:
                begun(trainer)

    @property
    def _calling(self) -> ExternalCall:
        return ExternalCall(f"the callback {type(self.callback).__name__}")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, one an iteration: where a resumed run repeated some, the later ones hold."""
    lines: dict[tuple[int, bool], dict[str, Any]] = {}
    with opened(path, "log") as file:
        for text in iter(partial(file.readline, LONGEST_LINE), b""):
            try:
                line = json.loads(text.decode(errors="replace"))
            except (ValueError, RecursionError):
                # A kill cut the line; the resumed run wrote it again.
                continue
            if _is_line(line):
                lines[line["iteration"], "scores" in line] = line
    return [lines[key] for key in sorted(lines)]


def _is_line(line: Any) -> bool:
    """Whether a line is a report or a validation as we write them: with an update, and numbers or scores of splits."""
    if not isinstance(line, dict) or type(line.get("iteration")) is not int or not is_number(line["iteration"]):
        return False
    if "scores" not in line:
        return is_number(line.get("total"))
    splits = line["scores"].values() if isinstance(line["scores"], dict) else [None]
    return all(
        isinstance(one, dict) and all(each is None or is_number(each) for each in one.values()) for one in splits
    )


def _unwritten(path: Path, error: OSError) -> DataError:
    problem = f"cannot be written ({error.strerror or error})"
    return DataError(path, problem, "free some space, then resume: the last checkpoint is whole")
