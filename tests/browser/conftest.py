"""A real browser: Debian's chromium, driven by playwright. Without one these tests are skipped, and fail in CI."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

PLACES = os.environ.get("CHROMIUM", ""), "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SMALLEST = 11.0  # pixels of text
# Every text that can be seen, and how large it is on the screen: an SVG may be drawn smaller than it says.
TEXT_SIZES = """() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), part = walker.currentNode.parentElement;
    if (!text || !part.checkVisibility() || ["SCRIPT", "STYLE", "TITLE", "title"].includes(part.tagName)) continue;
    const drawing = part.closest("svg"), scale = drawing && part.getScreenCTM ? part.getScreenCTM().d : 1;
    found.push([parseFloat(getComputedStyle(part).fontSize) * scale, text.slice(0, 40)]);
  }
  return found;
}"""

# Texts of drawings that reach beyond their drawing by more than a pixel, where they are cut off.
TEXTS_CUT_OFF = """() => [...document.querySelectorAll("svg text")].filter((text) => {
  if (!text.checkVisibility()) return false;
  const inner = text.getBoundingClientRect(), outer = text.closest("svg").getBoundingClientRect();
  return inner.left < outer.left - 1 || inner.right > outer.right + 1
    || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
}).map((text) => text.textContent)"""


def find_chromium() -> str | None:
    return next((place for place in PLACES if place and shutil.which(place)), None)


@pytest.fixture(scope="module")  # while its driver is there, its event loop runs, and no other test can have one
def browser() -> Iterator[Browser]:
    chromium = find_chromium()
    if chromium is None:
        told = "no chromium: apt-get install chromium, or name it in $CHROMIUM"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file or an address; whatever the page writes to its console as an error fails the test."""
    contexts, errors = [], list[str]()

    def open_one(place: Path | str, *, ready: str = "body", **options: Any) -> Page:
        context = browser.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(place.as_uri() if isinstance(place, Path) else place)
        page.wait_for_selector(ready, timeout=10_000)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert errors == []


def small_texts(page: Page) -> list[list[Any]]:
    """The texts that are smaller than 11 px, with their sizes."""
    return [found for found in page.evaluate(TEXT_SIZES) if found[0] < SMALLEST - 0.01]


def violations(page: Page) -> list[str]:
    """What axe finds wrong with labels, contrast and structure, a line each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]


def overflows(page: Page) -> bool:
    """Whether the page can be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def cut_off_texts(page: Page) -> list[str]:
    """The texts of drawings that are not wholly inside their drawing."""
    return list(page.evaluate(TEXTS_CUT_OFF))
