"""The pages hang together: the site shows all of them, links lead somewhere, and what they name exists.

`make docs` builds the site and is stricter still; this needs none of its dependencies.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

import vlnbert
from tests.docs.snippets import FENCE, PAGES, ROOT
from vlnbert.tasks.task import METRICS

DOCS = ROOT / "docs"
LINKED = [*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "SECURITY", "CODE_OF_CONDUCT"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text()))


@cache
def anchors(page: Path) -> set[str]:
    """What can be linked to in a page: its headings as code hosts name them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, in which some values are Python names."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, suffix, node: suffix)


def listed(nav: object) -> list[str]:
    """The pages of a nav, at any depth."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in listed(part)]


def test_the_site_lists_every_page() -> None:
    shown = listed(yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)["nav"])  # noqa: S506  # a SafeLoader
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert there - set(shown) == set(), "add these to the nav of mkdocs.yml"
    assert set(shown) - there == set(), "mkdocs.yml lists pages that do not exist"
    assert len(shown) == len(set(shown))


@pytest.mark.parametrize("page", LINKED, ids=[str(page.relative_to(ROOT)) for page in LINKED])
def test_links_lead_somewhere(page: Path) -> None:
    text = prose(page)
    assert not re.search(r"\b[A-Z]+_(TABLE|HERE)\b", text), "something is left to fill in"
    for target, anchor in LINK.findall(text):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"links to {target}"
        assert there.is_relative_to(ROOT), f"links to {target}, outside of the repository"
        assert not anchor or anchor in anchors(there), f"links to {target}#{anchor}; known: {sorted(anchors(there))}"


def test_the_glossary_explains_every_score() -> None:
    names = {metric.title.lower() for key, metric in METRICS.items() if key != "episodes"}
    assert names <= anchors(DOCS / "glossary.md")


def test_tables_of_scores_lead_to_the_glossary() -> None:
    for page in PAGES:
        text = prose(page)
        if re.search(r"^\|.*\bSR\b.*\|$", text, re.MULTILINE) and page.name != "glossary.md":
            assert "glossary.md" in text, f"{page.name} has a table of scores"


@cache
def spoken() -> list[str]:
    """Every piece of text in the code, f-strings between their values, and what the Makefile says."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "src").rglob("*.py")]
    constants = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [*(value for value in constants if isinstance(value, str)), (ROOT / "Makefile").read_text()]


def unsaid(message: str) -> list[str]:
    """The pieces of a quoted message, between the places of names and numbers, that nothing in the code says."""
    pieces = [piece for piece in message.split("…") if len(piece) > 3]
    assert pieces, f"{message} quotes nothing"
    return [piece for piece in pieces if not any(piece in text for text in spoken())]


def test_troubleshooting_quotes_real_messages() -> None:
    messages = re.findall(r"\*\*`(.+?)`\*\*", (DOCS / "troubleshooting.md").read_text())
    assert len(messages) > 15
    assert {message: unsaid(message) for message in messages if unsaid(message)} == {}
    assert unsaid("the moon is …, not made of cheese") == ["the moon is ", ", not made of cheese"]


def test_the_changelog_knows_this_version() -> None:
    titles = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert titles[0] == "Unreleased"
    assert titles[1].split()[0] == vlnbert.__version__


def test_the_citation_is_whole() -> None:
    """The fields that the Citation File Format 1.2.0 asks for, and those that a reader needs."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == vlnbert.__version__
    paper = cited["references"][0]
    assert {"type", "title", "authors", "year"} <= set(paper)
    assert "2011.13922" in str(paper["identifiers"])
    assert all({"family-names", "given-names"} <= set(author) for author in paper["authors"])
