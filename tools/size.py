"""Lines of the package, package by package: `make size`, or `python tools/size.py --against COMMIT`."""

import argparse
import ast
import io
import subprocess
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/vlnbert"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
SHOWN = ("files", "lines", "code", "docstrings", "comments", "trailing", "blank", "imports", "once")


@dataclass(frozen=True)
class Size:
    """One file, or several together. Every line is one of code, docstring, comment, import and blank."""

    files: int
    lines: int
    code: int
    docstrings: int  # lines, the blank ones within included
    comments: int  # lines of their own
    trailing: int  # comments behind code, on lines that count as what stands before them
    blank: int
    imports: int
    once: int  # private functions that their file mentions once
    file_lengths: tuple[int, ...]
    function_lengths: tuple[int, ...]

    @property
    def median_file(self) -> float:
        return median(self.file_lengths or (0,))

    @property
    def median_function(self) -> float:
        return median(self.function_lengths or (0,))


def size_of(source: str) -> Size:
    """The size of one file."""
    tree, lines = ast.parse(source), source.splitlines()
    docstrings, imports, lengths = set[int](), set[int](), list[int]()
    private, mentions = list[str](), Counter[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                imports |= _lines(node)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                mentions[name] += 1
        if isinstance(node, FUNCTIONS):
            lengths.append(len(_lines(node)))
            if node.name.startswith("_") and not node.name.endswith("__"):
                private.append(node.name)
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings |= _lines(node.body[0])
    comments, trailing = set[int](), 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.line.lstrip().startswith("#"):
                comments.add(token.start[0])
            else:
                trailing += 1
    other = docstrings | imports | comments
    blank = sum(1 for number, line in enumerate(lines, 1) if not line.strip() and number not in other)
    return Size(
        files=1,
        lines=len(lines),
        code=len(lines) - len(other) - blank,
        docstrings=len(docstrings),
        comments=len(comments - imports),
        trailing=trailing,
        blank=blank,
        imports=len(imports),
        once=sum(1 for name in private if mentions[name] == 1),
        file_lengths=(len(lines),),
        function_lengths=tuple(lengths),
    )


def total(sizes: Iterable[Size]) -> Size:
    """Several files together."""
    columns = zip(*([getattr(size, field.name) for field in fields(Size)] for size in sizes), strict=True)
    return Size(*(sum(column, start=type(column[0])()) for column in columns))


def by_package(sources: Mapping[str, str]) -> dict[str, Size]:
    """The size of each package, and of the files beside them, by paths within the whole."""
    packages = groupby(sorted(sources, key=lambda path: (_package(path), path)), _package)
    return {name: total(size_of(sources[path]) for path in paths) for name, paths in packages}


def here() -> dict[str, str]:
    """The package's files as they are, by path."""
    top = ROOT / PACKAGE
    return {path.relative_to(top).as_posix(): path.read_text(encoding="utf-8") for path in top.rglob("*.py")}


def at(commit: str) -> dict[str, str]:
    """The package's files as they were at a commit."""
    command = ("git", "archive", "--format=tar", commit, PACKAGE)
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    sources = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            if member.name.endswith(".py") and (file := archive.extractfile(member)):
                sources[member.name.removeprefix(f"{PACKAGE}/")] = file.read().decode()
    return sources


def table(packages: Mapping[str, Size], before: Mapping[str, Size] | None = None) -> str:
    """A Markdown table, a package a row; with what was before, a cell says `before > now`."""
    names = sorted({*packages, *(before or {})})
    nothing = Size(*(() if "lengths" in field.name else 0 for field in fields(Size)))  # type: ignore[arg-type]
    rows = [["package", *SHOWN[:-1], "a file", "a function", "called once"]]
    for name in (*names, "total"):
        now = _one(packages, name, nothing)
        then = None if before is None else _one(before, name, nothing)
        cells = zip(_cells(now), _cells(then or now), strict=True)
        rows.append([name, *(new if new == old else f"{old} > {new}" for new, old in cells)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(_row(row, widths) for row in rows)


def share(size: Size) -> str:
    """How much of the lines explains the others."""
    return f"docstrings {size.docstrings / size.lines:.1%} of the lines, comments {size.comments / size.lines:.1%}"


def main(words: list[str] | None = None) -> None:
    """Print the sizes, and what they were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", help="print what each was at this commit, too")
    commit = parser.parse_args(words).against
    now, before = by_package(here()), None if commit is None else by_package(at(commit))
    print(table(now, before))
    print()
    print("a file, a function: median lines; called once: private functions that their file mentions once")
    if before is not None:
        change = total(now.values()).lines - total(before.values()).lines
        print(f"at {commit}: {share(total(before.values()))}")
        print(f"now: {share(total(now.values()))}; {change:+,} lines")
    else:
        print(share(total(now.values())))


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _package(path: str) -> str:
    folder, slash, _ = path.partition("/")
    return folder if slash else "(beside them)"


def _one(packages: Mapping[str, Size], name: str, nothing: Size) -> Size:
    return total(packages.values()) if name == "total" else packages.get(name, nothing)


def _cells(size: Size) -> list[str]:
    counts = [f"{getattr(size, name):,}" for name in SHOWN]
    return [*counts[:-1], f"{size.median_file:g}", f"{size.median_function:g}", counts[-1]]


def _row(cells: list[str], widths: list[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return f"| {first[0]:<{first[1]}} | " + " | ".join(f"{cell:>{width}}" for cell, width in others) + " |"


if __name__ == "__main__":
    main()
