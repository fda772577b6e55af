"""Mutants by name: where each stands, said by module, definition and expression, and the source with it put in.

A site is a module (`learning/losses.py`), a definition in it and an expression in that, as `ast.unparse` writes it. So
comments, formatting and the order of a file may change, and other lines of a function too. Definitions are functions
and methods (`Rewards._moves`), the default of an argument (`measure(spl_by)`), a field of a class
(`TrainConfig.grad_clip`) and a name of the module (`MAX_STEPS`).
"""

import ast
import copy
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

Scopes = dict[str, list[ast.AST]]


class MissingError(Exception):
    """What a mutant names is not there, or not once."""


@dataclass(frozen=True)
class Mutant:
    """One change of the source, by name."""

    name: str
    module: str  # below src/vlnbert
    within: str  # the definition; of several with the same name, all
    find: str  # the expression or statement, there once
    put: str  # what stands there instead
    by: str = ""  # the test that killed it before
    equivalent: str = ""  # why nothing can tell the two apart, where that is so

    @property
    def place(self) -> str:
        return f"{self.module}: {self.within}"

    def __str__(self) -> str:
        return f"{self.place}: {self.find} -> {self.put}"

    def to_plain(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value}


def scopes(tree: ast.Module) -> Scopes:
    """What belongs to each definition of a module."""
    found = Scopes()
    for statement in tree.body:
        _collect(statement, "", found)
    return found


def _collect(statement: ast.stmt, prefix: str, found: Scopes) -> None:
    match statement:
        case ast.FunctionDef(name=name, body=body, args=args):
            found.setdefault(prefix + name, []).extend(body)
            placed = [*args.posonlyargs, *args.args]
            pairs = [
                *zip(placed[::-1], args.defaults[::-1], strict=False),
                *zip(args.kwonlyargs, args.kw_defaults, strict=True),
            ]
            for argument, default in pairs:
                if default is not None:
                    found.setdefault(f"{prefix}{name}({argument.arg})", []).append(default)
        case ast.ClassDef(name=name, body=body):
            for inner in body:
                _collect(inner, f"{prefix}{name}.", found)
        case ast.Assign(targets=targets, value=value):
            found.setdefault(prefix + ", ".join(map(ast.unparse, targets)), []).append(value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            found.setdefault(prefix + ast.unparse(target), []).append(value)


def nodes(scope: list[ast.AST]) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Every node of a definition with those that hold it, the outermost first; no annotations, which are not run."""
    stack: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(node, ()) for node in reversed(scope)]
    while stack:
        node, above = stack.pop()
        yield node, above
        for name, part in reversed(list(ast.iter_fields(node))):
            if name in ("annotation", "returns"):
                continue
            inner = part if isinstance(part, list) else [part]
            stack.extend((one, (*above, node)) for one in reversed(inner) if isinstance(one, ast.AST))


def readings(scope: list[ast.AST]) -> dict[str, list[ast.AST]]:
    """The expressions, arguments and statements of a definition by how they read; a statement that is nothing but an
    expression is the expression."""
    found = dict[str, dict[tuple[int, int, int | None, int | None], ast.AST]]()
    for node, _ in nodes(scope):
        if isinstance(node, (ast.expr, ast.keyword, ast.stmt)):
            place = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
            found.setdefault(ast.unparse(node), {})[place] = node
    return {text: list(there.values()) for text, there in found.items()}


def mutated(source: str, mutant: Mutant) -> str:
    """The source of a module with a mutant in it."""
    tree = ast.parse(source)
    known = scopes(tree)
    if mutant.within not in known:
        raise MissingError(f"{mutant.module} has no {mutant.within}")
    there = readings(known[mutant.within]).get(mutant.find, [])
    if len(there) != 1:
        raise MissingError(f"{mutant.place} has {mutant.find!r} {len(there)} times, not once")
    [node] = there
    meant = ast.dump(copy.deepcopy(tree, {id(node): _parsed(mutant.put, node)}))
    content = source.encode()
    lines = content.splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset  # type: ignore[attr-defined]
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset  # type: ignore[attr-defined]
    for text in (mutant.put, f"({mutant.put})"):  # in parentheses where its neighbours would bind tighter
        changed = (content[:begin] + text.encode() + content[end:]).decode()
        with suppress(SyntaxError):
            if ast.dump(ast.parse(changed)) == meant:
                return changed
    raise MissingError(f"{mutant.place} cannot be made to read {mutant.put!r}")


def _parsed(text: str, like: ast.AST) -> ast.AST:
    """What a text says in the place of a node."""
    match like:
        case ast.stmt():
            return ast.parse(text).body[0]
        case ast.keyword():
            return ast.parse(f"_({text})", mode="eval").body.keywords[0]  # type: ignore[attr-defined]
        case ast.Slice():
            return ast.parse(f"_[{text}]", mode="eval").body.slice  # type: ignore[attr-defined]
        case ast.Starred():
            return ast.parse(f"_({text})", mode="eval").body.args[0]  # type: ignore[attr-defined]
    return ast.parse(text, mode="eval").body


def modules(package: Path, room: str) -> list[str]:
    """The modules of a room, below the package."""
    return sorted(str(path.relative_to(package)) for path in (package / room).rglob("*.py"))
