"""The help of every verb: whole paragraphs, options by their type, and settings that can be unset."""

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import vlnbert as vln
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
    assert "vln." not in outcome.out, "that is for Python"
    lines = outcome.out.splitlines()
    explained = [pair for pair in pairwise(lines) if all(one[:6].isspace() and one.strip() for one in pair)]
    for line, following in explained:
        assert len(line.rstrip()) + 1 + len(following.split()[0]) > 78, f"{line}|{following}"


def test_the_settings_of_a_training_come_in_two_helpings(run: Callable) -> None:
    """Those that people change most, then all of them under the headings of their groups."""
    few, all_of_them = run("train", "demo", "--help").out, run("train", "demo", "--help-all").out
    assert "--training.batch INT" in few
    assert "--training.rewards.departure" not in few
    assert few.count("\n  --") < 25
    assert "more settings: vlnbert train demo --help-all" in few
    assert "--training.rewards.departure, --training.rewards.no-departure" in all_of_them
    assert "\nnavigator:\n" in all_of_them
    assert "more settings" not in all_of_them


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_overview_is_as_wide_as_the_terminal(run: Callable, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("--help").out.splitlines()
    longest = max(columns, max(map(len, VERBS)) + 4 + 20)  # a column of names, and a narrow one beside it
    assert max(map(len, lines)) <= longest
    assert [line for line in lines if line.endswith(":") and not line.startswith(" ")][:5] == [
        f"{group}:" for group in ("start", "data", "train", "look", "extend")
    ]
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in VERBS)


def test_help_of_a_verb_by_its_name(run: Callable) -> None:
    assert run("help", "data", "check").out == run("data", "check", "--help").out
    assert run("help").out == run("--help").out
    assert "data holdout" in run("data", "--help").out
    assert run("help", "evalute").err == "vlnbert: no verb 'evalute'; did you mean evaluate or bench evaluate?\n"


def test_the_version(run: Callable) -> None:
    assert run("version").out == run("--version").out == f"vlnbert {vln.__version__}\n"


HEAVY = """
import sys
from vlnbert.cli.main import VERBS
for verb in sys.argv[1].split(","):
    VERBS[verb].help()
    print(verb, "torch" in sys.modules)
"""


def test_explaining_a_verb_needs_no_torch() -> None:
    modules = ("data", "demonstrating", "looking", "speaking", "weights")
    verbs = [name for name, one in VERBS.items() if one.of.partition(":")[0].rpartition(".")[2] in modules]
    assert len(verbs) > 25
    done = subprocess.run([sys.executable, "-c", HEAVY, ",".join(verbs)], capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line.endswith("True")] == []


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
    for option in (
        "--max-steps INT Steps",
        "--out DIR Folder",
        "--features.views STR Features",
        "--data DIR Data folder",
    ):
        assert option in shown
    assert not re.search(r"\{None\}|\|STR", shown)


def test_a_setting_can_be_unset(run: Callable, house: Path, tmp_path: Path) -> None:
    """The word None stands for no value, as it always has; presets may have one."""
    words = ("--training.iterations", "1", "--training.max-steps", "None", "--max-tokens", "30")
    outcome = run("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY, *words)
    assert outcome.code == 0, outcome.err
    experiment = read_record(tmp_path / "run").experiment
    assert (experiment.training.max_steps, experiment.max_tokens) == (None, 30)
