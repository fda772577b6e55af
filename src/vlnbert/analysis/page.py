"""One HTML file that needs nothing else: its shell, its tables and the data in it, for light and dark screens."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Any

from vlnbert.analysis.web import read_file, viewer_script, viewer_style
from vlnbert.sources.writing import written_beside
from vlnbert.tables import Table, escaped


class Markup(str):
    """HTML that we made and that is safe to show as it is; every other text is escaped."""


def text(value: str) -> str:
    """A text as HTML; what is HTML already stays."""
    return value if isinstance(value, Markup) else escaped(value)


def write_page(path: Path, title: str, body: str, data: Mapping[str, Any]) -> None:
    """Write a page with the viewer and the data that it shows, by id; a reader never sees half of it."""
    with written_beside(path) as temporary:
        temporary.write_text(page(title, body, data), encoding="utf-8")


def page(title: str, body: str, data: Mapping[str, Any]) -> str:
    """Even a page that was tampered with loads nothing and runs nothing but our own script, told by its hash."""
    script = viewer_script() + read_file("page.js")
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; base-uri 'none'"
    held = [
        f'<script type="application/json" id="{escaped(id)}">{as_data(value)}</script>' for id, value in data.items()
    ]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escaped(title)}</title>\n<style>\n{viewer_style()}{read_file('page.css')}</style>\n</head>",
            f"<body>\n<main>\n{body}\n</main>",
            *(held if data else ()),
            *([f"<script>{script}</script>"] if data else ()),
            "</body>\n</html>\n",
        ]
    )


def as_data(value: Any) -> str:
    """JSON that can stand inside a page: nothing in it ends the element that holds it."""
    return dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def table(table: Table) -> str:
    """A table that scrolls sideways on a narrow screen, and shows that it does."""
    aligned = [' class="number"' if number else "" for number in table.numeric]
    aligned[0] = ""  # names stay on the left, numbers though they may be
    head = "".join(
        f'<th scope="col"{side}>{text(name)}</th>' for name, side in zip(table.columns, aligned, strict=True)
    )
    body = "\n".join(f"<tr>{_row(row, aligned)}</tr>" for row in table.rows)
    note = f'\n<p class="note">{text(table.note)}</p>' if table.note else ""
    title = f"<h3>{text(table.title)}</h3>\n" if table.title else ""
    return (
        f'{title}<div class="scroll" tabindex="0" role="group" aria-label="{escaped(table.title or "Table")}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>{note}"
    )


def _row(cells: Sequence[str], aligned: Sequence[str]) -> str:
    first, *others = map(text, cells)
    return f'<th scope="row">{first}</th>' + "".join(
        f"<td{side}>{cell}</td>" for cell, side in zip(others, aligned[1:], strict=True)
    )
