"""Which files of the package have a part in an update, an evaluation and a report: `make walks`.

Each is done twice in a generated house, and traced the second time: what is imported, built or cached once is no part
of it. A file has a part when a function of it is called. The files beside the packages count as one package.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import vlnbert as vln
from vlnbert.house import generate
from vlnbert.learning.trainer import Trainer

PACKAGE = Path(vln.__file__).parent


@contextmanager
def traced() -> Iterator[set[str]]:
    """The files of which functions are called within the block, by their paths in the package, once it is over."""
    called, files = set[str](), set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)
        files |= {str(path.relative_to(PACKAGE)) for path in map(Path, called) if path.is_relative_to(PACKAGE)}


def walks(folder: Path) -> dict[str, set[str]]:
    """The files that have a part in each, by what is done; a house and a run are made in a folder."""
    generate(folder / "house", scans=3, paths_per_scan=8)
    updates = list[set[str]]()
    advance = Trainer.advance

    def watched(trainer: Trainer, iteration: int) -> object:
        with traced() as files:
            done = advance(trainer, iteration)
        updates.append(files)
        return done

    small = {"iterations": 3, "validate_every": 3, "batch": 4, "max_steps": 4, "warmup": 0}
    quiet = {"threads": 1, "bar": False, "tensorboard": False}
    Trainer.advance = watched  # type: ignore[method-assign, assignment]
    try:
        run = vln.train("demo", data=folder / "house", out=folder / "run", **quiet, **small)
    finally:
        Trainer.advance = advance  # type: ignore[method-assign]
    navigator = folder / "run" / "best"
    return {
        "update": updates[-1],
        "evaluation": _second(lambda: vln.evaluate(navigator, folder / "house", "r2r/val_unseen", bar=False)),
        "report": _second(lambda: vln.report(run, folder / "report.html", bar=False)),
    }


def packages(files: set[str]) -> set[str]:
    """The packages that files are in; the files beside them are one."""
    return {path.rpartition("/")[0].partition("/")[0] for path in files}


def main(words: list[str] | None = None) -> None:
    """Print how many files and packages have a part in each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="name the files, too")
    named = parser.parse_args(words).files
    with TemporaryDirectory() as folder:
        os.environ["VLNBERT_CACHE"] = os.environ["VLNBERT_STATE"] = folder
        with redirect_stderr(sys.stdout):
            found = walks(Path(folder))
    for what, files in found.items():
        print(f"{what}: {len(files)} files, {len(packages(files))} packages")
        for path in sorted(files) if named else ():
            print(f"  {path}")


def _second(do: Callable[[], object]) -> set[str]:
    do()
    with traced() as files:
        do()
    return files


if __name__ == "__main__":
    main()
