"""What commands print: tables as wide as the screen, lines that may quote anything, JSON objects."""

import shutil
import sys
from json import dumps
from typing import Any

from vlnbert.errors import printable_text
from vlnbert.tables import WIDE, Table


def show(table: Table) -> None:
    """Print a table as wide as the terminal; a pipe or a file gets whole rows, however long."""
    print(table.text(shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE))


def answer(values: Any, shown: Table | str, json: bool) -> None:
    """Print a result: its values as one JSON object, or a table or text of them."""
    if json:
        print_json(values)
    elif isinstance(shown, Table):
        show(shown)
    else:
        tell(shown)


def tell(line: str, aside: bool = False) -> None:
    """Print a line that may quote anything, `aside` on standard error."""
    print(printable_text(line), file=sys.stderr if aside else sys.stdout)


def print_json(values: Any) -> None:
    """Print an object, whole and in one line."""
    print(dumps(values))
