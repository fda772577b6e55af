"""Ranks that were started with different things do not learn together: a line says what differs, nothing is left."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import vlnbert
from tests.learning.samples import EXPERIMENT
from tests.processes import together
from vlnbert.data.data import open_data
from vlnbert.errors import UsageError
from vlnbert.learning import run_folder, run_record
from vlnbert.learning.runs import begin_run, resume_run
from vlnbert.ranks import Ranks


def told(work: Callable[[], object]) -> str:
    try:
        work()
    except UsageError as error:
        return str(error)
    return ""


def begin(ranks: Ranks, house: Path, run: Path, what: str) -> str:
    """What a rank is told that begins a run with the others, the second of them otherwise."""
    experiment, second = EXPERIMENT, ranks.rank == 1
    if second and what == "seed":
        experiment = replace(experiment, training=replace(experiment.training, seed=7))
    if second and what == "settings":
        shape = replace(experiment.navigator, hidden=48)
        experiment = replace(experiment, navigator=shape, training=replace(experiment.training, learning_rate=0.5))
    if second and what in ("data", "elsewhere"):
        house = house.with_name(what)
    if second and what == "package":
        real = run_record._package_files
        run_record._package_files = lambda folder: real(folder)[1:]
    return told(lambda: begin_run("mine", experiment, open_data(house), run, ranks))


EXPECTED = {
    "elsewhere": None,
    "seed": r"seed \(process 0 has 0, process 1 7\)",
    "settings": r"learning_rate, nor on 1 more \(process 0 has 0.001, process 1 0.5\)",
    "data": r"the data \(r2r/R2R_train.json\) \(process 0 has \w+, process 1 \w+\)",
    "package": r"the files of vlnbert \(process 0 has \w+, process 1 \w+\)",
}


@pytest.mark.parametrize("what", EXPECTED)
def test_what_differs_is_named_before_anything_is_written(house: Path, tmp_path: Path, what: str) -> None:
    here, _, other = (shutil.copytree(house, tmp_path / name) for name in ("here", "elsewhere", "data"))
    (other / "r2r" / "R2R_train.json").write_text((house / "r2r" / "R2R_train.json").read_text() + "\n")
    first, second = together(2, tmp_path, begin, here, tmp_path / "run", what)
    assert first == second
    if EXPECTED[what] is None:
        assert first == "", "the same data in another place is the same"
        assert (tmp_path / "run" / "run.json").exists()
    else:
        line = f"the processes of this training do not agree on {EXPECTED[what]}; start all of them with the same"
        assert re.fullmatch(line, first), first
        assert not (tmp_path / "run").exists()


def resume(ranks: Ranks, run: Path, house: Path) -> str:
    """The second rank finds the newest checkpoint damaged, as on another machine's disk."""
    if ranks.rank == 1:
        real = run_folder._named_checkpoint
        run_folder._named_checkpoint = lambda run: real(run).with_name("0000002")
    return told(lambda: resume_run(run, open_data(house), ranks))


def test_all_go_on_from_the_same_checkpoint(house: Path, finished: Path, tmp_path: Path) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    first, second = together(2, tmp_path, resume, run, house)
    assert first == second
    assert first.startswith(
        "the processes of this training do not agree on the checkpoint to go on from (process 0 has"
    )


def test_every_file_of_the_package_counts() -> None:
    folder = Path(vlnbert.__file__).parent
    assert folder == run_record.PACKAGE
    files = run_record._package_files(folder)
    assert {folder / "ranks.py", folder / "fetching" / "manifest.json.gz"} <= set(files)
    assert not any(path.suffix == ".pyc" for path in files)
