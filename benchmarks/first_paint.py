"""When a page is first seen: asked of a browser, where playwright and chromium are there."""

import shutil
from statistics import median

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PAINT = "performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)[0]"


def first_paint(url: str, rounds: int = 5) -> dict[str, float] | None:
    """Seconds to the first paint with content, and until a walk can be watched; medians over fresh browsers' visits.

    None where there is no browser to ask.
    """
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    painted, ready = list[float](), list[float]()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(rounds):
            context = browser.new_context()
            page = context.new_page()
            page.goto(url)
            page.wait_for_selector("[data-ready]", timeout=30_000)
            painted.append(page.evaluate(PAINT) / 1000)
            ready.append(page.evaluate("performance.now()") / 1000)
            context.close()
        browser.close()
    return {"first_paint": median(painted), "ready": median(ready)}
