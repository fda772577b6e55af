"""A report in a browser: episodes to step through, on a desk and on a phone, on paper, and without JavaScript."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import vlnbert as vln
from tests.api.conftest import SPLIT, TINY
from tests.browser.conftest import DESKTOP, PHONE, cut_off_texts, overflows, small_texts, violations
from vlnbert.analysis.report import Report, how_it_learned, write_report
from vlnbert.house import generate

Open = Callable[..., Page]
LIVE = ".card.live .ve-viewpoint"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vln.Run:
    folder = tmp_path_factory.mktemp("browser")
    generate(folder / "house", scans=3, paths_per_scan=8)
    data = vln.open_data(folder / "house")
    return vln.train("demo", data, folder / "run", threads=1, bar=False, tensorboard=False, **TINY)


@pytest.fixture(scope="module")
def report(run: vln.Run) -> Path:
    return vln.report(run, run.folder.parent / "report.html", episodes=3, title="A report", bar=False)


def test_episodes_are_stepped_through(open_page: Open, report: Path) -> None:
    page = open_page(report, ready=LIVE)
    cards = page.locator(".card")
    assert cards.count() == 3
    for card in cards.all():
        assert not card.locator(".still").is_visible()
        status, slider = card.get_by_role("status"), card.get_by_role("slider")
        expect(status).to_contain_text("Step 1 of")
        expect(card.locator(".ve-words mark").first).to_be_visible()  # open, not behind a click
        slider.press("End")
        last = int(slider.get_attribute("max") or 0)
        told, shown = card.locator(".outcome").inner_text(), status.inner_text()
        if "ran out of steps" in told:  # a last frame, where nothing is decided any more
            assert f"after {last}," in told
            assert shown.startswith(f"After {last} steps · ")
        else:
            assert shown.startswith(f"Step {last + 1} of {last + 1} · ")
        assert ("ran out of steps" in status.inner_text()) == ("ran out of steps" in told)
        assert ("stops here" in status.inner_text()) == ("stopped" in told)
    first = cards.first.get_by_role("status").inner_text()
    page.keyboard.press("Home")
    expect(cards.last.get_by_role("status")).to_contain_text("Step 1 of")
    assert cards.first.get_by_role("status").inner_text() == first  # keys move one viewer alone


def test_every_number_is_the_evaluation_s(open_page: Open, report: Path, run: vln.Run) -> None:
    page = open_page(report, ready=LIVE)
    steps = run.experiment.training.max_steps
    held = json.loads(page.locator("#scores").text_content() or "")
    rows = {cells[0]: cells[1:] for cells in table(page)}
    for agent, walker in {"navigator": run, "random": "random", "shortest": "shortest"}.items():
        scores = json.loads(vln.evaluate(walker, run.record.data, SPLIT, max_steps=steps, bar=False).to_json())[SPLIT]
        assert held[agent] == scores
        names = [name for name in ("sr", "osr", "spl", "ndtw", "sdtw", "cls") if scores[name] is not None]
        rates = [f"{100 * scores[name]:.1f}" for name in names]
        assert rows[agent] == [*rates, f"{scores['tl']:.2f}", f"{scores['ne']:.2f}", str(scores["episodes"])]
    for card in page.locator(".card").all():
        record = json.loads(page.locator(f"#{card.get_attribute('data-record')}").text_content() or "")
        assert f"{record['scores']['ne']:.2f} m from the goal" in card.locator(".outcome").inner_text()
        assert f"SPL {100 * record['scores']['spl']:.1f} %" in card.locator(".facts").inner_text()


def table(page: Page) -> list[list[str]]:
    rows = page.locator("section").first.locator("tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


@pytest.mark.parametrize(("scheme", "size"), [("light", PHONE), ("dark", PHONE), ("light", DESKTOP)])
def test_it_can_be_read(open_page: Open, report: Path, scheme: str, size: dict[str, int]) -> None:
    page = open_page(report, ready=LIVE, viewport=size, color_scheme=scheme)
    for folded in page.locator("details > summary").all():
        if folded.is_visible():
            folded.click()
    expect(page.get_by_text("training.learning_rate =")).to_be_visible()
    assert small_texts(page) == []
    assert cut_off_texts(page) == []
    assert not overflows(page)
    assert violations(page) == []


@pytest.mark.parametrize("top", [0.9, 9.6, 15.3, 150.0, 12_345.0])
def test_no_number_of_a_chart_is_cut_off(open_page: Open, tmp_path: Path, top: float) -> None:
    log = [{"iteration": number, "total": 1.0, "imitation": top / number, "value": 0.5} for number in range(1, 41)]
    report = Report("Charts", [], [how_it_learned(log, "r2r/val_unseen", {"random": 0.1})])
    write_report(tmp_path / "charts.html", report)
    for size in (PHONE, DESKTOP):
        page = open_page(tmp_path / "charts.html", ready="svg", viewport=size)
        assert cut_off_texts(page) == []


def test_without_javascript_the_card_stands_still(open_page: Open, report: Path) -> None:
    page = open_page(report, viewport=PHONE, java_script_enabled=False)
    cards = page.locator(".card")
    for card in cards.all():
        assert card.locator(".still svg .ve-number").count() > 0
        assert card.locator(".still .words mark").count() > 3
        assert card.locator(".still tbody tr").count() >= card.locator(".still svg .ve-number").count() - 1
        assert re.search(r"(Success|Failure): ", card.inner_text())
    assert page.get_by_role("slider").count() == 0


def test_paper_shows_the_still_card_and_all_settings(open_page: Open, report: Path) -> None:
    page = open_page(report, ready=LIVE, color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator(".still").first).to_be_visible()
    assert not page.get_by_role("slider").first.is_visible()
    expect(page.get_by_text("training.learning_rate =")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 10_000


def test_a_report_is_small(report: Path) -> None:
    assert report.stat().st_size < 3_000_000
