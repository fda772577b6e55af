"""What `docs/mistakes.md` tells: its rows, and the folder in which they are tried."""

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from time import sleep

from tests.cli.conftest import TINY, called
from tests.features.samples import write_bert
from tests.processes import PATIENCE, PROCESSES
from vlnbert.cli.main import main
from vlnbert.house import generate

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mistakes.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (\w+) \| `(.+?)` \|$", re.MULTILINE)
CALL = "vln."  # how a row in Python begins
CTRL_C = ", then Ctrl-C"


@dataclass(frozen=True)
class Mistake:
    """A row: what is done, the lines that answer it (… stands for anything), and the exit code or the exception."""

    number: int
    what: str
    done: str
    answer: tuple[str, ...]
    code: str
    test: str

    def answered_by(self, lines: list[str]) -> bool:
        patterns = [".+".join(map(re.escape, line.split("…"))) for line in self.answer]
        return len(lines) == len(patterns) and all(map(re.fullmatch, patterns, lines))


def mistakes() -> list[Mistake]:
    """The rows of the page, in their order."""
    rows = ROW.findall(PAGE.read_text())
    return [
        Mistake(int(number), what, done.replace("`", ""), tuple(re.findall("`(.+?)`", answer)), code, test)
        for number, what, done, answer, code, test in rows
    ]


def make_folder(folder: Path, house: Path) -> None:
    """The folder that the page describes, made in the current one, which it must be."""
    assert Path.cwd() == folder
    linked(house, "house")
    generate(Path("other"), seed=1, scans=3, paths_per_scan=8)
    for part in ("connectivity", "vocab.txt", "captions", "features"):
        linked(house, f"house-without-{part.partition('.')[0]}", part)
    linked(house, "house-cut", "R2R_val_unseen.json", "views.hdf5")
    for name in ("r2r/R2R_val_unseen.json", "features/views.hdf5"):
        Path("house-cut", name).write_bytes((house / name).read_bytes()[:2000])
    write_bert(Path("bert"), house / "vocab.txt")
    short = ("--training.iterations", "2", "--training.validate-every", "2")
    assert called("train", "demo", "--data", "house", "--out", "runs/first", *TINY, *short).code == 0
    Path("runs/begun").mkdir()
    shutil.copy("runs/first/run.json", "runs/begun")
    walk = ("evaluate", "--agent", "random", "--data", "house", "--splits", "val_unseen", "test", "--out", "results")
    assert called(*walk).code == 0
    results = json.loads(Path("results/r2r_val_unseen_random.json").read_text())
    Path("half.json").write_text(json.dumps(results[: len(results) // 2]))
    Path("stranger.json").write_text(json.dumps([*results, {**results[0], "instr_id": "999_0"}]))
    Path("notes").mkdir()
    Path("notes/todo.txt").write_text("buy milk\n")
    Path("broken.py").write_text("import nothing_of_this_name\n")
    Path("lost.py").write_text(
        "class Lost:\n    begin = id\n\n    def act(self, seen, memory):\n        return seen.door\n"
    )
    Path("typo.json").write_text(json.dumps({"preset": "demo", "training.batchsize": 8}))


def linked(house: Path, name: str, *without: str) -> None:
    """A copy of the house that takes no room, without files of some names."""
    shutil.copytree(house, name, ignore=shutil.ignore_patterns(*without), copy_function=os.link)


def files(folder: Path) -> dict[Path, tuple[int, int]]:
    """The size and the time of change of all files, but for locks, which any look into a run takes."""
    found = [path for path in folder.rglob("*") if path.name != "lock"]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in found if path.is_file()}


def interrupted(words: list[str], place: str, folder: Path, tmp: Path, number: int, within: float) -> tuple[int, str]:
    """Exit code and standard error of `vlnbert` that gets a signal at a place, with so many seconds left to end."""
    told, begun = tmp / "told", tmp / "begun"
    process = PROCESSES.Process(target=held_up, args=(words, place, folder, tmp / "cache", told, begun))
    process.start()
    try:
        while not begun.exists():
            assert process.is_alive(), told.read_text()
            sleep(0.02)
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join(within)
    finally:
        process.kill()
    assert process.exitcode is not None
    return process.exitcode, told.read_text()


def held_up(words: list[str], place: str, folder: Path, cache: Path, told: Path, begun: Path) -> None:
    """`vlnbert` with some words, in a process of its own, which does not come past a place; `begun` is there then."""

    def wait(*_: object, **__: object) -> None:
        begun.touch()
        sleep(PATIENCE)

    os.chdir(folder)
    os.environ["VLNBERT_CACHE"], os.environ["VLNBERT_STATE"] = str(cache), str(cache / "state")
    os.dup2(os.open(told, os.O_CREAT | os.O_WRONLY), 2)
    module, _, name = place.rpartition(".")
    setattr(resolve_name(module), name, wait)
    sys.stderr, sys.argv = os.fdopen(2, "w", buffering=1), ["vlnbert", *words]
    main()
