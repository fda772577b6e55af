"""The report as a browser reads it: balanced, self-contained, everything that users wrote still only text."""

import re
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from vlnbert.analysis.inline_svg import PALETTE, figure_svg
from vlnbert.analysis.report import Drawing, EpisodeCard, Report, attended_words, write_report
from vlnbert.errors import DataError
from vlnbert.tables import Table

EVIL = "<script>alert(1)</script> \"quoted\" & 'more'"
VOID = {"meta", "br", "hr", "link", "img"}
ADDRESSES = {"href", "xlink:href", "src", "action", "data", "poster", "srcset"}


class Page(HTMLParser):
    """Collects elements and text, and fails on a tag that does not close what was opened last."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"<{tag}> says something twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def drawn(label: str, width: float = 2) -> str:
    figure = Figure(figsize=(width, 1), label=label)
    figure.add_subplot().plot([0, 1], [1, 0], "o-", color=PALETTE["walked"])
    return figure_svg(figure)


@pytest.fixture
def report() -> Report:
    scores = Table(("agent", "SR", EVIL), (("random", "16.3", "—"), (EVIL, "100.0", "2 m")), title=EVIL, note=EVIL)
    steps = Table(("step", "words"), (("1", attended_words(["turn", EVIL], [0.2, 0.8])), ("2", EVIL)), title="Steps")
    svgs = [drawn(f"{EVIL} {number}") for number in range(3)]
    return Report(
        title=EVIL,
        context=EVIL,
        tables=(scores,),
        drawings=(Drawing(svgs[0], EVIL),),
        episodes=(
            EpisodeCard(EVIL, EVIL, EVIL, svgs[1], succeeded=False, steps=steps),
            EpisodeCard("Without steps", "Stop.", "SPL 1.00", svgs[2], succeeded=True),
            EpisodeCard("Of a test split", "Stop.", "4 steps", svgs[2]),
        ),
    )


@pytest.fixture
def page(report: Report, tmp_path: Path) -> Page:
    write_report(tmp_path / "report.html", report)
    return Page(tmp_path / "report.html")


def test_user_text_stays_text(page: Page) -> None:
    assert not page.all("script")
    # title, h1, context; table's title, column, row and note; caption; card's title, outcome, text, token and cell
    assert sum(EVIL in text for text in page.text) == 13


def test_nothing_is_fetched(page: Page) -> None:
    assert {tag for tag, _ in page.elements}.isdisjoint({"link", "img", "iframe", "object", "embed", "base", "form"})
    addresses = [value for _, found in page.elements for name, value in found.items() if name in ADDRESSES]
    assert addresses
    assert all(value is not None and value.startswith("#") for value in addresses)
    assert re.findall(r"url\((?!#)|@import", page.source) == []
    policy = next(meta for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert str(policy["content"]).startswith("default-src 'none'")


def test_readers_who_listen_find_their_way(page: Page) -> None:
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("title")) == len(page.all("h1")) == len(page.all("main")) == 1
    assert {svg["role"] for svg in page.all("svg")} == {"img"}
    assert [svg["aria-label"] for svg in page.all("svg")] == [f"{EVIL} {number}" for number in (0, 1, 2, 2)]
    assert Counter(header["scope"] for header in page.all("th")) == {"col": 5, "row": 4}
    assert [text for text in page.text if text.startswith(("Success", "Failure", "Goal withheld"))] == [
        f"Failure: {EVIL}",
        "Success: SPL 1.00",
        "Goal withheld: 4 steps",
    ]


def test_names_inside_figures_do_not_clash() -> None:
    small, large = (set(re.findall(r' id="([^"]+)"', drawn("figure", width))) for width in (2, 3))
    assert small
    assert large
    assert small.isdisjoint(large)


def test_every_reference_inside_a_figure_resolves(report: Report) -> None:
    svg = report.drawings[0].svg
    referred = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
    assert {name for pair in referred for name in pair if name} == set(re.findall(r' id="([^"]+)"', svg))


def test_numbers_are_flush_right(page: Page) -> None:
    assert [cell.get("class") for cell in page.all("td")] == ["number"] * 4 + [None] * 2
    assert not any("class" in header for header in page.all("th") if header["scope"] == "row")


def test_dark_screens_have_every_colour() -> None:
    style = files("vlnbert.analysis").joinpath("report.css").read_text(encoding="utf-8")
    dark = style.split("prefers-color-scheme: dark", 1)[1]
    assert [name for name in PALETTE if f"--{name}: #" not in dark] == []
    assert set(re.findall(r"var\(--(\w+)\)", style)) <= {*PALETTE, "weight"}


def test_an_empty_report_is_a_page(tmp_path: Path) -> None:
    write_report(
        tmp_path / "new" / "report.html", Report("Nothing yet", "No runs.", tables=(Table(("a",), (), title="T"),))
    )
    page = Page(tmp_path / "new" / "report.html")
    assert not page.all("article")
    assert len(page.all("table")) == 1


def test_a_ragged_table_is_refused_and_leaves_the_old_report(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="zip"):
        write_report(path, Report("R", "", tables=(Table(("a", "b"), (("1", "2"), ("3",)), title="T"),)))
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(DataError, match=r"report\.html: is not a regular file"):
        write_report(tmp_path / "report.html", Report("R", ""))


def test_attended_words_join_pieces_and_scale_to_the_strongest() -> None:
    words = attended_words(["the", "bed", "##room"], [0.0, 0.1, 0.4])
    assert re.sub("<.*?>", "", words) == "the bedroom"
    assert re.findall(r"--weight: (\S+)\"", words) == ["0%", "25%", "100%"]
    assert re.findall(r'title="(\S+)"', words) == ["0.0%", "10.0%", "40.0%"]


@pytest.mark.parametrize(("tokens", "weights"), [([], []), (["turn", "left"], [0.0, 0.0])])
def test_attended_words_without_any_weight(tokens: list[str], weights: list[float]) -> None:
    words = attended_words(tokens, weights)
    assert set(re.findall(r"--weight: (\S+)\"", words)) <= {"0%"}


def test_attended_words_need_a_weight_each() -> None:
    with pytest.raises(ValueError, match="zip"):
        attended_words(["turn", "left"], [0.5])
