"""docs/extending.md is true: it quotes the examples as they are, and what it runs runs."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.api.conftest import QUIETLY
from tests.api.conftest import TINY as CHANGES
from tests.cli.conftest import TINY, called
from tests.examples.conftest import EXAMPLES
from tests.test_docs import blocks

PAGE = (EXAMPLES.parent / "docs" / "extending.md").read_text()
UPDATES = ("--training.iterations", "2", "--training.validate-every", "2")
SHAPE = ("hidden", "heads", "inner")  # settings of a navigator, which other policies do not have
ELSEWHERE = ("--device cuda", "vlnbert house")  # commands for another machine, and the one that the fixture stands for


@pytest.fixture
def place(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_plugins: Callable[[], None]) -> Path:
    """A folder as the page has it: a house, the examples and the page's experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "house").symlink_to(house)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    (tmp_path / "my.json").write_text(blocks(PAGE, "json")[0])
    return tmp_path


def test_examples_are_quoted_as_they_are() -> None:
    quoted = re.findall(r'^```python title="examples/(\w+\.py)"\n(.*?)^```', PAGE, flags=re.MULTILINE | re.DOTALL)
    assert {name for name, _ in quoted} == {path.name for path in EXAMPLES.glob("own_*.py")}
    for name, code in quoted:
        assert code in (EXAMPLES / name).read_text(), f"{name} is quoted otherwise"


def test_its_python_runs(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    train, trained = vln.train, list[vln.Run]()

    def few_updates(*words: Any, **more: Any) -> vln.Run:
        changes = {name: value for name, value in CHANGES.items() if "policy" not in more or name not in SHAPE}
        trained.append(train(*words, **{**changes, **QUIETLY, **more, "iterations": 2, "validate_every": 2}))
        return trained[-1]

    monkeypatch.setattr(vln, "train", few_updates, raising=False)
    names: dict[str, Any] = {}
    for example in blocks(PAGE, "python"):
        exec(compile(example, "docs", "exec"), names)
    assert {run.experiment.policy.name for run in trained} == {"recurrent", "map-memory"}
    assert {run.experiment.training.reward for run in trained} == {"paper", "fewer-hops", "wordy"}
    assert {run.experiment.navigator.backbone for run in trained} == {"two-stream", "my-transformer"}
    assert {run.experiment.best_on for run in trained} == {"r2r/val_unseen", "exact/val_unseen", "last-two/val_unseen"}
    assert "exact/val_unseen" in capsys.readouterr().out


def test_its_commands_run(place: Path, forget_plugins: Callable[[], None]) -> None:
    fenced = re.findall(r"^```(.*?)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(text for kind, text in fenced if kind == "bash").replace("\\\n", " ").splitlines()
    commands = [line for line in lines if not any(words in line for words in ELSEWHERE)]
    assert len(commands) > 12
    for line in commands:
        words = shlex.split(line, comments=True)
        assert words.pop(0) == "vlnbert"
        begins = "train" in words and "--resume" not in words
        tiny = TINY[: TINY.index("--navigator.hidden")] if "--policy.name" in words else TINY
        outcome = called(*words, *(*tiny, *UPDATES) if begins else ())
        assert outcome.code == 0, f"{line}: {outcome.err}"
        forget_plugins()  # each is a process of its own
    assert vln.open_run("runs/mine").experiment.training.objective.entropy == 0.02
    assert Path("results/r2r_val_unseen_MyAgent.json").is_file()


def test_what_it_says_of_missing_plugins_is_said(place: Path, forget_plugins: Callable[[], None]) -> None:
    rows = dict(re.findall(r"^\| (the file is gone|a script registered it).*?\| `(.*)` \|$", PAGE, flags=re.MULTILINE))
    begin = ("train", "demo", "--training.reward", "metres", "--data", "house", *TINY, *UPDATES)
    Path("my.py").write_text((EXAMPLES / "own_reward.py").read_text())
    assert called("--plugin", "my.py", *begin, "--out", "run").code == 0
    forget_plugins()
    Path("my.py").rename("elsewhere.py")
    told = called("train", "--resume", "run").err
    assert told == f"vlnbert: {rows['the file is gone'].replace('/there', str(place))}\n"
    vln.load_plugin(EXAMPLES / "own_reward.py")
    record = Path("run/run.json")
    record.write_text(re.sub(r'"plugins": \[.*?\]', '"plugins": []', record.read_text(), flags=re.DOTALL))
    forget_plugins()
    assert called("train", "--resume", "run").err == f"vlnbert: {rows['a script registered it']}\n"
