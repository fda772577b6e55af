"""What several verbs share: types of options, and tables on the screen."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from vlnbert.tables import WIDE, Table

if TYPE_CHECKING:
    from rich.console import Console

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
DataPath = Annotated[Path, tyro.conf.arg(metavar="DIR")]
RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN")]
TaskName = Annotated[str, tyro.conf.arg(metavar="TASK")]


def show(table: Table) -> None:
    """Print a table as wide as the terminal; a pipe or a file gets whole rows, however long."""
    print(table.text(shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE))


def screen() -> "Console":
    """Standard output, for tables of more than rows and columns."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)  # names from files are shown as they are
    return console if console.is_terminal else Console(markup=False, highlight=False, width=WIDE)
