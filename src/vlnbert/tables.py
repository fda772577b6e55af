"""Tables that print well: in a terminal, in a file and in a notebook."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from vlnbert.errors import printable_text

NUMBER = re.compile(r"[-+]?[\d.,]+( ?%| ?m)?|[-—]?")  # cells that line up on the right; a dash stands for none
NARROWEST = 4  # characters of a column and the blank behind it
WIDE = 200  # characters of a line in a pipe or a file, which get whole rows


@dataclass(frozen=True, repr=False)
class Table:
    """Cells are text, already formatted; the first of a row names it. Columns of numbers are set flush right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""

    @property
    def numeric(self) -> list[bool]:
        """[column] whether its cells are numbers, or dashes for none."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        return [any(column) and all(NUMBER.fullmatch(cell) for cell in column) for column in columns]

    def text(self, width: int = WIDE) -> str:
        """For a terminal, no line longer than `width`, unless names, those of the first column, would be cut."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Column
        from rich.table import Table as RichTable
        from rich.text import Text

        names, rows = [*map(printable_text, self.columns)], [[*map(printable_text, row)] for row in self.rows]
        longest = max(map(len, (names[0], *(row[0] for row in rows))))
        columns = [
            Column(Text(name), justify="right" if number else "left", overflow="fold")
            for name, number in zip(names, self.numeric, strict=True)
        ]
        columns[0].min_width, columns[0].no_wrap = longest, True
        width = max(width, longest + NARROWEST * len(columns))
        table = RichTable(*columns, box=SIMPLE_HEAD, padding=(0, 0))
        for row in rows:
            table.add_row(*map(Text, row))
        console = Console(width=width, markup=False, highlight=False, color_system=None)
        with console.capture() as captured:
            # The title stands by itself: as the table's own it would be no wider than that.
            if self.title:
                console.print(Text(printable_text(self.title)))
            console.print(table)
            if self.note:
                console.print(Text(printable_text(self.note)))
        return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())

    def html(self) -> str:
        """For a notebook."""
        sides = [' style="text-align: right"' if number else ' style="text-align: left"' for number in self.numeric]
        head = "".join(f"<th{side}>{escaped(name)}</th>" for name, side in zip(self.columns, sides, strict=True))
        body = "".join(
            "<tr>" + "".join(f"<td{side}>{escaped(cell)}</td>" for cell, side in zip(row, sides, strict=True)) + "</tr>"
            for row in self.rows
        )
        title = f"<caption>{escaped(self.title)}</caption>" if self.title else ""
        note = f"<p>{escaped(self.note)}</p>" if self.note else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()


class Tabled:
    """A result that prints as its tables, also in a notebook; it has a `table` of its own, or several `tables`."""

    def table(self) -> Table:
        """The first of its tables."""
        return self.tables()[0]

    def tables(self) -> Sequence[Table]:
        """Its only table."""
        return [self.table()]

    def __repr__(self) -> str:
        return "\n\n".join(table.text() for table in self.tables())

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())


def escaped(text: str) -> str:
    """Text as HTML, in which control characters can be seen."""
    return escape(printable_text(text))
