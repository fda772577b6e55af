"""Tables: flush where they should be, whole in their first column, and plain text whatever the cells hold."""

import re

from vlnbert.tables import Table

TABLE = Table(
    ("agent", "SR", "TL m", "note"),
    [
        ("random", "9.0", "10.64", "walks"),
        ("navigator", "85.8", "-", "[bold]reads[/bold]"),
        ("other", "1,440", "9.1", ""),
    ],
    title="r2r/val_unseen",
)


def test_numbers_are_flush_right_and_words_flush_left() -> None:
    title, _, head, _, *rows = TABLE.text().splitlines()
    assert title == "r2r/val_unseen"
    assert TABLE.numeric == [False, True, True, False]
    end = head.index("SR") + len("SR")
    assert {row[:end].split()[-1] for row in rows} == {"9.0", "85.8", "1,440"}
    assert all(row[end : end + 1].strip() == "" for row in rows)
    assert {row.index(cell) for row, (cell, *_) in zip(rows, TABLE.rows, strict=True)} == {head.index("agent")}


def test_a_narrow_terminal_cuts_no_name() -> None:
    text = TABLE.text(width=30)
    assert max(map(len, text.splitlines())) <= 30
    assert all(row[0] in text for row in TABLE.rows)


def test_no_terminal_is_too_narrow_for_a_name() -> None:
    """Nor for the words of the other columns, which go on in the next line."""
    table = Table(("preset", "what it is", "needs"), [("r2r-one-stream-unmatched", "the same, unabridged", "features")])
    for width in (1, 10, 24, 30, 40):
        text = table.text(width)
        assert "r2r-one-stream-unmatched" in text
        assert "…" not in text
        other = "".join(line[26:].replace(" ", "") for line in text.splitlines())
        assert all(letter in other for letter in "unabridged")
        assert max(map(len, text.splitlines())) <= max(width, 24 + 3 * 4)


def test_a_long_title_stays_on_its_line() -> None:
    title = "a title that is wider than the table"
    assert Table(("a",), [("1",)], title).text().splitlines()[0] == title


def test_cells_are_shown_as_they_are() -> None:
    """Names come from files: they are neither markup nor colours."""
    assert "[bold]reads[/bold]" in TABLE.text()
    assert "\x1b" not in TABLE.text()
    assert "\x1b" not in Table(("a",), [("[red]x",)], "[red]t").text()


def test_html_is_escaped_and_flush() -> None:
    table = Table(("<a>", "SR"), [("<script>alert(1)</script>", "9.0"), ("b & c", "-")], title="<t>")
    html = table.html()
    assert set(re.findall(r"<(\w+)", html)) == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert "&lt;script&gt;" in html
    assert "b &amp; c" in html
    assert html.count("text-align: right") == 3
    assert html == table._repr_html_()


def test_a_table_prints_as_text() -> None:
    assert str(TABLE) == repr(TABLE) == TABLE.text()


def test_no_rows() -> None:
    assert "SR" in Table(("", "SR"), []).text()
    assert "<tbody></tbody>" in Table(("", "SR"), []).html()
