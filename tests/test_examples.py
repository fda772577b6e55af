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
from vlnbert.house import generate

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
QUICKSTART = EXAMPLES / "quickstart.ipynb"
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


def outputs(notebook: Any, cell: str) -> list[Any]:
    return next(one.outputs for one in notebook.cells if one.id == cell)


def html(notebook: Any, cell: str) -> str:
    """All that a cell shows as HTML."""
    return "".join(one.data["text/html"] for one in outputs(notebook, cell) if "text/html" in one.get("data", {}))


@pytest.mark.slow
def test_the_notebook_runs(kernel: str, tmp_path: Path) -> None:
    notebook = nbformat.read(QUICKSTART, as_version=4)
    client = NotebookClient(notebook, kernel_name=kernel, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    asyncio.run(client.async_execute())
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [one for cell in cells for one in cell.outputs if one.output_type == "error"]
    assert '<progress value="60" max="60">' in html(notebook, "train"), "a bar, which stays"
    assert html(notebook, "train").count("<progress") == 1, "those of validations are gone"
    assert ">SPL r2r/val_unseen</th>" in html(notebook, "train"), "the run"
    for cell in ("evaluate", "random"):
        assert re.search(r"<table>.*>SR</th>.*>SPL</th>.*r2r/val_unseen", html(notebook, cell), flags=re.DOTALL)
        (result,) = (one for one in outputs(notebook, cell) if one.output_type == "execute_result")
        assert "SPL" in result.data["text/plain"]
        assert "\x1b" not in result.data["text/plain"]
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "runs" / "a" / "best").is_dir()


def test_the_notebook_is_kept_bare() -> None:
    """Outputs and counts are whoever's who runs it."""
    notebook = nbformat.read(QUICKSTART, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None and cell.metadata == {} for cell in code)
    assert len(QUICKSTART.read_bytes()) < 4000


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
