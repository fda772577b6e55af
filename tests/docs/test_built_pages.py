"""The pages that `make docs` built: every heading and every block of code of a page is in its HTML, and no raw fence.

Skipped where site/ was not built, or before a page was last changed; in CI, where `make docs` goes first, that fails.
"""

import os
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.snippets import FENCE, ROOT

DOCS, SITE = ROOT / "docs", ROOT / "site"
SOURCES = {page: DOCS / page for page in sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))}
BESIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SOURCES |= {f"repository/{name}": ROOT / name for name in BESIDE}
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)


class Built(HTMLParser):
    """What a built page shows: its headings, how many blocks of code it has, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.blocks, self.text = 0, ""
        self._in_heading = self._in_main = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_main = self._in_main or tag == "article"
        if re.fullmatch("h[1-6]", tag):
            self._in_heading = True
            self.headings.append("")
        self.blocks += self._in_main and tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if re.fullmatch("h[1-6]", tag):
            self._in_heading = False
        self._in_main = self._in_main and tag != "article"

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self.headings[-1] += data
        if self._in_main:
            self.text += data


def letters(text: str) -> str:
    """A heading without its marks: Markdown's in the source, a permanent link's in the page."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\]\([^)]*\)", "", text).lower())


def html_of(page: str) -> Path:
    """Where mkdocs puts a page."""
    place = SITE / page.removesuffix(".md")
    return (place.parent if place.name in ("index", "README") else place) / "index.html"


def why_not() -> str | None:
    """What keeps the built pages from being looked at, or None."""
    if not (SITE / "index.html").is_file():
        return "site/ is not built; run: make docs"
    built = (SITE / "index.html").stat().st_mtime
    changed = [name for name, source in SOURCES.items() if source.stat().st_mtime > built]
    return f"site/ is older than {changed[0]}; run: make docs" if changed else None


@pytest.mark.parametrize("page", SOURCES)
def test_a_built_page_has_all_headings_and_no_raw_fence(page: str) -> None:
    reason = why_not()
    if reason:
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    source = SOURCES[page].read_text()
    built = Built(html_of(page).read_text())
    assert "```" not in built.text
    assert built.blocks >= len(FENCE.findall(source)), "a fenced block is not shown as one"
    wanted = Counter(letters(heading) for heading in HEADING.findall(FENCE.sub("", source)))
    assert wanted - Counter(letters(heading) for heading in built.headings) == Counter(), "headings are missing"


def test_a_raw_fence_and_a_lost_heading_are_seen() -> None:
    """As Python-Markdown leaves a fence of two words: a code span that swallows what follows, headings included."""
    html = "<article><h1>Files<a>&para;</a></h1><p>``` <code>json r2r {} ## Lost</code> ```</p></article>"
    built = Built(html)
    assert (built.headings, built.blocks) == (["Files¶"], 0)
    assert "```" in built.text


def test_ci_builds_the_pages_before_it_looks_at_them() -> None:
    made = re.findall(r"^make (\w+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert made == ["check", "docs", "test"]
