"""Whatever a command prints, help or error, names only options that this command has, or the command that has them."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import TINY, Run, called
from tests.cli.named_options import COMMANDS, EVERYWHERE, SOURCE, TRAINS, named, options, parser, places, texts, wrong
from tests.refusals.mistakes import mistakes
from vlnbert.cli import main
from vlnbert.cli.parser import Command

FLAGS = ("allow_missing", "training.graphs")
LITERALS = [(path.relative_to(SOURCE), text) for path in sorted(SOURCE.rglob("*.py")) for text in texts(path)]


def commands_of(module: Path) -> list[str]:
    """The commands that a module of the command line is; all of them where it helps them."""
    name = f"vlnbert.{'.'.join(module.with_suffix('').parts)}"
    own = [verb for verb, command in main.VERBS.items() if command.function.__module__ == name]
    return own or list(main.VERBS) if module.parts[0] == "cli" else []


def test_an_option_is_found_with_its_command() -> None:
    said = (
        "by --aa, or vlnbert evaluate RUN --bb; else --cc (vlnbert data fetch DIR --dd) --ee. torchrun --ff -m vlnbert"
    )
    found = {("--aa", "show"), ("--bb", "evaluate"), ("--cc", "show"), ("--dd", "data fetch"), ("--ee", "show")}
    assert set(named(said, "show")) == found
    assert wrong("vlnbert train PRESET --training.batch 4, --json", "show") == ["--json of train"]
    assert wrong("name it by --features.views", "explore") == ["--features.views of explore"]


@pytest.mark.parametrize("command", COMMANDS)
def test_settings_are_spelt_as_the_command_takes_them(command: str) -> None:
    """Every setting that any message may name, in every command; no more than a word where no command has it."""
    known, reader = options(command), parser(command)
    for place in sorted(places()):
        for value in (True, False) if place in FLAGS else (None, "VALUE"):
            text = reader.spell(place, value)
            assert not wrong(text, command), f"{place}: {text}"
            assert text.partition(" ")[0] in known or not text.startswith("-")


def test_a_setting_without_a_name_is_spelt_as_its_value() -> None:
    def verb(data: str) -> None: ...

    reader = Command("a verb", verb, places=("data",))
    assert reader.spell("data", "house") == "house"
    assert reader.spell("data", None) == "DIR"
    assert reader.spell("tellings", 3) == "tellings 3"


@pytest.mark.parametrize(("module", "text"), LITERALS, ids=lambda value: str(value)[:40])
def test_what_is_written_in_the_source(module: Path, text: str) -> None:
    """Rooms below the command line name settings, which are spelt where they are read, or whole commands."""
    for option, command in named(text):
        known = set[str]().union(*map(options, [command] if command else commands_of(module)))
        begins = " " not in text and any(one.startswith(option) for one in known)  # a word that is looked for
        assert option in EVERYWHERE | known or begins, f"{option} in {text!r}"


@pytest.mark.parametrize("command", [*COMMANDS, "train"])
def test_help_names_options_that_are_there(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "10000")  # a paragraph is a line
    words = [*command.split(), "run"] if command.endswith("--resume") else command.split()
    outcome = run(*words, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert not wrong(outcome.out, command)


def test_the_page_of_mistakes() -> None:
    """Its answers are what commands print."""
    checked = 0
    for mistake in mistakes():
        if not mistake.done.startswith("vlnbert "):
            continue
        words = mistake.done.split()[1:]
        verb = next((one for one in (" ".join(words[:2]), words[0]) if one in main.VERBS), "")
        for line in mistake.answer if verb else ():
            said = re.sub(r"no option --\S+", "", line)  # what was mistyped
            assert not wrong(said, verb), mistake
            checked += "--" in said
    assert checked > 10


@pytest.fixture(scope="module")
def folder(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A house; the same without features; and a run in it."""
    root = tmp_path_factory.mktemp("named")
    (root / "house").symlink_to(house)
    shutil.copytree(house, root / "bare", ignore=shutil.ignore_patterns("features"))
    shutil.copytree(house, root / "empty", ignore=shutil.ignore_patterns("*.json"))
    short = ("--training.iterations", "2", "--training.validate-every", "2")
    assert called("train", "demo", "--data", house, "--out", root / "run", *TINY, *short).code == 0
    walk = ("evaluate", "--agent", "random", "--data", house, "--splits", "val_unseen", "--out", root)
    assert called(*walk).code == 0
    (root / "results.json").write_text((root / "r2r_val_unseen_random.json").read_text())
    (root / "notes.txt").write_text("buy milk\n")
    (root / "half.json").write_text("[" + (root / "results.json").read_text()[1:200])
    return root


# For each verb, words that it refuses. BARE is a house without features, RUN a run, R result files.
BAD: dict[str, list[str]] = {
    "demo": ["--scans 0", "--seed -1", "--task x", "--iterations 0", "--threads 0"],
    "train": [
        "demo --data bare --out a --features.views none.hdf5",
        "demo --data house --out a --training.batch 0",
        "demo --data house --out a --holdout 99",
        "demo --data house --out a --validate-on r2r/dev_unseen",
        "demo --data house --out a --navigator.heads 7",
        "demo --data house --out a --max-tokens 2",
        "demo --data house --out a --train-on r2r/aug",
        "r2r-one-stream --data bare --out a --train-on r2r/train",
        "speaker-demo --data house --out a --speaker.max-hops 1",
        "--resume run --training.iterations 1",
        "--resume run --training.iterations 9",
        "--resume notes.txt",
    ],
    "house": ["bare", "a --scans 0", "notes.txt"],
    "data fetch": ["notes.txt", "a --only x", "a --only", "a --mirror file:///x", "bare --only vocabulary"],
    "data check": ["none", "notes.txt", "empty"],
    "data r4r": ["none", "notes.txt"],
    "data holdout": ["house --holdout 99", "house --holdout 0", "none"],
    "world candidates": ["none --data house", "x --data none"],
    "world check": ["--data none", "--data notes.txt"],
    "features views": ["--data house --views x", "--data bare --views depth", "--data house --encoder ./none"],
    "features captions": ["--data none", "--data house --encoder ./none", "--data house --device x"],
    "features objects": ["--data house --objects x", "--data none", "--data house --encoder ./none"],
    "augment paths": [
        "--data house --out a.json --count 0",
        "--data none --out a.json",
        "--data house --out notes.txt",
    ],
    "augment speak": [
        "run --paths results.json --out a.json --data house",
        "run --paths results.json --out a_aug.json --data house",
        "run --paths results.json --out a_aug.json --data house --tellings 0",
        "run --paths results.json --out a_aug.json --data house --tellings 2",
        "./none --paths results.json --out a_aug.json --data house",
        "run --paths none --out a_aug.json --data house --within 3",
    ],
    "augment sub-instructions": ["--data house --out a.json", "--data none --out a.json"],
    "presets": ["x"],
    "plugins": ["x"],
    "completion": ["tcsh", ""],
    "version": ["x"],
    "curves": ["none", "notes.txt", "run --out none/a/b.txt", "run --split x"],
    "report": [
        "none --out a.html",
        "run --data bare --out a.html",
        "run --out a.html --episodes 0",
        "run --out a.html --split x",
        "run --data none",
    ],
    "explore": [
        "--data bare",
        "./none",
        "run --data bare",
        "run --data none",
        "random --data none",
        "run --port -1",
        "run run run",
    ],
    "show": [
        "run --episode x",
        "run",
        *(f"{words} --episode 10_0" for words in ("run --split x", "run --split r2r/dev_unseen", "./none", "random")),
        *(f"{words} --episode 10_0" for words in ("results.json", "results.json --data house", "run --data none")),
        *(f"{words} --episode 10_0" for words in ("run --max-steps 0", "run --data bare", "results.json random")),
    ],
    "compare": [
        "run",
        "run ./none",
        "run run --split x",
        "run random --data bare",
        "results.json results.json",
        "run random --episodes -1",
    ],
    "evaluate": [
        "run --agent random",
        "--data house",
        "run --data bare --features.views none.hdf5",
        "run --data house --features.view-width 3",
        "run --split dev_unseen",
        "run --split x",
        "run --batch 0",
        "run --device x",
        "--agent random --data house --features.views captions",
        "--agent random --data house --precision bfloat16",
        "--agent random",
        "run --data none",
    ],
    "score": [
        "none --task r2r --split val_unseen --data house",
        "half.json --task r2r --split val_unseen --data house",
        "results.json --task r2r --split val_seen --data house",
        "results.json --task r2r --split test --data house",
        "results.json --task r2r --split x --data house",
        "results.json --task x --split val_unseen --data house",
        "results.json --task r2r --split val_unseen --data notes.txt",
        "results.json --task r2r --split reverie/val_unseen --data house",
        "run --task r2r --split val_unseen --data house",
    ],
    "submit": [
        "results.json a.json --task r2r --data house",
        "none a.json --task r2r --data house",
        "half.json a.json --task r2r --data house",
        "results.json run --task r2r --data house --split val_unseen",
        "results.json notes.txt/a.json --task r2r --data house --split val_unseen",
    ],
    "speak": ["run --split x", "run", "./none --split r2r/val_unseen", "run --navigator run --split r2r/val_unseen"],
    "weights import": ["./none a", "notes.txt a", "run a --heads 7", "run a --cross-layers -1"],
    "weights inspect": ["./none", "notes.txt", "run --heads 2"],
    "weights export": ["./none a", "notes.txt a", "run/best notes.txt/a"],
    "bench train": ["x", "demo --data none", "demo --rounds 0", "demo --updates 0"],
    "bench evaluate": ["x", "demo --data none", "demo --rounds 0", "demo --episodes 0", "demo --batch 0"],
}


def test_every_verb_is_provoked() -> None:
    assert set(BAD) == set(main.VERBS)


@pytest.mark.parametrize(("verb", "words"), [(verb, words) for verb, several in BAD.items() for words in several])
def test_bad_input_is_answered_with_options_that_are_there(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, verb: str, words: str
) -> None:
    """One line a fault, which says what to do; nothing is written."""
    monkeypatch.chdir(folder)
    before = contents(folder)
    outcome = run(*verb.split(), *words.split())
    assert outcome.code == 2, outcome.out + outcome.err
    told = [line for line in outcome.err.splitlines() if line.startswith("vlnbert: ")]
    assert told
    assert all(len(line) <= 500 and line.isprintable() for line in outcome.err.splitlines())
    assert all("; " in line for line in told), "no remedy"
    at_hand = verb
    if verb == "train":
        at_hand = next((one for one in TRAINS if f"train {words}".startswith(one)), "train")
    for line in told:
        assert not wrong(re.sub(r"no option --\S+", "", line), at_hand), line
    assert contents(folder) == before, "something was written"


def contents(folder: Path) -> dict[Path, Any]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_explore_suggests_no_option_that_it_refuses(run: Callable, folder: Path) -> None:
    outcome = run("explore", "--data", folder / "bare")
    assert outcome.err == (
        f"vlnbert: {folder}/bare/features: holds no feature file; "
        "the agent that ships sees generated houses only; name another, such as random\n"
    )
