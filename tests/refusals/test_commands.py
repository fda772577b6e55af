"""What is wrong with a command is told in one line: its words, names and settings; docs/mistakes.md has more."""

from collections.abc import Callable
from pathlib import Path

import pytest

import vlnbert as vln
from vlnbert.cli.main import VERBS

DEMO = ("train", "demo", "--data", "d", "--out", "o")
# The words, what is told, and the verb whose help is named.
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


TRAIN = "train demo --data {house} --out {tmp}/run"
EVALUATE = "evaluate --data {house}"
# What is given -> what its line holds. {run} is a run of six updates, {house} its data, {tmp} an empty folder.
REFUSED = {
    "data chek": "no verb 'data chek'; did you mean data check",
    "house {tmp}/new --scans 1": "1 scans",
    "data check {house}/vocab.txt": "is a file, not a data folder",
    f"{EVALUATE} --agent stop --max-steps 3000000": "--max-steps 3000000",
    f"{EVALUATE} --agent stop --max-steps 0": "--max-steps 0",
    f"{EVALUATE} --agent stop --splits": "no split to walk",
    f"{EVALUATE} --agent shortest --splits test": "withholds its goals",
    f"{EVALUATE} --agent clever": "vlnbert: no agent 'clever'; known: follow, ",
    f"{EVALUATE} --agent none.py:Mine": "vlnbert: no plugin at ",
    f"{EVALUATE} --agent vlnbert.rollout.baselines:Mine": "no agent in vlnbert.rollout.baselines called 'Mine'",
    f"{EVALUATE} --agent vlnbert.errors:Faults": "vlnbert: Faults asks for path",
    f"{EVALUATE} {{tmp}}/nobody/": "no such file or folder",
    "train --resume {run} --training.iterations 99": (
        "{run} cannot be extended: its cosine learning rate comes down over 6 updates, to its end with the last of "
        "them; begin another from its weights: vlnbert train PRESET --start {run}"
    ),
    f"{TRAIN} --training.batch 3": "no two halves",
    f"{TRAIN} --training.iterations 0": "--training.iterations is 0",
    f"{TRAIN} --best-on r2r/val_seen": "not validated",
    f"{TRAIN} --start {{run}} --navigator.layers 3": (
        "--navigator.layers is 3, but the weights to start from decided on 2; leave it out"
    ),
    f"{TRAIN} --start {{run}} --navigator.hidden=64": (
        "--navigator.hidden is 64, but the weights to start from decided on 16; leave it out"
    ),
    f"{TRAIN} --navigator.vocabulary 9": "--navigator.vocabulary is 9, but the data decided on ",
    f"{TRAIN} --navigator.hidden-dropout 2": "--navigator.hidden-dropout is 2.0; choose",
    f"{TRAIN} --training.objective.value -1": "--training.objective.value is -1.0; choose",
    f"{TRAIN} --threads 0": "--threads 0",
    f"{TRAIN} --max-tokens 1": "--max-tokens 1 leaves",
    f"{TRAIN} --device gpu": "no device 'gpu' here",
    "bench train dmeo --data {house}": "did you mean demo",
    "bench train --updates 0 --data {house}": "--updates 0",
    "bench train --rounds 1 --data {house}": "--rounds 1",
    "bench train --batch 3 --data {house}": "a batch of 3 has no two halves",
    "bench train --device gpu --data {house}": "no device 'gpu'",
    "bench train --data nowhere": "no such data folder",
    "bench evaluate --split val_unsen --data {house}": "did you mean val_unseen",
    "bench evaluate --batch 0 --data {house}": "--batch 0",
    "bench evaluate --episodes 0 --data {house}": "--episodes 0",
    "bench evaluate --threads 0 --data {house}": "--threads 0",
}


@pytest.mark.parametrize("words", REFUSED)
def test_it_is_told_in_one_line_and_nothing_is_written(
    run: Callable, words: str, house: Path, trained: vln.Run, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    places = {"house": house, "run": trained.folder, "tmp": empty}
    outcome = run(*(word.format(**places) for word in words.split()))
    assert (outcome.code, outcome.out) == (2, "")
    [line] = outcome.err.splitlines()
    assert line.startswith("vlnbert: ")
    assert REFUSED[words].format(**places) in line
    assert list(empty.iterdir()) == []
