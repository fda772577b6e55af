"""Callbacks watch a training: a bar for people, lines for programs, curves for TensorBoard."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, UsageError, setting
from vlnbert.evaluation.tables import METRICS, Summary, shown
from vlnbert.progress import Bar
from vlnbert.sources.locks import open_regular

NEWLINE = "\n"
NEVER = 10**9  # seconds
LONG = 20 * 60  # seconds of a training of which people want to know beforehand
TIMED = 3  # updates whose time tells that of the others


@dataclass
class JsonLog:
    """`log.jsonl`: a line for each report and each validation. A resumed run writes on."""

    path: Path
    chosen_by: Mapping[str, str] = field(default_factory=dict)  # what each validation's line says of the choice

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        self._write({"iteration": iteration, "learning_rate": learning_rate, **parts})

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
        found = {name: dict(summary) for name, summary in scores.items()}
        self._write({"iteration": iteration, "scores": found, **self.chosen_by})

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(open_regular(self.path, os.O_RDWR | os.O_APPEND), "ab") as file:
                size = os.fstat(file.fileno()).st_size
                cut = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"  # by a kill
                text = json.dumps({"time": round(time.time(), 3), **line})
                file.write(f"{NEWLINE * cut}{text}{NEWLINE}".encode())
        except OSError as error:
            raise _unwritten(self.path, error) from None


class TensorBoard:
    """Curves in `tensorboard/`; a resumed run draws on from where it was."""

    def __init__(self, folder: Path, done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # it takes a second to import

        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise DataError(folder, "is a link or a file, where a folder of the run's own belongs", "move it away")
        # What is written after the checkpoint is written again. To flush is left to us, who can tell what goes wrong.
        self.writer = SummaryWriter(str(folder), purge_step=done + 1, flush_secs=NEVER)

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        for name, value in {"learning_rate": learning_rate, **parts}.items():
            self.writer.add_scalar(f"training/{name}", value, iteration)
        self._flush()

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
        for split, summary in scores.items():
            for name, value in summary.items():
                if value is not None:
                    self.writer.add_scalar(f"{split}/{name}", value, iteration)
        self._flush()

    def close(self) -> None:
        with suppress(OSError):  # which the last flush has told
            self.writer.close()

    def _flush(self) -> None:
        try:
            self.writer.flush()
        except OSError as error:
            raise _unwritten(Path(self.writer.log_dir), error) from None


@dataclass
class ProgressBar:
    """A bar with the losses and the time left, and a line for each validation.

    It moves with every update (`advanced`). Where those that are left will take long, a line says so after a few, if
    they are `timed`: a GPU takes its time after it was told what to do.
    """

    bar: Bar
    timed: bool = True
    began: tuple[int, float] | None = None  # the first update, whose time is not typical, and when it was made

    def advanced(self, iteration: int) -> None:
        self.bar.update(iteration)
        if self.began is None:
            self.began = iteration, time.monotonic()
        elif self.timed and iteration - self.began[0] == TIMED:
            self._estimate((time.monotonic() - self.began[1]) / TIMED, (self.bar.total or 0) - iteration)

    def _estimate(self, seconds: float, left: int) -> None:
        if seconds * left < LONG:
            return
        minutes = round(seconds * left / 60)
        lasts = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
        told = f"an update takes {seconds:.2f} s here, so the {left:,} that are left about {lasts}, validations aside"
        self.bar.say(f"{told}; Ctrl-C saves and stops")

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        first = next((name for name in parts if name != "total"), None)
        part = "" if first is None else f", {first.replace('_', ' ')} {parts[first]:.2f}"
        self.bar.update(iteration, f"loss {parts['total']:.2f}{part}, rate {learning_rate:.0e}")

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None:
        for split, summary in scores.items():
            known = {name: summary.get(name) for name in ("sr", "spl", "rgs", "perplexity")}
            rates = (f"{METRICS[name][0]} {shown(name, rate)}" for name, rate in known.items() if rate is not None)
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


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, one an iteration: where a resumed run repeated some, the later ones hold."""
    lines: dict[tuple[int, bool], dict[str, Any]] = {}
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue  # cut by a kill; the resumed run wrote it again
        if isinstance(line, dict) and type(line.get("iteration")) is int and ("scores" in line or "total" in line):
            lines[line["iteration"], "scores" in line] = line
    return [lines[key] for key in sorted(lines)]


def _unwritten(path: Path, error: OSError) -> DataError:
    problem = f"cannot be written ({error.strerror or error})"
    return DataError(path, problem, "free some space, then resume: the last checkpoint is whole")
