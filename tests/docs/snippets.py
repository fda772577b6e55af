"""Runs the examples of a page, Python and shell, in order and in one folder, in a process of its own.

Long work is cut short: trainings take two updates, houses are small, and all of it is on the CPU. `data` is a generated
house with word labels, `checkpoint.pt` a published agent's in form, `examples` those of the repository.
"""

import os
import re
import resource
import shlex
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from benchmarks.__main__ import make_parser
from tests.cli.conftest import called
from tests.processes import PATIENCE, PROCESSES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ONLY_PARSED = ("bench", "data fetch", "explore")  # full-size navigators; the network; a page that is served on
ALWAYS = ("--threads", "1")
SHORT = {
    "house": ("--scans", "3"),
    "demo": ("--scans", "3", "--iterations", "2"),
    "train": (
        *("--training.iterations", "2", "--training.validate-every", "2", "--training.warmup", "0"),
        *("--training.batch", "4", "--training.max-steps", "4", "--training.precision", "float32"),
        *("--navigator.hidden", "64", "--navigator.heads", "1", "--navigator.inner", "64", *ALWAYS),
    ),
}
OPEN = ("--start", "None", "--features.encoder", "bert")  # a tiny BERT in the place of all-MiniLM-L6-v2


@dataclass(frozen=True)
class Ran:
    """What the examples of a page did."""

    printed: list[tuple[str, str]]  # each example, a block of Python or a command, with what it printed
    gigabytes: float  # at the peak


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each fenced block."""
    return FENCE.findall(page.read_text())


def run_page(page: Path, folder: Path) -> Ran:
    """Run all examples of a page; one that fails raises here."""
    start, end = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_page, args=(page, folder, os.environ["VLNBERT_CACHE"], end))
    process.start()
    end.close()
    try:
        assert start.poll(PATIENCE), f"{page.name} takes too long"
        found = start.recv()
    finally:
        process.kill()
        process.join()
        start.close()
    if isinstance(found, str):
        pytest.fail(f"{page.name}: {found}")
    return found


def _page(page: Path, folder: Path, cache: str, pipe: Connection) -> None:
    import torch

    torch.set_num_threads(1)
    os.environ["VLNBERT_CACHE"], os.environ["VLNBERT_STATE"] = cache, str(Path(cache) / "state")
    os.chdir(folder)
    names, printed = {"__name__": "__main__"}, []
    quoted = "\n".join(path.read_text() for path in (ROOT / "examples").glob("*.py"))  # which have tests of their own
    try:
        _prepare(page)
        for language, text in blocks(page):
            if language == "python" and text.strip() not in quoted:
                with redirect_stdout(StringIO()) as told:
                    exec(compile(text, page.name, "exec"), names)
                printed.append((text, told.getvalue()))
            elif language == "bash":
                printed += [(line, _command(line)) for line in commands(text)]
        pipe.send(Ran(printed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6))
    except BaseException as error:
        pipe.send(f"{type(error).__name__}: {error}")


def commands(text: str) -> list[str]:
    """The commands of a block of shell, without comments."""
    lines = [re.sub(r"\s+#.*", "", line) for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _prepare(page: Path) -> None:
    """What a reader of a page has before."""
    from tests.features.samples import write_bert
    from tests.learning.samples import write_labels
    from vlnbert.house import generate

    Path("examples").symlink_to(ROOT / "examples")
    shell = " ".join(text for language, text in blocks(page) if language == "bash")
    if "data data" in shell:
        generate(Path("data"), scans=3, paths_per_scan=8)
        write_labels(Path("data"))
        write_bert(Path("bert"), Path("data/vocab.txt"))
    if "checkpoint.pt" in shell:
        _must("train", "demo", "--data", "data", "--out", "published", *SHORT["train"])
        _must("weights", "export", "published/best", "checkpoint.pt")


def _command(line: str) -> str:
    program, *words = shlex.split(line)
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"no such target: {line}"
        return f"{words[0]} is a target"
    if [program, *words[:2]] == ["python", "-m", "benchmarks"]:
        make_parser().parse_args(words[2:])
        return "parsed"
    if program != "vlnbert":
        return "not ours"
    if line.removeprefix("vlnbert ").startswith(ONLY_PARSED):
        return _parsed(words)
    return _must(*_shortened(words))


def _shortened(words: list[str]) -> list[str]:
    """A command that does the same on the CPU, in a moment."""
    from vlnbert.learning.presets import presets

    text = " ".join(words).replace("--device cuda", "")
    verb = next(word for word in words if not word.startswith("-") and not word.endswith(".py"))
    more = () if "--resume" in words else SHORT.get(verb, ())
    if verb == "train" and more and presets[words[words.index(verb) + 1]].experiment.seen.reads_captions:
        more = (*more, *OPEN)
    return [*shlex.split(text), *more]


def _must(*words: str) -> str:
    outcome = called(*words)
    assert outcome.code == 0, f"vlnbert {' '.join(words)}: {outcome.err}"
    return outcome.out + outcome.err


def _parsed(words: list[str]) -> str:
    """Read a command as the program does, and leave it at that."""
    from vlnbert.cli.parser import Command

    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()):
        patch.setattr(Command, "run", lambda command, words: command.parse(words))
        assert called(*words).code == 0, f"vlnbert {' '.join(words)} is no command"
    return "parsed"
