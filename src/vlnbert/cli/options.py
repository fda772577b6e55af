"""What several verbs share: types of options, and tables on the screen."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from vlnbert.errors import UsageError, printable_text
from vlnbert.tables import WIDE, Table

if TYPE_CHECKING:
    from rich.console import Console

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
DataPath = Annotated[Path, tyro.conf.arg(metavar="DIR")]
RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN")]
TaskName = Annotated[str, tyro.conf.arg(metavar="TASK")]
SplitName = Annotated[str, tyro.conf.arg(metavar="[TASK/]SPLIT")]
OptionalSplit = Annotated[str | None, tyro.conf.arg(metavar="[TASK/]SPLIT")]


@dataclass(frozen=True)
class DecodingOptions:
    """How a speaker chooses words: keywords of `vln.speak`. A field's docstring is its help."""

    decoding: Literal["greedy", "nucleus", "beam"] = "greedy"
    """greedy takes the likeliest word at each place; nucleus draws one among the likeliest; beam looks for the
    likeliest instruction."""
    top_p: float = 0.9
    """Of nucleus: the probability that the words have together among which one is drawn."""
    temperature: float = 0.9
    """Of nucleus: below 1 the likely gets likelier."""
    beams: int = 4
    """Of beam: instructions that are kept at each place."""
    length_penalty: float = 0.6
    """Of beam: the power of the length by which the logarithm of a probability is divided."""
    max_tokens: int | None = None
    """Longest instruction, in word pieces, [CLS] and [SEP] included; by default the speaker's."""


FlatDecoding = Annotated[DecodingOptions, tyro.conf.arg(name="")]


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
