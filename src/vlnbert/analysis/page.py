"""One HTML file that needs nothing else: shell, viewer, tables and data; and the wording that all cards share."""

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from json import dumps
from pathlib import Path
from typing import Any

from vlnbert.sources.writing import written_beside
from vlnbert.tables import Table, escaped

TIGHT = tuple(".,;:!?)'%\N{RIGHT SINGLE QUOTATION MARK}")  # what no space stands before
SMALL = 0.01  # a share that is not written as a number
STRAIGHT = 15  # degrees to either side that count as ahead, or as behind
SCRIPTS = "labels.js", "plan.js", "choices.js", "episode.js"  # in this order
STYLES = "episode.css", "still.css"


class Markup(str):
    """HTML that we made and that is safe to show as it is; every other text is escaped."""


def text(value: str) -> str:
    """A text as HTML; what is HTML already stays."""
    return value if isinstance(value, Markup) else escaped(value)


def write_page(path: Path, title: str, body: str, data: Mapping[str, Any]) -> None:
    """Write a page with the viewer and the data that it shows, by id; a reader never sees half of it.

    Its policy lets no other script run than our own, by its hash, and loads nothing.
    """
    script = viewer_script() + read_file("page.js")
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; base-uri 'none'"
    scripts = []
    for id, value in data.items():
        # Nothing in the JSON ends the element that holds it.
        held = dumps(value, separators=(",", ":")).replace("<", "\\u003c")
        scripts.append(f'<script type="application/json" id="{escaped(id)}">{held}</script>')
    if data:
        scripts.append(f"<script>{script}</script>")
    html = "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escaped(title)}</title>\n<style>\n{viewer_style()}{read_file('page.css')}</style>\n</head>",
            f"<body>\n<main>\n{body}\n</main>",
            *scripts,
            "</body>\n</html>\n",
        ]
    )
    with written_beside(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def table(table: Table) -> str:
    """A table that scrolls sideways on a narrow screen, and shows that it does."""
    aligned = [' class="number"' if number else "" for number in table.numeric]
    # Names stay on the left, numbers though they may be.
    aligned[0] = ""
    columns = zip(table.columns, aligned, strict=True)
    head = "".join(f'<th scope="col"{side}>{text(name)}</th>' for name, side in columns)
    rows = []
    for name, *others in table.rows:
        cells = (f"<td{side}>{text(cell)}</td>" for cell, side in zip(others, aligned[1:], strict=True))
        rows.append(f'<tr><th scope="row">{text(name)}</th>{"".join(cells)}</tr>')
    body = "\n".join(rows)
    note = f'\n<p class="note">{text(table.note)}</p>' if table.note else ""
    title = f"<h3>{text(table.title)}</h3>\n" if table.title else ""
    return (
        f'{title}<div class="scroll" tabindex="0" role="group" aria-label="{escaped(table.title or "Table")}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>{note}"
    )


def viewer_script() -> str:
    """One plain script, which defines `vlnbertEpisode.mount(element, record, plan, options)`."""
    return "".join(read_file(name) for name in SCRIPTS)


def viewer_style() -> str:
    """The viewer's style sheet, for light and dark screens."""
    return "".join(read_file(name) for name in STYLES)


def read_file(name: str) -> str:
    """The text of a file of the viewer."""
    return files("vlnbert.analysis").joinpath("web", name).read_text(encoding="utf-8")


def way_to(heading: float, elevation: float, distance: float, *, facing: float) -> str:
    """Direction and distance in words, relative to where the agent faces."""
    turn = math.degrees((heading - facing + math.pi) % math.tau - math.pi)
    way = f"{abs(turn):.0f}° {'right' if turn > 0 else 'left'}"
    way = "ahead" if abs(turn) < STRAIGHT else "back" if abs(turn) > 180 - STRAIGHT else way
    rise = math.degrees(elevation)
    steep = "" if abs(rise) < STRAIGHT else " up" if rise > 0 else " down"
    return f"{way}{steep}, {distance:.1f} m"


def percent(share: float | None) -> str:
    """A probability in percent; small ones are not shown as zero."""
    if share is None:
        return ""
    return "<1 %" if 0 < share < SMALL else f"{100 * share:.0f} %"


def most_read(words: Sequence[str], weights: Sequence[float], count: int) -> list[str]:
    """The words with most attention, in their order; punctuation does not count."""
    places = [place for place, word in enumerate(words) if any(map(str.isalnum, word))]
    strongest = sorted(places, key=lambda place: -weights[place])[:count]
    return list(dict.fromkeys(words[place] for place in sorted(strongest)))


def laid_out(text: str, words: Sequence[str]) -> list[tuple[str, int | None]]:
    """The text in pieces: each word with its place, and what stands between; words of another spelling replace it."""
    pieces, at = list[tuple[str, int | None]](), 0
    for place, word in enumerate(words):
        start = text.find(word, at) if word else -1
        if start < 0 or text[at:start].strip():
            return _spaced(words)
        pieces += [(text[at:start], None), (word, place)]
        at = start + len(word)
    return [piece for piece in (*pieces, (text[at:], None)) if piece[0]]


def _spaced(words: Sequence[str]) -> list[tuple[str, int | None]]:
    pieces = list[tuple[str, int | None]]()
    for place, word in enumerate(words):
        pieces += [(word, place)] if place == 0 or word.startswith(TIGHT) else [(" ", None), (word, place)]
    return pieces
