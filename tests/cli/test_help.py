"""The help of every verb: whole paragraphs, options by their type, and settings that can be unset."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.conftest import TINY
from vlnbert.cli.main import VERBS
from vlnbert.cli.parser import explained
from vlnbert.learning.runs import read_record

COMMANDS = [verb.split() for verb in VERBS if verb != "train"]
COMMANDS += [["train", "demo"], ["train", "reverie-open"], ["train", "--resume", "run"]]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_options_are_explained_in_whole_paragraphs(
    run: Callable, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """A line ends where the next word would not have fitted in 80 columns, not where the source did."""
    monkeypatch.setenv("COLUMNS", "80")
    outcome = run(*words, "--help")
    assert outcome.code == 0
    assert "{None}" not in outcome.out
    lines = outcome.out.splitlines()
    explained = [pair for pair in pairwise(lines) if all(one[:6].isspace() and one.strip() for one in pair)]
    for line, following in explained:
        assert len(line.rstrip()) + 1 + len(following.split()[0]) > 78, f"{line}|{following}"


def test_a_docstring_loses_its_line_breaks() -> None:
    def verb() -> None:
        """One sentence, which
        goes on.

        Example: a - b
        - c

        Args:
            first: What it is, and
                more of it: there
                -x too.
            second: Short.
        """

    paragraphs, arguments = explained(verb)
    assert paragraphs == ["One sentence, which goes on.", "Example: a - b - c"]
    assert arguments == {"first": "What it is, and more of it: there -x too.", "second": "Short."}


def test_types_are_named_alone(run: Callable) -> None:
    shown = " ".join(run("evaluate", "--help").out.split())
    for option in ("--max-steps INT Steps", "--out DIR Folder", "--features.views STR What", "--data DIR Folder"):
        assert option in shown
    assert not re.search(r"\{None\}|\|STR", shown)


def test_a_setting_can_be_unset(run: Callable, house: Path, tmp_path: Path) -> None:
    """The word None stands for no value, as it always has; presets may have one."""
    words = ("--training.iterations", "1", "--training.max-steps", "None", "--max-tokens", "30")
    outcome = run("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY, *words)
    assert outcome.code == 0, outcome.err
    experiment = read_record(tmp_path / "run").experiment
    assert (experiment.training.max_steps, experiment.max_tokens) == (None, 30)
