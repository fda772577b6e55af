"""`vlnbert report`: the page of a run, and the commands in it, which make such a run again."""

import json
import shlex
from html import unescape
from pathlib import Path

import pytest

from tests.analysis.pages import Page
from tests.cli.conftest import TINY, Run, called

SHORT = ("--training.iterations", "2", "--training.validate-every", "2", "--training.warmup", "0")


@pytest.fixture(scope="module")
def trained(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "run"
    assert called("train", "demo", "--data", house, "--out", folder, *TINY, *SHORT, "--training.no-graphs").code == 0
    return folder


def test_commands_name_the_folder_as_it_was_named(trained: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained.parent.parent)
    named = trained.relative_to(trained.parent.parent)
    assert run("report", named, "--episodes", 1).code == 0
    words = shlex.split(
        unescape(Page(trained / "report.html").source.split("<pre")[1].split("<code>")[1]).splitlines()[0]
    )
    assert words[words.index("--out") + 1] == str(named)


def test_a_report_and_its_commands(trained: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run("report", trained, "--episodes", 2)
    assert (outcome.code, outcome.out) == (0, f"{trained / 'report.html'}\n")
    page = Page(trained / "report.html")
    assert len(page.all("article")) == 2
    commands = unescape(page.source.split("<pre")[1].split("<code>")[1].split("</code>")[0]).splitlines()
    train, evaluate, report = map(shlex.split, commands)
    assert train[:3] == ["vlnbert", "train", "demo"]
    monkeypatch.chdir(tmp_path)
    for words in (train, evaluate, report):
        assert run(*words[1:]).code == 0
    first, again = (json.loads((folder / "run.json").read_text()) for folder in (trained, tmp_path / "run"))
    assert first["experiment"] == again["experiment"]
    scores = [Page(folder / "report.html").data["scores"] for folder in (trained, tmp_path / "run")]
    assert scores[0] == scores[1]


def test_a_split_that_was_not_validated(trained: Path, run: Run) -> None:
    outcome = run("report", trained, "--split", "r2r/test")
    assert outcome.code == 2
    assert outcome.err.startswith(f"vlnbert: {trained} was not validated on r2r/test; ")
    assert outcome.err.count("\n") == 1
