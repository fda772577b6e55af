"""What `make package` builds holds what belongs there, and works where there is no checkout.

A whole `pip install .` takes three minutes and six gigabytes, nearly all of it torch: too long for every test run.
So the wheel is installed alone, into a fresh environment that finds the dependencies where the tests have them.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.docs.snippets import SHORT
from vlnbert import __version__

ROOT = Path(__file__).resolve().parents[1]
NAME = f"vlnbert-{__version__}"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def package() -> set[str]:
    """The package's own files, code and others."""
    files = [path for path in (ROOT / "src" / "vlnbert").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {str(path.relative_to(ROOT / "src")) for path in files}


def test_the_wheel_holds_the_package_alone(dist: Path, package: set[str]) -> None:
    held = set(zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl").namelist())
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert held == package | {f"{NAME}.dist-info/{file}" for file in about}
    assert {"vlnbert/py.typed", "vlnbert/analysis/web/episode.js"} <= held
    assert not [file for file in held if "benchmarks" in file], "they belong to the checkout"


def test_the_sdist_holds_what_a_reader_needs(dist: Path, package: set[str]) -> None:
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        held = {member.name.removeprefix(f"{NAME}/") for member in archive if member.isfile()}
        readme = archive.extractfile(f"{NAME}/README.md")
        assert readme is not None
        assert readme.read() == (ROOT / "README.md").read_bytes()
    examples = {str(path.relative_to(ROOT)) for path in (ROOT / "examples").iterdir() if path.is_file()}
    about = {"PKG-INFO", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", ".gitignore"}
    assert held == {f"src/{file}" for file in package} | examples | about


@pytest.mark.slow
def test_it_works_outside_of_a_checkout(dist: Path, tmp_path: Path) -> None:
    python = _fresh_environment(tmp_path / "venv", dist)
    work = tmp_path / "work"
    work.mkdir()
    where = _run(work, python, "-c", "import vlnbert; print(vlnbert.__file__)")
    assert Path(where.strip()).is_relative_to(tmp_path), "not the checkout's"
    vlnbert = python.with_name("vlnbert")
    assert "vlnbert VERB --help" in _run(work, vlnbert, "--help")
    assert "r2r-open" in _run(work, vlnbert, "presets")
    assert "3 houses" in _run(work, vlnbert, "house", "house", *SHORT["house"])
    _run(work, vlnbert, "train", "demo", "--data", "house", "--out", "run", *SHORT["train"])
    assert "r2r/val_unseen" in _run(work, vlnbert, "evaluate", "run", "--data", "house", "--splits", "val_unseen")
    _run(work, vlnbert, "report", "run", "--out", "report.html")
    assert "<style>" in (work / "report.html").read_text(), "files beside the code are found"


def _fresh_environment(folder: Path, dist: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    words = ["pip", "--quiet", "--python", python, "install", "--no-deps", "--no-index", *dist.glob("*.whl")]
    subprocess.run([sys.executable, "-m", *words], check=True)
    (place,) = folder.glob("lib/python*/site-packages")
    place.joinpath("dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    return python


def _run(folder: Path, *words: str | Path) -> str:
    """What a command prints, run in a folder, with nothing in the environment that leads to the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
