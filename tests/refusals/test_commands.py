"""What is wrong with a command is told in one line, with the command that explains it."""

from collections.abc import Callable

import pytest

from vlnbert.cli.main import VERBS

DEMO = ("train", "demo", "--data", "d", "--out", "o")
MISTAKES = [
    (
        ("train", "demo", "--training.rate", "1"),
        "no option --training.rate; use --training.learning-rate",
        "train demo",
    ),
    ((*DEMO, "--limit", "3"), "no option --limit; use --training.max-steps", "train demo"),
    ((*DEMO, "--lr=3"), "no option --lr; use --training.learning-rate", "train demo"),
    ((*DEMO, "--features", "F"), "no option --features; use --features.views", "train demo"),
    ((*DEMO, "--batch", "4"), "no option --batch; did you mean --training.batch?", "train demo"),
    ((*DEMO, "--training.batch", "x"), "--training.batch is 'x', where INT is expected", "train demo"),
    ((*DEMO, "--training.batch=x"), "--training.batch is 'x', where INT is expected", "train demo"),
    ((*DEMO, "--threads", "x"), "--threads is 'x', where INT is expected", "train demo"),
    ((*DEMO, "--training.batch"), "--training.batch is followed by no value", "train demo"),
    ((*DEMO, "foo"), "vlnbert train demo takes no 'foo'", "train demo"),
    (("train", "demo"), "--data DIR and --out RUN are missing", "train demo"),
    (("train", "--resum", "RUN"), "no option --resum; did you mean --resume?", "train"),
    (("train", "demo", "--out", "run"), "--data DIR is missing", "train demo"),
    (("evaluate", "--features", "F", "--data", "d"), "no option --features; use --features.views", "evaluate"),
    (("evaluate", "--limit", "3", "--data", "d"), "no option --limit; use --max-steps", "evaluate"),
    (
        ("evaluate", "run", "--splits", "val_unseen", "--checkpoint", "lst"),
        "--checkpoint is 'lst'; did you mean last?",
        "evaluate",
    ),
    (
        ("evaluate", "run", "--splits", "val_unseen", "--batch", "x"),
        "--batch is 'x', where INT is expected",
        "evaluate",
    ),
    (("demo", "--x"), "no option --x", "demo"),
    ((*DEMO, "--training.a\nb", "3"), r"no option --training.a\x0ab", "train demo"),
    (("data", "check"), "DIR is missing", "data check"),
    (("data", "check", "--jsn"), "no option --jsn; did you mean --json?", "data check"),
    (
        ("data", "holdout", "--data", "d"),
        "no option --data; write its value alone: vlnbert data holdout DIR",
        "data holdout",
    ),
    (("submit", "a.json", "--out", "b"), "no option --out; write its value alone: vlnbert submit FILE OUT", "submit"),
    (("demo", "--data", "d"), "no option --data", "demo"),
    (("data",), "vlnbert data is followed by check or r4r or holdout or fetch", "data"),
    (("data", "check", "--json=3", "d"), "--json takes no value", "data check"),
    ((*DEMO, "--training.graphs", "yes"), "vlnbert train demo takes no 'yes'", "train demo"),
    (
        (*DEMO, "--training.split-weights", "1", "x"),
        "--training.split-weights is 'x', where FLOAT is expected",
        "train demo",
    ),
    (
        (*DEMO, "--training.losses", "x"),
        "--training.losses is 'x', no name=value; write, for example, progress=0.5",
        "train demo",
    ),
    ((*DEMO, "--training.losses", "x=y"), "--training.losses x is 'y', where a number is expected", "train demo"),
    ((*DEMO, "--policy.settings", "a=1", "a=2"), "--policy.settings says a twice; leave one of them", "train demo"),
]


@pytest.mark.parametrize(("words", "problem", "verb"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_line(run: Callable, words: tuple[str, ...], problem: str, verb: str) -> None:
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"vlnbert: {problem}; vlnbert {verb} --help lists what it takes\n"


def test_what_is_resumed_keeps_its_settings(run: Callable) -> None:
    kept = "vlnbert: a run that is resumed keeps its settings; leave"
    preset = run("train", "demo", "--resume", "run")
    assert (preset.code, preset.err) == (2, f"{kept} demo out: vlnbert train --resume RUN\n")
    batch = run("train", "--resume", "run", "--training.batch", "4")
    begin = "begin another from its weights: vlnbert train PRESET --start RUN"
    assert (batch.code, batch.err) == (2, f"{kept} --training.batch out, or {begin}\n")


@pytest.mark.parametrize("columns", [40, 300])
def test_the_width_of_the_terminal_does_not_matter(
    run: Callable, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(*DEMO, "--training.objective.guidance", "1").err.startswith(
        "vlnbert: no option --training.objective.guidance; use --training.objective.student-forcing; "
    )
    assert "--training.batch is 'x', where INT is expected" in run(*DEMO, "--training.batch", "x").err


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "train"])
def test_help_is_still_help(run: Callable, verb: str) -> None:
    outcome = run(*verb.split(), "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"usage: vlnbert {verb} ")
