"""Bars and lines: in a terminal, in a notebook, and nowhere where nobody looks."""

import io
import os
import pty
import sys
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from vlnbert import progress
from vlnbert.progress import Bar, WatchedFile, in_notebook, quiet, say, track


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Standard error as a terminal within the block; afterwards, what was written to it."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with monkeypatch.context() as patch, open(theirs, "w") as stream:  # noqa: PTH123  # a terminal has no path
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "100")
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(sys, "stderr", stream)
        yield lambda: _arrived(ours)
    os.close(ours)


def _arrived(terminal: int) -> str:
    """What a terminal was sent so far; it comes in pieces, a moment later."""
    text = b""
    while select([terminal], [], [], 0.1)[0]:
        text += os.read(terminal, 1 << 16)
    return text.decode()


class Notebook:
    """What a Jupyter kernel would show: the picture of each display, and how often it was replaced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[list[str]] = []
        package, display = ModuleType("IPython"), ModuleType("IPython.display")
        vars(package).update(get_ipython=lambda: SimpleNamespace(kernel=object()), display=display)
        vars(display).update(HTML=str, display=self.display)
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, html: str, display_id: bool) -> Any:
        pictures = [html]
        self.shown.append(pictures)
        return SimpleNamespace(update=pictures.append)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    return Notebook(monkeypatch)


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as written:
        with Bar("training [x]", 4, lasting=True) as bar:
            bar.update(4, "loss [2.00]")
            bar.say("a line")
        text = written()
    assert "training [x]" in text
    assert "━" in text
    assert "4/4" in text
    assert "loss [2.00]" in text
    assert "a line" in text


def test_a_note_stays_until_there_is_another(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    with Bar("training", 3, lasting=True) as bar:
        bar.update(1, "loss 2.00")
        bar.update(2)
    assert "loss 2.00" in notebook.shown[0][-1]
    monkeypatch.undo()
    with terminal(monkeypatch) as written:
        with Bar("training", 3, lasting=True) as bar:
            bar.update(1, "loss 2.00")
            bar.update(3)
        assert "3/3 loss 2.00" in written()


def test_a_pipe_shows_no_bar_and_all_lines(capfd: pytest.CaptureFixture[str]) -> None:
    with Bar("training", 4) as bar:
        for done in range(5):
            bar.update(done, "loss")
        bar.say("beside the bar")
    assert list(track("abc", "letters")) == ["a", "b", "c"]
    say("a line")
    assert capfd.readouterr() == ("", "beside the bar\na line\n")


def test_quiet_silences_bars_and_lines(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with terminal(monkeypatch) as written, quiet():
        with Bar("training", 4) as bar, quiet(False):  # who asks for silence around it gets it
            bar.update(1)
            bar.say("a line")
        say("another")
        assert written() == ""
    say("aloud")
    assert capfd.readouterr() == ("", "aloud\n")


def test_quiet_ends_with_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), quiet():
        raise KeyError
    with quiet(False):
        say("aloud")
    assert capfd.readouterr().err == "aloud\n"


def test_bars_within_bars_stand_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner one goes when it is done, the lasting outer one stays; a later bar begins anew."""
    with terminal(monkeypatch) as written:
        with Bar("outer", 2, lasting=True) as outer:
            for done in (1, 2):
                for _ in track(range(3), "inner"):
                    outer.shown.progress.refresh()  # type: ignore[union-attr]
                    assert len(outer.shown.progress.tasks) == 2  # type: ignore[union-attr]
                outer.update(done)
                assert len(outer.shown.progress.tasks) == 1  # type: ignore[union-attr]
        text = written()
        assert "\ninner" in text, "below, not over it"
        assert text.rpartition("outer")[2].count("inner") == 0
        with Bar("later", 1) as later:
            assert later.shown.progress is not outer.shown.progress  # type: ignore[union-attr]
        assert "later" in written()


def test_a_bar_closes_when_its_loop_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch):
        for _ in track(range(3), "inner"):
            break
        assert progress._TerminalBar.outermost is None
        with pytest.raises(KeyError), Bar("outer", 2):
            raise KeyError
        assert progress._TerminalBar.outermost is None


def test_track_knows_what_it_can_count(notebook: Notebook) -> None:
    assert list(track([1, 2], "counted")) == [1, 2]
    assert list(track(iter([1, 2]), "uncounted")) == [1, 2]
    assert 'max="2"' in notebook.shown[0][0]
    assert "max=" not in notebook.shown[1][0]


def test_a_notebook_is_told_from_a_shell(monkeypatch: pytest.MonkeyPatch, notebook: Notebook) -> None:
    assert in_notebook()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: object())
    assert not in_notebook(), "IPython in a terminal"
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()


def test_a_notebook_bar_is_escaped_and_stays(notebook: Notebook) -> None:
    with Bar("<b>training</b>", 1000, lasting=True) as bar:
        bar.update(1000, "loss <2>")
    last = notebook.shown[0][-1]
    assert "&lt;b&gt;training&lt;/b&gt;" in last
    assert "loss &lt;2&gt;" in last
    assert '<progress value="1000" max="1000">' in last
    assert "1,000 of 1,000" in last
    with Bar("passing", 2) as bar:
        bar.update(1)
    assert notebook.shown[1][-1] == ""


def test_a_notebook_bar_is_drawn_five_times_a_second_at_most(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with Bar("training", 100, lasting=True) as bar:
        for done in range(1, 101):
            clock[0] += 1 / 16
            bar.update(done, f"loss {done}")
    pictures = notebook.shown[0]
    assert len(pictures) - 2 == 25, "every fourth update; besides, one at either end"
    assert "loss 100" in pictures[-1]
    assert "left" not in pictures[-1]
    assert "0:00:0" in pictures[10]


def test_a_bar_that_goes_on_reckons_with_what_it_did(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with Bar("training", 100, done=90, lasting=True) as bar:
        clock[0] += 10
        bar.update(95)
        assert "0:00:10 left" in notebook.shown[0][-1]


@pytest.mark.parametrize(
    "read",
    [
        lambda file: file.read(),
        lambda file: b"".join(iter(lambda: file.read(3), b"")),
        lambda file: b"".join(iter(file.readline, b"")),
        lambda file: b"".join(file),
        lambda file: b"".join(_filled(file)),
        lambda file: io.TextIOWrapper(io.BufferedReader(_Raw(file))).read().encode(),
    ],
    ids=["whole", "pieces", "lines", "iteration", "into", "buffered"],
)
def test_a_watched_file_is_the_same_and_counted(read: Callable[[Any], bytes], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n\nthree")
    with path.open("rb") as file, Bar("reading", path.stat().st_size) as bar:
        assert read(WatchedFile(file, bar)) == path.read_bytes()
        assert bar.done == path.stat().st_size


def _filled(file: WatchedFile) -> Iterator[bytes]:
    buffer = bytearray(4)
    while count := file.readinto(buffer):
        yield bytes(buffer[:count])


class _Raw(io.RawIOBase):
    """A watched file as the readers of the standard library want it."""

    def __init__(self, file: WatchedFile) -> None:
        self.file = file

    def readable(self) -> bool:
        return self.file.readable()

    def readinto(self, buffer: Any) -> int:
        return self.file.readinto(buffer)


def test_a_pipe_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Bar("training", 3000) as bar:
        for done in range(1, 11):
            now[0] += 10.0
            bar.update(done, f"loss {10 - done}")
    with quiet(), Bar("reading", 3) as bar:
        now[0] += 100.0
        bar.update(1)
    lines = ["training: 3 of 3,000, loss 7", "training: 6 of 3,000, loss 4", "training: 9 of 3,000, loss 1"]
    assert capsys.readouterr().err.splitlines() == lines
