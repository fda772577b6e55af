"""What commands print: tables as wide as the screen, lines that may quote anything, JSON objects."""

import shutil
import sys
from json import dumps
from typing import TYPE_CHECKING, Any

from vlnbert.errors import printable_text
from vlnbert.tables import WIDE, Table

if TYPE_CHECKING:
    from rich.console import Console


def show(table: Table) -> None:
    """Print a table as wide as the terminal; a pipe or a file gets whole rows, however long."""
    print(table.text(shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE))


def tell(line: str, aside: bool = False) -> None:
    """Print a line that may quote anything, `aside` on standard error."""
    print(printable_text(line), file=sys.stderr if aside else sys.stdout)


def print_json(values: Any) -> None:
    """Print an object, whole and in one line."""
    print(dumps(values))


def screen() -> "Console":
    """Standard output, for tables of more than rows and columns."""
    from rich.console import Console
    from rich.text import Text

    class Screen(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            """Names from files are shown as they are, but for what would upset a terminal."""
            return super().render_str(printable_text(text), **options)

    console = Screen(markup=False, highlight=False)
    return console if console.is_terminal else Screen(markup=False, highlight=False, width=WIDE)
