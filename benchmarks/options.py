"""Options that several benches have, and what a bench found."""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.runtime import require_device, require_within, use_threads
from vlnbert.tables import Table

MOST = 1_000_000
RACED = ("times the plain way", "its spread")  # columns of a table


@dataclass(frozen=True)
class Found:
    """What a bench measured: for scripts, and for people."""

    facts: dict[str, Any]
    table: Table
    lines: Sequence[str] = ()  # below the table


def add_preset(parser: ArgumentParser, default: str = "demo") -> None:
    """Add the preset whose navigator or speaker is measured."""
    parser.add_argument("preset", nargs="?", default=default, metavar="PRESET", help=f"whose network ({default})")


def add_data(parser: ArgumentParser) -> None:
    """Add the data folder."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="a data folder (houses generated for the occasion)")


def add_machine(parser: ArgumentParser, rounds: int, threads: int | None = None) -> None:
    """Add what says how, and where, something is timed."""
    usual = "torch's choice" if threads is None else threads
    parser.add_argument("--rounds", type=int, default=rounds, help=f"how often each rival is timed ({rounds})")
    parser.add_argument("--threads", type=int, default=threads, help=f"CPU threads ({usual})")
    parser.add_argument("--device", default="cpu", help="where the tensors are, such as cpu or cuda (cpu)")


def add_sizes(parser: ArgumentParser, tokens: int) -> None:
    """Add the size of a navigator, of its batch and of its instructions."""
    parser.add_argument("--size", default="base", help="a named size: base, minilm, small or tiny (base)")
    parser.add_argument("--backbone", choices=("one-stream", "two-stream"), help="one backbone alone (both)")
    parser.add_argument("--agents", type=int, default=8, help="agents that walk together (8)")
    parser.add_argument("--tokens", type=int, default=tokens, help=f"length of their instructions ({tokens})")


def use_machine(device: str, threads: int | None, rounds: int) -> None:
    """Refuse a device or numbers that cannot be, and use so many threads."""
    require_within(rounds=(rounds, 2, MOST))
    require_device(device)
    use_threads(threads)


def gibibytes(size: int | None) -> str:
    """A size in a table; a dash where it was not counted."""
    return "-" if size is None else f"{size / 2**30:.2f}"
