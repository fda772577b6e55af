"""`vlnbert completion`: what a shell offers behind the words of a command."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import called
from vlnbert.cli.main import VERBS
from vlnbert.learning.presets import presets

OFFERED = """
source {script}
COMP_WORDS=({words}) COMP_CWORD={place}
_vlnbert
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shell") / "completion.bash"
    path.write_text(called("completion", "bash").out)
    return path


def offered(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of some words."""
    spelt = " ".join(f"'{word}'" for word in ("vlnbert", *words))
    code = OFFERED.format(script=script, words=spelt, place=len(words))
    return subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_offers_what_may_follow(script: Path) -> None:
    assert {name.partition(" ")[0] for name in VERBS} <= set(offered(script, ""))
    assert offered(script, "ev") == ["evaluate"]
    assert set(offered(script, "data", "")) == {"fetch", "check", "r4r", "holdout"}
    assert offered(script, "data", "check", "--j") == ["--json"]
    assert offered(script, "train", "r2r-two") == [name for name in presets if name.startswith("r2r-two")]
    assert set(offered(script, "train", "demo", "--training.gra")) == {"--training.graphs", "--training.grad-clip"}
    assert offered(script, "completion", "") == ["bash", "zsh", "fish", "--help"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_verb(run: Callable, shell: str) -> None:
    said = run("completion", shell).out
    for name in VERBS:
        assert name.partition(" ")[2] in said
        assert f"{name} " in said
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=said, text=True).returncode == 0


def test_a_shell_that_nobody_knows(run: Callable) -> None:
    answer = "vlnbert: SHELL is 'tcsh'; choose bash or zsh or fish; vlnbert completion --help lists what it takes\n"
    assert run("completion", "tcsh").err == answer
