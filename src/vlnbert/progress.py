"""Progress for people, on standard error: bars in a terminal or a notebook, now and then a line in a pipe or a file."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from html import escape
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, TypeVar

from vlnbert.errors import printable_text

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")

PERIOD = 0.2  # seconds between two pictures of a bar in a notebook
LINE_PERIOD = 30.0  # seconds between two lines in a pipe or a file

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet(silent: bool = True) -> Iterator[None]:
    """Within the block no bar is shown and no line is said."""
    token = _quiet.set(silent or _quiet.get())
    try:
        yield
    finally:
        _quiet.reset(token)


def say(line: str) -> None:
    """Print a line for people on standard error."""
    if not _quiet.get():
        print(printable_text(line), file=sys.stderr)


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel, where a bar is a picture in the cell's output."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Bar:
    """A bar of so many steps, with a note behind it: `with Bar("training", 100) as bar: bar.update(1, "loss 2.0")`."""

    def __init__(self, what: str, total: int | None, done: int = 0, lasting: bool = False) -> None:
        """`lasting` bars stay on the screen when they are done."""
        self.what, self.total, self.done, self.lasting = printable_text(what), total, done, lasting
        self.shown: _TerminalBar | _NotebookBar | _Lines | None = None

    def __enter__(self) -> "Bar":
        if _quiet.get():
            return self
        if in_notebook():
            self.shown = _NotebookBar(self)
        elif sys.stderr.isatty():
            self.shown = _TerminalBar(self)
        else:
            self.shown = _Lines(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown is not None:
            self.shown.close()

    def update(self, done: int, note: str | None = None) -> None:
        """So much is done; without a note the last one stays."""
        self.done = done
        if self.shown is not None:
            self.shown.update(done, note)

    def say(self, line: str) -> None:
        """A line beside the bar, which goes on below it."""
        if isinstance(self.shown, _TerminalBar):
            self.shown.progress.console.print(printable_text(line), highlight=False, markup=False)
        else:
            say(line)


def track(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """Show a bar while `items` are consumed."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Bar(what, total) as bar:
        for number, item in enumerate(items, 1):
            yield item
            bar.update(number)


class WatchedFile:
    """A file whose reading moves a bar by bytes."""

    def __init__(self, file: IO[bytes], bar: Bar) -> None:
        self.file, self.bar = file, bar

    def read(self, size: int = -1) -> bytes:
        return self._count(self.file.read(size))

    def readline(self, size: int = -1) -> bytes:
        return self._count(self.file.readline(size))

    def readinto(self, buffer: Any) -> int:
        count: int = self.file.readinto(buffer)  # type: ignore[attr-defined]  # of a file opened for reading bytes
        self.bar.update(self.bar.done + count)
        return count

    def readable(self) -> bool:
        return True

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def _count(self, chunk: bytes) -> bytes:
        self.bar.update(self.bar.done + len(chunk))
        return chunk


class _TerminalBar:
    """A line of a terminal. A bar that opens while another is shown stands below it, until it is done."""

    outermost: "Progress | None" = None  # of the bars that are shown now; two would draw over each other

    def __init__(self, bar: Bar) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar, self.inner = bar, _TerminalBar.outermost is not None
        if _TerminalBar.outermost is None:
            what, count, note = (
                TextColumn(f"{{task.{part}}}", markup=False)
                for part in ("description", "fields[count]", "fields[note]")
            )
            columns = (what, BarColumn(), count, note, TimeRemainingColumn())
            _TerminalBar.outermost = Progress(*columns, console=Console(stderr=True), transient=not bar.lasting)
            _TerminalBar.outermost.start()
        self.progress = _TerminalBar.outermost
        self.task = self.progress.add_task(bar.what, total=bar.total, completed=bar.done, count=self._count(), note="")

    def update(self, done: int, note: str | None) -> None:
        noted: dict[str, Any] = {} if note is None else {"note": note}
        self.progress.update(self.task, completed=done, count=self._count(), **noted)

    def close(self) -> None:
        if self.inner:
            self.progress.remove_task(self.task)
        else:
            _TerminalBar.outermost = None
            self.progress.stop()

    def _count(self) -> str:
        return f"{self.bar.done}/{self.bar.total}" if self.bar.lasting and self.bar.total is not None else ""


class _Lines:
    """Lines in a pipe or a file, now and then one on how far long work is."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self.last, self.note = bar, time.monotonic(), ""

    def update(self, done: int, note: str | None) -> None:
        self.note = self.note if note is None else note
        if time.monotonic() - self.last >= LINE_PERIOD:
            self.last = time.monotonic()
            total = "" if self.bar.total is None else f" of {self.bar.total:,}"
            say(f"{self.bar.what}: {done:,}{total}{f', {self.note}' if self.note else ''}")

    def close(self) -> None:
        """Nothing is left on the screen."""


class _NotebookBar:
    """A picture that is replaced in place. It needs no widgets, so that it shows in any notebook and once saved too."""

    def __init__(self, bar: Bar) -> None:
        # In a notebook this module is always there.
        shown: Any = import_module("IPython.display")
        self.bar, self.picture, self.began = bar, shown.HTML, time.monotonic()
        self.begun_at, self.last, self.note = bar.done, self.began, ""
        self.handle = shown.display(self.picture(self._html()), display_id=True)

    def update(self, done: int, note: str | None) -> None:
        self.note = self.note if note is None else note
        if time.monotonic() - self.last >= PERIOD:
            self.last = time.monotonic()
            self.handle.update(self.picture(self._html()))

    def close(self) -> None:
        self.handle.update(self.picture(self._html() if self.bar.lasting else ""))

    def _html(self) -> str:
        bar, reach, count, left = self.bar, "", "", ""
        if bar.total is not None:
            reach = f' value="{bar.done}" max="{bar.total}"'
            count = f" {bar.done:,} of {bar.total:,}" if bar.lasting else ""
            if self.begun_at < bar.done < bar.total:
                seconds = (time.monotonic() - self.began) / (bar.done - self.begun_at) * (bar.total - bar.done)
                left = f" <small>{timedelta(seconds=int(seconds))} left</small>"
        return f"<div>{escape(bar.what)} <progress{reach}></progress>{count} {escape(self.note)}{left}</div>"
