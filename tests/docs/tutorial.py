"""The tutorial is one text: docs/tutorial.md. From it come its notebook, what stands under each example, and pictures.

python -m tests.docs.tutorial        # writes the notebook alone
python -m tests.docs.tutorial --run  # runs every example first, and writes what they print and draw
"""

import ast
import re
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
NOTEBOOK = ROOT / "examples" / "vln_in_ten_minutes.ipynb"
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?(?:\n!\[[^]]*\]\((\S+)\)\n)?", re.M | re.S)


def notebook(text: str) -> Any:
    """The tutorial as a notebook: outputs and pictures are left to whoever runs it."""
    cells, end = [], 0
    for number, found in enumerate(EXAMPLE.finditer(text)):
        cells += [_prose(text[end : found.start()], number), _code(found[1], number)]
        end = found.end()
    cells.append(_prose(text[end:], len(cells) // 2))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = nbformat.v4.new_notebook(
        cells=[cell for cell in cells if cell.source],
        metadata={"kernelspec": kernel, "language_info": {"name": "python"}},
    )
    nbformat.validate(made)
    return made


def _prose(text: str, number: int) -> Any:
    seen_from_examples = re.sub(r"\]\((?!https?:|#)(?:\.\./examples/)?", lambda link: _moved(link[0]), text)
    return nbformat.v4.new_markdown_cell(seen_from_examples.strip(), id=f"text-{number}")


def _moved(link: str) -> str:
    return "](" if link.endswith("examples/") else "](../docs/"


def _code(text: str, number: int) -> Any:
    return nbformat.v4.new_code_cell(text.rstrip(), id=f"code-{number}")


def run(text: str) -> str:
    """The tutorial with what its examples print today; their pictures are drawn anew."""
    names: dict[str, Any] = {}

    def ran(found: re.Match[str]) -> str:
        code, _, picture = found.groups()
        printed, drawn = _run(code, names)
        parts = [f"```python\n{code}```\n"]
        if printed:
            parts.append(f"```text\n{printed}```\n")
        if picture:
            _save(drawn, TUTORIAL.parent / picture)
            parts.append(found[0].strip().splitlines()[-1] + "\n")
        return "\n".join(parts)

    with TemporaryDirectory() as folder, chdir(folder):
        return EXAMPLE.sub(ran, text)


def _run(code: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a block prints, and the value of its last line where that is an expression, as a notebook takes it."""
    *body, last = ast.parse(code).body
    with redirect_stdout(StringIO()) as told, redirect_stderr(told):
        exec(compile(ast.Module(body, []), "tutorial", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "tutorial", "eval"), names)
        else:
            value = exec(compile(ast.Module([last], []), "tutorial", "exec"), names)
    return "".join(f"{line.rstrip()}\n" for line in told.getvalue().splitlines()), value


def _save(figure: Any, path: Path) -> None:
    """As an SVG that is the same each time, on white, since pages may be dark."""
    from matplotlib import rc_context

    path.parent.mkdir(exist_ok=True)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "vlnbert"}):
        figure.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    if sys.argv[1:] == ["--run"]:
        TUTORIAL.write_text(run(TUTORIAL.read_text()))
    nbformat.write(notebook(TUTORIAL.read_text()), NOTEBOOK)
