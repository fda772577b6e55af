"""Which constants, signs, comparisons, masks and metrics could be otherwise, and some of those, drawn by a seed.

    python -m tests.mutants.draw --seed 0 --count 31

prints mutants as `tests/mutants/mutants.json` holds them. What was drawn once is kept there by name: it is not drawn
anew when the code changes, so that the same mutants are tried before and after.
"""

import argparse
import ast
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.sites import MissingError, Mutant, modules, mutated, nodes, readings, scopes

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "vlnbert"
ROOMS = ("learning", "rollout", "evaluation", "navigator", "tasks")
# What runs on a GPU alone: tests that run anywhere cannot tell.
ON_A_GPU = {
    "navigator/fast/kernels.py": (),
    "navigator/fast/fused.py": (),
    "navigator/fast/__init__.py": (
        *("SEEDS", "Pass.dropout", "MOST_NUMBERS", "MOST_TOKENS", "MOST_SCORES"),
        *("_fits", "triton_pass", "_compiles", "_try_out", "_interpreted", "block_size"),
    ),
    "learning/updates.py": ("GraphUpdate.", "_Recording.", "unrecordable"),
}
FOR_PEOPLE = ("__repr__", "_repr_html_", "table")  # what is printed
AXES = ("dim", "axis", "strict", "indent")  # arguments that are wrong at once, or not at all
BY_AXIS = {  # methods whose bare numbers are axes
    *("squeeze", "unsqueeze", "transpose", "flatten", "unflatten", "index_select", "index_copy", "index_copy_"),
    *("gather", "chunk", "flip", "size", "movedim", "permute"),
}
OTHER = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
PAIRS = (
    ("min", "max"),
    ("amin", "amax"),
    ("argmin", "argmax"),
    ("minimum", "maximum"),
    ("any", "all"),
    ("sum", "mean"),
)
CALLS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
NO_NUMBERS = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple, ast.Dict, ast.Set, ast.SetComp)
SETS = ("set", "frozenset", "dict", "list", "tuple", "keys", "fromkeys", "str")


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Other nodes that could stand in a node's place."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(other) for other in (value + 1, value - 1) if other >= 0)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value / 2 if value else 1.0)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OTHER:
            if not any(map(_is_no_number, (left, right))):
                yield ast.BinOp(left, OTHER[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in OTHER and not _is_no_number(value):
            yield ast.AugAssign(target, OTHER[type(op)](), value)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(OTHER[type(op)](), values)
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            if not isinstance(operand, ast.Constant):
                yield operand
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in OTHER:
            yield ast.Compare(left, [OTHER[type(op)]()], right)
        case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args, keywords=keywords):
            if attr == "where" and len(args) == 3:
                yield ast.Call(node.func, [args[0], args[2], args[1]], keywords)
            if attr in CALLS:
                yield ast.Call(ast.Attribute(value, CALLS[attr]), args, keywords)
            if attr == "clamp" and len(keywords) == 1:
                yield value
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in ("min", "max", "any", "all"):
            yield ast.Call(ast.Name(CALLS[name]), args, keywords)


def candidates(module: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a module that can be named."""
    without = ON_A_GPU.get(module)
    for within, scope in scopes(ast.parse(source)).items():
        of_people = within.rpartition(".")[2] in FOR_PEOPLE
        if of_people or without == () or any(within.startswith(name) for name in without or ()):
            continue
        read = {text: len(there) for text, there in readings(scope).items()}
        for node, above in nodes(scope):
            if any(isinstance(one, (ast.Raise, ast.JoinedStr)) for one in above) or _is_axis(node, above):
                continue
            for change in changes(node):
                if (named := _named(module, within, read, (*above, node), change)) is not None:
                    yield named


def _named(module: str, within: str, read: dict[str, int], chain: tuple[ast.AST, ...], put: ast.AST) -> Mutant | None:
    """The mutant by the smallest expression around it that is there once; None where there is none on one line."""
    for depth in reversed(range(len(chain))):
        anchor = chain[depth]
        whole = len(chain) == 1
        if isinstance(anchor, (ast.Constant, ast.Name)) and not whole:
            continue
        if not isinstance(anchor, (ast.expr, ast.keyword, ast.stmt)) or isinstance(anchor, ast.Starred):
            continue
        find, changed = ast.unparse(anchor), ast.unparse(_replaced(anchor, chain[-1], put))
        if "\n" in find:
            return None
        if read[find] == 1 and changed not in read:
            return Mutant("", module, within, find, changed)
    return None


def _replaced(anchor: ast.AST, old: ast.AST, put: ast.AST) -> ast.AST:
    """A copy of `anchor` with `put` in place of `old`."""
    return copy.deepcopy(put) if anchor is old else copy.deepcopy(anchor, {id(old): put})


def _is_axis(node: ast.AST, above: tuple[ast.AST, ...]) -> bool:
    """Whether a number names an axis, or an argument like it."""
    match above[-1:]:
        case (ast.Call(func=ast.Attribute(attr=attr)),) if attr in BY_AXIS:
            return isinstance(node, ast.Constant)
    return any(isinstance(one, ast.keyword) and one.arg in AXES for one in above)


def _is_no_number(node: ast.AST) -> bool:
    """Whether what stands there is seen to be a text, a list, a set or the like."""
    match node:
        case ast.Constant(value=value):
            return value is None or isinstance(value, str)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) | ast.Name(id=name):
            return name in SETS
    return isinstance(node, NO_NUMBERS)


def drawn(seed: int, count: int, package: Path = PACKAGE) -> list[Mutant]:
    """So many mutants, from each room in turn, no two in one expression."""
    order = random.Random(seed)
    pools = {}
    for room in ROOMS:
        found = [one for name in modules(package, room) for one in candidates(name, (package / name).read_text())]
        order.shuffle(found)
        pools[room] = found
    chosen = dict[tuple[str, str, str], Mutant]()
    while len(chosen) < count:
        pool = pools[ROOMS[len(chosen) % len(ROOMS)]]
        one = pool.pop()
        place = one.module, one.within, one.find
        if place in chosen or not _possible(package, one):
            continue
        chosen[place] = Mutant(f"drawn-{len(chosen) + 1:02d}", one.module, one.within, one.find, one.put)
    return list(chosen.values())


def _possible(package: Path, mutant: Mutant) -> bool:
    try:
        mutated((package / mutant.module).read_text(), mutant)
    except MissingError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.mutants.draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=31)
    options = parser.parse_args()
    print(json.dumps([one.to_plain() for one in drawn(options.seed, options.count)], indent=1))


if __name__ == "__main__":
    main()
