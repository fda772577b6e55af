"""The mistakes that users make most get the answers that `docs/mistakes.md` promises; its rows are tried one by one."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
import vlnbert.cli.main
from tests.cli.conftest import called
from tests.docs.test_pages import spoken
from tests.processes import PATIENCE
from tests.refusals.mistakes import CALL, CTRL_C, PAGE, ROOT, Mistake, files, interrupted, make_folder, mistakes
from vlnbert.cli.main import _interrupt

HERE = "tests/refusals/test_mistakes.py"
ROWS = mistakes()
# Where long work is when the user has enough of it.
PLACES = {
    "evaluate": "vlnbert.evaluation.walker.evaluate_agent",
    "house": "vlnbert.house.write.build",
    "data check": "vlnbert.data.inventory.take_inventory",
    "data r4r": "vlnbert.tasks.made_paths.joined_items",
    "features captions": "vlnbert.features.encoder.open_encoder",
    "report": "vlnbert.api.reporting.compare_with_baselines",
    "bench evaluate": "vlnbert.benchmarking.time_evaluation",
    "bench train": "vlnbert.benchmarking.time_training",
}


def held_by(test: str) -> list[Any]:
    return [pytest.param(row, id=f"{row.number} {row.what}") for row in ROWS if row.test == f"{HERE}::{test}"]


@pytest.fixture(scope="module")
def folder(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page says lies there."""
    made = tmp_path_factory.mktemp("trial").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        make_folder(made, house)
    return made


@pytest.mark.parametrize("mistake", held_by("test_answers"))
def test_answers(mistake: Mistake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "--device cuda" in mistake.done and torch.cuda.is_available():
        pytest.skip("there is a GPU here, so this is no mistake")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    before = files(folder)
    if mistake.done.startswith(CALL):
        with pytest.raises(vln.VlnbertError) as caught:
            eval(mistake.done, {"vln": vln})
        code, lines = type(caught.value).__name__, str(caught.value).splitlines()
    else:
        program, *words = shlex.split(mistake.done)
        assert program == "vlnbert"
        outcome = called(*words)
        code, lines = str(outcome.code), outcome.err.splitlines()
        assert outcome.out == ""
    assert mistake.answered_by(lines), lines
    assert code == mistake.code
    assert files(folder) == before, "something was written, or changed"


@pytest.mark.parametrize("mistake", held_by("test_ctrl_c"))
def test_ctrl_c(mistake: Mistake, folder: Path, tmp_path: Path) -> None:
    words = shlex.split(mistake.done.removesuffix(CTRL_C))[1:]
    place = PLACES.get(" ".join(words[:2])) or PLACES[words[0]]
    before = files(folder)
    code, told = interrupted(words, place, folder, tmp_path, signal.SIGINT, PATIENCE)
    assert mistake.answered_by(told.splitlines()), told
    assert str(code) == mistake.code
    assert files(folder) == before, "something was left behind"


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_ctrl_c_while_it_starts(name: str, code: int) -> None:
    """When the first modules are imported, before the command line is there to answer."""
    words = [sys.executable, "-X", "importtime", "-m", "vlnbert", "presets"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "argparse" in line:
            process.send_signal(getattr(signal, name))
            break
    left = process.communicate()[1]
    assert process.returncode == code
    assert left.splitlines()[-1] == "vlnbert: interrupted"
    assert "Traceback" not in left


def test_of_several_processes_one_is_interrupted_aloud(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """torchrun terminates all of them where one has told what is wrong."""

    def interrupt(words: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(vlnbert.cli.main, "_run", interrupt)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for rank, said in {"0": "vlnbert: interrupted\n", "1": ""}.items():
        monkeypatch.setenv("LOCAL_RANK", rank)
        with pytest.raises(SystemExit, match="130"):
            vlnbert.cli.main.main()
        assert capfd.readouterr().err == said


def test_ctrl_c_while_torch_is_imported(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """It ends the process if an exception reaches it then."""
    left = []
    monkeypatch.setattr(os, "_exit", left.append)
    with pytest.raises(KeyboardInterrupt):
        _interrupt()
    assert left == []
    monkeypatch.setattr(torch.__spec__, "_initializing", True)
    with pytest.raises(KeyboardInterrupt):  # since the process did not end here
        _interrupt()
    with pytest.raises(KeyboardInterrupt):
        _interrupt(signal.SIGTERM)
    assert left == [130, 143]
    assert capfd.readouterr().err == "vlnbert: interrupted\n" * 2


def test_the_page_has_forty_mistakes_or_more() -> None:
    assert [row.number for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) >= 40
    assert PAGE.read_text().count("\n| ") == len(ROWS) + PAGE.read_text().count("\n| --- ") * 2 + len(lying())
    assert all(row.answer for row in ROWS)


def lying() -> list[str]:
    """What the page says lies in the folder."""
    return re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)


def test_the_folder_is_as_the_page_says(folder: Path) -> None:
    tops = {name.partition("/")[0] for name in lying()}
    assert tops == {path.name for path in folder.iterdir()}
    assert all((folder / name).exists() for name in lying())


@pytest.mark.parametrize("test", sorted({row.test for row in ROWS}))
def test_the_tests_that_the_page_names_exist(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_answers_that_other_tests_hold_are_in_their_words() -> None:
    others = [row for row in ROWS if not row.test.startswith(HERE)]
    assert others
    for row in others:
        pieces = [piece.strip(" :;()") for line in row.answer for piece in line.removeprefix("vlnbert: ").split("…")]
        text = "\n".join([*spoken(), (ROOT / row.test.partition("::")[0]).read_text()])
        assert [piece for piece in pieces if piece not in text] == []


def test_an_answer_must_be_whole() -> None:
    row = Mistake(1, "", "", ("vlnbert: … is bad; mend it",), "2", "")
    assert row.answered_by(["vlnbert: a.b is bad; mend it"])
    assert not row.answered_by(["vlnbert: a.b is bad; mend it", "another line"])
    assert not row.answered_by(["vlnbert: a.b is bad; mend it all"])
    assert not row.answered_by([])


@pytest.mark.parametrize(("kind", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_verb_prints_no_half_of_an_object(
    house: Path, monkeypatch: pytest.MonkeyPatch, kind: signal.Signals, code: int
) -> None:
    """What reads `--json` gets an object or nothing."""
    monkeypatch.setattr("vlnbert.evaluation.walker.evaluate_agent", lambda *_, **__: signal.raise_signal(kind))
    outcome = called("evaluate", "--agent", "random", "--data", house, "--json")
    assert (outcome.code, outcome.out, outcome.err) == (code, "", "vlnbert: interrupted\n")
