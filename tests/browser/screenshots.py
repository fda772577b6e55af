"""The pictures of the README: `make screenshots` trains the demo's navigator and takes them of its pages.

Each picture is a function of a browser, the demo and the file to write, listed in `PICTURES`. The demo is kept in
demo/, as by `make demo`, and serves again.
"""

import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import vlnbert as vln
from benchmarks.explorer import served
from tests.browser.conftest import find_chromium

WIDTH = 1180
WORDS = "Walk down the hallway, go into the nursery and stop near the lamp."
LARGEST, MOVING = 250_000, 1_000_000  # bytes of a picture in the repository, and of a moving one
FRAME = 1500  # milliseconds for which a step is shown


def report(browser: Browser, demo: vln.Run, path: Path) -> None:
    """The top of the demo's report."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    page.goto(_report(demo).as_uri())
    page.wait_for_selector(".card.live .ve-viewpoint")
    page.screenshot(path=path)
    page.close()


def episode(browser: Browser, demo: vln.Run, path: Path) -> None:
    """An episode of that report, in the middle of its walk."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    page.goto(_report(demo).as_uri())
    card = page.locator(".card").first
    card.locator(".ve-viewpoint").first.wait_for()
    slider = card.get_by_role("slider")
    slider.fill(str(int(slider.get_attribute("max") or 0) // 2))
    slider.blur()
    card.screenshot(path=path)
    page.close()


def explorer(browser: Browser, demo: vln.Run | None, path: Path) -> None:
    """The explorer as it opens without a run: a moving picture with a frame for each step of the walk."""
    frames: list[Image.Image] = []
    with served() as (url, _):
        page = browser.new_page(viewport={"width": WIDTH, "height": 820})
        page.goto(url)
        page.wait_for_selector("[data-ready]")
        steps = page.get_by_role("slider").first.get_attribute("max") or "0"
        for _ in range(int(steps) + 1):
            frames.append(Image.open(BytesIO(page.screenshot())).convert("RGB"))
            page.keyboard.press("ArrowRight")
        page.close()
    durations = [FRAME] * (len(frames) - 1) + [2 * FRAME]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=70, method=6)


def explorer_words(browser: Browser, demo: vln.Run | None, path: Path) -> None:
    """An instruction that somebody typed, from a start on the plan."""
    with served() as (url, _):
        page = browser.new_page(viewport={"width": WIDTH, "height": 820}, color_scheme="dark")
        page.goto(url)
        page.wait_for_selector("[data-ready]")
        page.get_by_text("Your own words", exact=True).first.click()
        page.wait_for_selector("#picker .ve-spot")
        page.get_by_label("Instruction", exact=True).fill(WORDS)
        page.get_by_role("button", name="Walk").click()
        page.get_by_role("heading", name="Your own words").wait_for()
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Next step").click()
        page.screenshot(path=path)
        page.close()


def _report(demo: vln.Run) -> Path:
    return (demo.folder.parent / "report.html").resolve()


PICTURES: dict[str, Callable[[Browser, vln.Run, Path], None]] = {
    "report.png": report,
    "episode.png": episode,
    "explorer.webp": explorer,
    "explorer-words.png": explorer_words,
}


def take(folder: Path, demo: Path = Path("demo")) -> list[Path]:
    """Take all pictures; those that are too large for a repository are refused."""
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit("no chromium: apt-get install chromium, or name it in $CHROMIUM")
    made = vln.demo(demo)
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, picture in PICTURES.items():
            picture(browser, made.run, folder / name)
            size, most = (folder / name).stat().st_size, MOVING if name.endswith(".webp") else LARGEST
            if size > most:
                raise SystemExit(f"{folder / name} has {size:,} bytes; show less, so that it has at most {most:,}")
        browser.close()
    return [folder / name for name in PICTURES]


if __name__ == "__main__":
    print("\n".join(map(str, take(Path(sys.argv[1])))))
