"""The viewer of an episode in a browser: slider, keys, play, small screens, and data that tries to be markup."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import DESKTOP, PHONE, overflows, small_texts, violations
from tests.browser.samples import RECORD, looked_for, ran_out, write_page

Open = Callable[..., Page]
# Labels of the plan that lie on another label, on the target or on the scale bar.
OVERLAPS = """() => {
  const marks = [...document.querySelector(".ve-plan").querySelectorAll(".ve-label, .ve-target, .ve-scale")];
  const apart = (a, b) => a.x + a.width < b.x + 1 || a.y + a.height < b.y + 2;
  const meet = (one, other) => !apart(one.getBBox(), other.getBBox()) && !apart(other.getBBox(), one.getBBox());
  return marks.flatMap((one, index) => marks.slice(index + 1).filter((other) => meet(one, other))
    .map((other) => `${one.textContent} / ${other.textContent}`));
}"""


def test_steps_by_slider_buttons_and_keys(open_page: Open, tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, RECORD), ready=".ve-viewpoint")
    status, slider = page.get_by_role("status"), page.get_by_role("slider")
    expect(status).to_have_text("Step 1 of 3 · 7.5 m to the goal · goes ahead, 2.0 m (90 %)")
    page.evaluate("here.addEventListener('step', (event) => { globalThis.heard = event.detail; })")
    page.get_by_role("button", name="Next step").click()
    expect(status).to_have_text("Step 2 of 3 · 5.5 m to the goal · goes 90° right, 2.0 m (70 %)")
    assert page.evaluate("heard") == {"step": 1, "steps": 3}
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(status).to_contain_text("stops here (60 %)")
    page.keyboard.press("Home")
    expect(status).to_contain_text("Step 1 of 3")
    slider.fill("2")
    expect(status).to_contain_text("Step 3 of 3")
    assert page.evaluate("[viewer.step, viewer.steps]") == [2, 3]
    page.evaluate("viewer.destroy()")
    assert page.locator(".vlnbert-episode").count() == 0


def test_it_plays_to_the_end(open_page: Open, tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, RECORD), ready=".ve-viewpoint")
    page.clock.install()
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.clock.run_for(5000)
    expect(page.get_by_role("status")).to_contain_text("Step 3 of 3")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_a_limit_of_steps_is_no_stop(open_page: Open, tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, ran_out()), ready=".ve-viewpoint")
    expect(page.locator(".ve-outcome")).to_have_text("Failure: ran out of steps after 2, 3.00 m from the goal")
    status, slider = page.get_by_role("status"), page.get_by_role("slider")
    expect(status).to_contain_text("Step 1 of 2 · ")
    slider.fill("1")
    expect(status).to_contain_text("Step 2 of 2 · ")
    slider.fill("2")
    expect(status).to_have_text("After 2 steps · 3.0 m to the goal · ran out of steps here")
    assert "stops" not in page.inner_text("main")


def test_data_is_never_markup(open_page: Open, tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, RECORD), ready=".ve-viewpoint")
    page.get_by_role("slider").fill("1")
    assert page.locator("img").count() == 0
    expect(page.locator(".ve-text").first).to_have_text("<img src=x onerror=alert(1)>")


def test_the_target_is_drawn_where_it_stands(open_page: Open, tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, looked_for()), ready=".ve-viewpoint")
    page.get_by_role("slider").fill("2")
    assert page.locator(".ve-seen .ve-row").all_inner_texts() == ["blue sofanamed\n80 %", "red lampasked for\n20 %"]
    assert page.locator(".ve-target").count() == 0  # it stands upstairs
    page.get_by_role("button", name="Floor 2").click()
    assert page.locator(".ve-target").count() == 1
    expect(page.locator(".ve-legend")).to_contain_text("sees the object")


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desk"])
def test_no_label_lies_on_another(open_page: Open, tmp_path: Path, size: dict[str, int]) -> None:
    page = open_page(write_page(tmp_path, looked_for()), ready=".ve-viewpoint", viewport=size)
    for number in range(3):
        page.get_by_role("slider").fill(str(number))
        assert page.locator(".ve-plan .ve-share").count() > 0
        assert page.evaluate(OVERLAPS) == []


def test_the_curve_of_distance_stands_below_the_slider(open_page: Open, tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, RECORD), ready=".ve-viewpoint")
    slider = page.get_by_role("slider").bounding_box()
    curve = page.locator(".ve-spark").bounding_box()
    assert slider is not None
    assert curve is not None
    thumb = 16  # pixels, whose middle runs from one end of the curve to the other
    assert curve["x"] == pytest.approx(slider["x"] + thumb / 2, abs=2)
    assert curve["width"] == pytest.approx(slider["width"] - thumb, abs=4)


def test_unknown_words_are_shown_as_typed(open_page: Open, tmp_path: Path) -> None:
    text = "Don't pass Zoe's sofa."
    words = ["Don", "'", "t", "pass", "Zoe", "'", "s", "sofa", "."]
    steps = [{**one, "attention": [0.1] * len(words)} for one in RECORD["steps"]]
    record = {**RECORD, "steps": steps, "instruction": {"text": text, "words": words, "unknown": [4]}}
    page = open_page(write_page(tmp_path, record), ready=".ve-viewpoint")
    expect(page.locator(".ve-words")).to_contain_text(text)
    expect(page.locator(".ve-unknown")).to_have_text("Zoe")
    expect(page.locator(".ve-words")).to_contain_text("does not know the words with a dotted line")


def test_the_plan_is_a_file_of_its_own(open_page: Open, tmp_path: Path) -> None:
    page = open_page(write_page(tmp_path, RECORD), ready=".ve-viewpoint")
    svg = page.evaluate("viewer.toSVG()")
    assert svg.startswith("<svg")
    assert "kitchen" in svg
    assert "var(" not in svg


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it(open_page: Open, tmp_path: Path, scheme: str) -> None:
    page = open_page(write_page(tmp_path, looked_for()), ready=".ve-viewpoint", viewport=PHONE, color_scheme=scheme)
    page.get_by_role("slider").fill("2")
    assert small_texts(page) == []
    assert not overflows(page)
    assert violations(page) == []
