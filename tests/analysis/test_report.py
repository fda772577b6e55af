"""The report as a browser reads it: balanced, self-contained, everything that users wrote still only text."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tests.analysis.pages import Page
from tests.browser.samples import PLAN, recorded
from vlnbert.analysis.figures import PALETTE, figure_svg
from vlnbert.analysis.page import viewer_style
from vlnbert.analysis.report import (
    EpisodeCard,
    Report,
    Section,
    bars,
    columns,
    drawing,
    figures,
    folded,
    listing,
    own,
    paragraph,
    terms,
    write_report,
)
from vlnbert.errors import DataError
from vlnbert.tables import Table

EVIL = "<script>alert(1)</script> \"quoted\" & 'more' </script>"
ADDRESSES = {"href", "xlink:href", "src", "action", "data", "poster", "srcset"}


def drawn(label: str) -> str:
    figure = Figure(figsize=(2, 1), label=label)
    figure.add_subplot().plot([0, 1], [1, 0], "o-", color=PALETTE["walked"])
    return figure_svg(figure)


@pytest.fixture
def report() -> Report:
    scores = Table(("agent", "SR", EVIL), (("random", "16.3", "-"), (own(EVIL), "100.0", "2")), title=EVIL, note=EVIL)
    parts = [
        scores,
        terms([(EVIL, EVIL)]),
        columns(bars(EVIL, EVIL, [(EVIL, 0.25, 7)], EVIL)),
        columns(drawing(drawn("one"), EVIL), drawing(drawn("two"), "plain"), kind="drawings"),
        folded(EVIL, listing(EVIL)),
    ]
    episodes = [EpisodeCard(EVIL, recorded(text=EVIL), PLAN), EpisodeCard("plain", recorded(), PLAN)]
    return Report(
        EVIL,
        [paragraph(EVIL, "lead"), figures([(EVIL, EVIL, EVIL)])],
        [Section(EVIL, parts), Section("Episodes", episodes)],
        {"scores": {"text": EVIL}},
    )


@pytest.fixture
def page(report: Report, tmp_path: Path) -> Page:
    write_report(tmp_path / "report.html", report)
    return Page(tmp_path / "report.html")


def test_user_text_stays_text(page: Page) -> None:
    assert len(page.scripts) == 5, "scores, two records, one plan and the viewer"
    # title, h1, lead, three of a figure; heading of the section; table's title, column, row and note; two of a term;
    # four of the bars; caption; summary and listing; title and first word of the card, which three steps read
    assert sum(EVIL in text for text in page.text) == 25
    assert page.data["scores"] == {"text": EVIL}
    assert page.data["record-1"]["instruction"]["text"] == EVIL


def test_nothing_is_fetched_and_only_the_viewer_runs(page: Page) -> None:
    assert {tag for tag, _ in page.elements}.isdisjoint({"link", "img", "iframe", "object", "embed", "base", "form"})
    addresses = [value for _, found in page.elements for name, value in found.items() if name in ADDRESSES]
    assert all(value is not None and value.startswith("#") for value in addresses)
    assert re.findall(r"url\((?!#)|@import", page.source) == []
    assert not any(name.startswith("on") for _, found in page.elements for name in found)
    policy = next(meta for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    (script,) = (text for at, text in page.scripts if "type" not in at)
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    assert str(policy["content"]).startswith("default-src 'none';")
    assert f"script-src 'sha256-{allowed}'" in str(policy["content"])


def test_readers_who_listen_find_their_way(page: Page) -> None:
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("title")) == len(page.all("h1")) == len(page.all("main")) == 1
    assert len(page.all("h2")) == 2
    assert all(svg["aria-label"] or svg.get("aria-hidden") for svg in page.all("svg"))
    assert {th["scope"] for th in page.all("th")} == {"col", "row"}


def test_equal_reports_are_equal_files(report: Report, page: Page, tmp_path: Path) -> None:
    write_report(tmp_path / "again.html", report)
    assert (tmp_path / "again.html").read_text() == page.source


def test_a_report_replaces_another_and_leaves_nothing_beside_it(report: Report, tmp_path: Path) -> None:
    for _ in range(2):
        write_report(tmp_path / "deep" / "report.html", report)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["report.html"]
    with pytest.raises(DataError, match="not a regular file"):
        write_report(tmp_path / "deep", report)


def test_the_figures_and_the_viewer_have_the_same_colours() -> None:
    light = viewer_style().split("@media")[0]
    for name, colour in PALETTE.items():
        assert f"--{name}: {colour};" in light
