"""A page as a browser reads it: balanced, with its elements, texts and data."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

VOID = {"meta", "br", "hr", "link", "img"}


class Page(HTMLParser):
    """Collects elements and text, and fails on a tag that does not close what was opened last."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []  # that people read
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"<{tag}> says something twice"
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = attributes, before + data
        elif not self.open or self.open[-1] != "style":
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self) -> dict[str, Any]:
        """What the page holds as JSON, by id."""
        return {str(at["id"]): json.loads(text) for at, text in self.scripts if at.get("type") == "application/json"}

    @property
    def words(self) -> str:
        """All that people read, in one line."""
        return " ".join(" ".join(self.text).split())  # no-break spaces too
