"""Which options the commands have, and which ones a text names: of which command, by what stands before them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import vlnbert
from vlnbert.cli import main, train
from vlnbert.cli.parser import Command

SOURCE = Path(vlnbert.__file__).parent
RESUME = "train --resume"
PRESETS = ("demo", "speaker-demo")  # a navigator's settings and a speaker's
TRAINS = (*(f"train {preset}" for preset in PRESETS), RESUME)
COMMANDS = (*(verb for verb in main.VERBS if verb != "train"), *TRAINS)
EVERYWHERE = {"--plugin", "--help", "--help-all", "--version", "--plain"}
STRANGERS = ("torchrun", "pip install")  # programs with options of their own
OF_STRANGERS = {"--nnodes", "--no-sandbox", "--disable-gpu"}  # such options that stand alone: torchrun's, a browser's
# A command; where what is said of one ends; an option.
WORDS = re.compile(
    r"(?P<command>(?:vlnbert|\{\}) (?!vlnbert)(?P<verb>[a-z]\w*(?:[ -][\w-]+)?))"
    r"|(?P<stranger>torchrun|pip install)|(?P<end>[;)`\n])"
    r"""|(?<![\w"-])(?P<option>--[a-z][\w.-]*\w)"""
)


@cache
def options(command: str) -> frozenset[str]:
    """The options that a command takes; `vlnbert train` takes those of its presets and of a resumption."""
    if command == "train":
        return frozenset().union(*map(options, TRAINS))
    return frozenset(parser(command).by_name) | EVERYWHERE


def parser(command: str) -> Command:
    """What reads the words after a command."""
    if command == RESUME:
        return train.resuming()
    return train.beginning(command.split()[1]) if command.startswith("train ") else main.VERBS[command]


def named(text: str, at_hand: str = "") -> Iterator[tuple[str, str]]:
    """The options that a text names, each with the command that stands before it, or the one at hand."""
    command = at_hand
    for word in WORDS.finditer(text):
        if word["command"]:
            verb = " ".join(word["verb"].split()[:2])
            command = next((one for one in (verb, verb.split()[0]) if one in main.VERBS), command)
        elif word["stranger"]:
            command = word["stranger"]
        elif word["end"]:
            command = at_hand
        elif command not in STRANGERS and word["option"] not in OF_STRANGERS:
            yield word["option"], command


def wrong(text: str, at_hand: str) -> list[str]:
    """The options that a text names and a command does not have."""
    return [f"{option} of {command}" for option, command in named(text, at_hand) if option not in options(command)]


def texts(path: Path) -> Iterator[str]:
    """What a module's literals say, with {} for what is filled in; words of a list stand side by side."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = set[int]()
    for node in ast.walk(tree):  # outer nodes come before what they hold
        if isinstance(node, ast.List | ast.JoinedStr | ast.Constant) and id(node) not in inner | docstrings:
            text = _said(node)
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.List) and "--" in text):
                inner.update(map(id, ast.walk(node)))
            if "--" in text:
                yield text


def _said(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_said, node.values))
    if isinstance(node, ast.List):
        return " ".join(map(_said, node.elts))
    return "{}"


@cache
def places() -> set[str]:
    """Every setting that a message of the package names by its place, and every setting of an experiment."""
    found = set[str]()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setting":
                found.add(_said(node.args[0]))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require_within":
                found.update(keyword.arg for keyword in node.keywords if keyword.arg)
    settings = {option[2:].replace("-", "_") for command in TRAINS for option in options(command)}
    return {place for place in found if place and "{}" not in place} | settings
