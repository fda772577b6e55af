"""What several verbs share: types of options, and tables on the screen."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vlnbert.errors import UsageError, printable_text
from vlnbert.speaker.config import Decoding
from vlnbert.tables import WIDE, Table

if TYPE_CHECKING:
    from rich.console import Console

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
DataPath = Annotated[Path, tyro.conf.arg(metavar="DIR")]
RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN")]
TaskName = Annotated[str, tyro.conf.arg(metavar="TASK")]
SplitName = Annotated[str, tyro.conf.arg(metavar="[TASK/]SPLIT")]
OptionalSplit = Annotated[str | None, tyro.conf.arg(metavar="[TASK/]SPLIT")]


FlatDecoding = Annotated[Decoding, tyro.conf.arg(name="")]


def split_of_task(split: str, task: str) -> str:
    """A split by its full name; one that names another task than --task is refused."""
    from vlnbert.tasks.splits import full_name, task_and_split

    name = full_name(split, task)
    if task_and_split(name)[0] != task:
        raise UsageError(f"{split} is no split of --task {task}; name the task once")
    return name


def show(table: Table) -> None:
    """Print a table as wide as the terminal; a pipe or a file gets whole rows, however long."""
    print(table.text(shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE))


def tell(line: str, aside: bool = False) -> None:
    """Print a line that may quote anything, `aside` on standard error."""
    print(printable_text(line), file=sys.stderr if aside else sys.stdout)


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
