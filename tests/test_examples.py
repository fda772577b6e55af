"""The examples run: the notebook as Jupyter would run it, the minimal training loop as a script."""

import asyncio
import json
import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import vlnbert as vln
from tests.docs.tutorial import EXAMPLE, NOTEBOOK, TUTORIAL, notebook
from vlnbert.house import generate

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MINIMAL = EXAMPLES / "minimal_training.py"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a kernel that is the Python that runs the tests; what is installed on the machine does not matter."""
    folder = tmp_path / "jupyter" / "kernels" / "tests"
    folder.mkdir(parents=True)
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    folder.joinpath("kernel.json").write_text(json.dumps({"argv": words, "display_name": "", "language": "python"}))
    for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    places = [str(Path(vln.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    return "tests"


def outputs(made: Any, cell: str) -> list[Any]:
    """What the cell that holds some text shows."""
    return next(one.outputs for one in made.cells if cell in one.source and one.cell_type == "code")


def shown(made: Any, cell: str, kind: str) -> str:
    """All that a cell shows in one form: printed, or as text/html, image/svg+xml, ..."""
    found = outputs(made, cell)
    if kind == "printed":
        return "".join(one.text for one in found if one.get("name") == "stdout")
    return "".join(one.data[kind] for one in found if kind in one.get("data", {}))


@pytest.mark.slow
def test_the_tutorial_runs(kernel: str, tmp_path: Path) -> None:
    """With few updates; what its other examples print is what stands under them."""
    made = notebook(TUTORIAL.read_text().replace("iterations=300", "iterations=6").replace("every=100", "every=3"))
    client = NotebookClient(made, kernel_name=kernel, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    asyncio.run(client.async_execute())
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [one for cell in cells for one in cell.outputs if one.output_type == "error"]
    assert '<progress value="6" max="6">' in shown(made, "vln.train", "text/html"), "a bar, which stays"
    assert shown(made, "vln.train", "text/html").count("<progress") == 1, "those of validations are gone"
    assert shown(made, "as it was meant", "image/svg+xml").startswith("<svg "), "a picture"
    for code, printed, _ in EXAMPLE.findall(TUTORIAL.read_text()):
        if "run" not in re.findall(r"\w+", code):  # what it learned depends on the updates
            lines = [line.rstrip() for line in shown(made, code.rstrip(), "printed").splitlines()]
            assert lines == printed.splitlines(), code
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "runs" / "first" / "best").is_dir()


def test_the_notebook_is_the_tutorial() -> None:
    """Kept without outputs and counts, which are whoever's who runs it; python -m tests.docs.tutorial writes it."""
    kept = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(kept)
    assert kept == notebook(TUTORIAL.read_text())


def test_the_minimal_loop_is_minimal() -> None:
    assert len(MINIMAL.read_text().splitlines()) < 60


@pytest.mark.slow
def test_the_minimal_loop_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one small house, for some seconds; its docstring tells what comes of a minute."""
    generate(tmp_path / "house", scans=3, paths_per_scan=8)
    example = runpy.run_path(str(MINIMAL))
    example["train"](vln.open_data(tmp_path / "house"), updates=40, rows=16, every=5)
    found = re.findall(
        r"^after (\d+) updates: loss (-?[\d.]+), SR ([\d.]+) % on val_unseen$", capsys.readouterr().out, re.M
    )
    assert [int(done) for done, _, _ in found] == list(range(5, 41, 5))
    losses = [float(loss) for _, loss, _ in found]
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3]), losses


def test_the_minimal_loop_is_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a data folder, and says what is wrong with one."""
    monkeypatch.setattr(sys, "argv", [str(MINIMAL), str(tmp_path / "nowhere")])
    with pytest.raises(vln.DataError, match="no such data folder"):
        runpy.run_path(str(MINIMAL), run_name="__main__")
