"""The explorer in a browser: choose, type, play, scrub, link, save; by keyboard, on a phone, and when things fail."""

import json
import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from tests.browser.conftest import PHONE, cut_off_texts, overflows, small_texts, violations
from tests.explorer.conftest import serving
from vlnbert.api.exploring import open_explorer
from vlnbert.api.runs import AnyAgent
from vlnbert.explorer.app import make_app
from vlnbert.explorer.explorer import AGENT, generated_house
from vlnbert.explorer.walk_queue import WalkQueue

Open = Callable[..., Page]
READY = "[data-ready]"
# Requests whose address holds some text wait until they are released.
HOLD = """(text) => {
  const real = window.fetch;
  window.held = [];
  window.fetch = (address, ...more) => address.includes(text)
    ? new Promise((release) => window.held.push(() => release(real(address, ...more)))) : real(address, ...more);
}"""


def serve(*agents: AnyAgent) -> Iterator[str]:
    explorer = open_explorer(agents, generated_house(), device=None, threads=1)
    queue = WalkQueue(explorer.walk)
    with serving(make_app(explorer, queue)) as (url, _):
        yield url
    queue.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from serve()


@pytest.fixture(scope="module")
def address_of_two() -> Iterator[str]:
    yield from serve(AGENT, "random")


def choose_words(page: Page) -> None:
    page.get_by_text("Your own words", exact=True).first.click()
    page.wait_for_selector("#picker .ve-spot")


def type_words(page: Page, text: str) -> None:
    choose_words(page)
    page.get_by_label("Instruction", exact=True).fill(text)
    page.get_by_role("button", name="Walk").click()
    expect(page.get_by_role("heading", name="Your own words")).to_be_visible()


def test_it_opens_on_a_walk(open_page: Open, address: str) -> None:
    page = open_page(address, ready=READY)
    expect(page.get_by_role("status")).to_contain_text("Step 1 of")
    expect(page.locator("#instructions [aria-current]")).to_have_count(1)
    assert page.locator(".ve-room").count() > 3
    assert page.locator(".ve-words mark").count() > 5
    assert violations(page) == []


def test_task_split_house_and_instruction_are_chosen(open_page: Open, address: str) -> None:
    page = open_page(address, ready=READY)
    page.get_by_label("Task").select_option("reverie")
    expect(page.get_by_label("Split")).to_have_value("reverie/val_unseen")
    page.get_by_label("Split").select_option("reverie/train")
    expect(page.locator("#instructions")).not_to_have_attribute("aria-busy", "true")
    item = page.locator("#instructions button").nth(2)
    words = item.inner_text()
    item.click()
    expect(page.get_by_role("heading", name=re.compile("REVERIE train"))).to_be_visible()
    assert page.evaluate("decodeURIComponent(location.hash)").startswith("#split=reverie/train&id=")
    expect(page.locator(".ve-words")).to_contain_text(words.split()[0], ignore_case=True)
    page.get_by_role("slider").fill("0")
    page.keyboard.press("End")
    expect(page.get_by_role("heading", name="Objects in view")).to_be_visible()
    assert re.search(r"\d %", page.locator(".ve-seen").inner_text())


def test_typed_words_are_walked_from_a_clicked_start(open_page: Open, address: str) -> None:
    page = open_page(address, ready=READY)
    choose_words(page)
    before = page.get_by_label("Start").input_value()
    page.locator(".ve-spot").nth(7).click()
    assert page.get_by_label("Start").input_value() != before
    type_words(page, "Turn around. <b>Leave</b> the room & stop in the hallway.")
    expect(page.get_by_role("status")).to_contain_text("Step 1 of")
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('text')").startswith(
        "Turn around. <b>Leave</b>"
    )
    assert page.locator(".ve-words b").count() == 0
    again = open_page(page.url, ready=READY)  # the link leads to the same
    expect(again.get_by_label("Instruction", exact=True)).to_have_value(
        "Turn around. <b>Leave</b> the room & stop in the hallway."
    )
    assert again.get_by_role("status").inner_text() == page.get_by_role("status").inner_text()


def test_it_plays_to_the_end_and_scrubs_back(open_page: Open, address: str) -> None:
    page = open_page(address, ready=READY)
    page.clock.install()
    page.reload()
    page.wait_for_selector(READY)
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(40_000)
    status = page.get_by_role("status")
    assert re.match(r"Step (\d+) of \1 |After \d+ steps ", status.inner_text())
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.get_by_role("slider").fill("1")
    expect(status).to_contain_text("Step 2 of")
    assert page.evaluate("location.hash").endswith("step=2")
    linked = open_page(page.url, ready=READY)
    expect(linked.get_by_role("status")).to_contain_text("Step 2 of")


def test_the_keyboard_does_all_of_it(open_page: Open, address: str) -> None:
    """From the address bar: choose an instruction, step, then type one's own and walk it."""
    page = open_page(address, ready=READY)
    page.locator("#instructions button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    second = page.locator("#instructions li:nth-child(2) button")
    expect(second).to_have_attribute("aria-current", "true")
    expect(page.locator("#stage")).not_to_have_attribute("aria-busy", "true")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("status")).to_contain_text("Step 2 of")
    page.keyboard.press("Home")
    expect(page.get_by_role("status")).to_contain_text("Step 1 of")
    for _ in range(6):  # back to the switch between data and words
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.id") == "from-data":
            break
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#picker .ve-spot")
    page.get_by_label("Start").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("go out of the room")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Your own words")).to_be_visible()


def choose_split(page: Page, split: str) -> None:
    """Choose a split, and wait until its list has come."""
    with page.expect_response(lambda answer: "api/instructions" in answer.url and split in unquote(answer.url)):
        page.get_by_label("Split").select_option(split)


def page_of(page: Page, number: int) -> Any:
    """A page of the list of the house that is chosen, as the server tells it."""
    fields = {
        "split": page.locator("#split").input_value(),
        "scan": page.locator("#house").input_value(),
        "page": number,
    }
    return page.request.get(page.url.partition("#")[0] + "api/instructions", params=fields).json()


def test_a_link_within_the_page_finds_its_place_in_the_list(open_page: Open, address: str) -> None:
    page = open_page(address, ready=READY)
    choose_split(page, "r2r/train")
    expect(page.locator("#pages")).to_have_text(re.compile(r"1 of \d+"))
    last = page_of(page, page_of(page, 0)["pages"] - 1)
    chosen = last["instructions"][-1]["id"]
    page.evaluate(f"location.hash = 'split=r2r/train&id={chosen}&step=1'")
    expect(page.locator("#pages")).to_have_text(f"{last['pages']} of {last['pages']}")
    expect(page.locator("#instructions [aria-current]")).to_have_attribute("data-id", chosen)
    start = next(iter(page.request.get(f"{address}api/plan", params={"scan": last["scan"]}).json()["viewpoints"]))["id"]
    page.evaluate(f"location.hash = 'task=r2r&scan={last['scan']}&start={start}&heading=-1&text=go'")
    expect(page.locator("#heading")).to_have_value("10")


def test_only_the_list_that_was_asked_for_last_is_shown(open_page: Open, address: str) -> None:
    page = open_page(address, ready=READY)
    choose_split(page, "r2r/train")
    expect(page.locator("#pages")).to_have_text(re.compile(r"1 of \d+"))
    pages = page_of(page, 0)["pages"]
    page.evaluate("for (let click = 0; click < 2; click += 1) document.getElementById('after').click()")
    assert pages >= 3
    expect(page.locator("#pages")).to_have_text(f"3 of {pages}")
    page.evaluate(HOLD, "page=1")
    page.get_by_role("button", name="Earlier").click()
    choose_split(page, "r2r/val_unseen")
    first = page.locator("#instructions button").first
    chosen = page_of(page, 0)["instructions"][0]["id"]
    expect(first).to_have_attribute("data-id", chosen)
    page.evaluate("held.forEach((release) => release())")
    expect(page.locator("#instructions")).not_to_have_attribute("aria-busy", "true")
    expect(first).to_have_attribute("data-id", chosen)


def test_two_agents_walk_side_by_side(open_page: Open, address_of_two: str) -> None:
    page = open_page(address_of_two, ready=READY, viewport={"width": 1600, "height": 1000})
    first, second = page.locator("#viewer-0"), page.locator("#viewer-1")
    one, other = first.bounding_box(), second.bounding_box()
    assert one is not None
    assert other is not None
    assert other["x"] > one["x"] + one["width"]
    page.keyboard.press("ArrowRight")
    for viewer in (first, second):
        expect(viewer.get_by_role("status")).to_contain_text("Step 2 of")
    assert violations(page) == []
    type_words(page, "Walk to the end of the hallway.")
    expect(second.get_by_role("status")).to_contain_text("Step 1 of")


def test_a_step_is_saved_as_a_picture(open_page: Open, address: str, tmp_path: Path) -> None:
    page = open_page(address, ready=READY)
    page.keyboard.press("ArrowRight")
    with page.expect_download() as svg:
        page.get_by_role("button", name="Save SVG").click()
    assert svg.value.suggested_filename.endswith("-step-2.svg")
    svg.value.save_as(tmp_path / "step.svg")
    text = (tmp_path / "step.svg").read_text()
    assert "tiny-navigator" in text
    assert "hallway" in text
    ways, shares = (page.locator(f"#viewer-0 .ve-choices .ve-row {part}") for part in (".ve-way", ".ve-percent"))
    for way in ways.all():
        told = way.evaluate("(one) => one.firstChild.textContent")
        assert told.replace(" · ", ", ") in text, "as the page says it"
    for share in shares.all_inner_texts():
        assert escape(share) in text
    for entry in page.locator("#viewer-0 .ve-legend li").all_inner_texts():
        assert entry in text
    assert text.count("fill-opacity=") > 3, "words are tinted"
    with page.expect_download() as png:
        page.get_by_role("button", name="Save PNG").click()
    png.value.save_as(tmp_path / "step.png")
    assert (tmp_path / "step.png").read_bytes().startswith(b"\x89PNG")
    shown = open_page(tmp_path / "step.svg", ready="svg")
    assert shown.locator("polygon").count() > 3
    assert cut_off_texts(shown) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it(open_page: Open, address: str, scheme: str) -> None:
    page = open_page(address, ready=READY, viewport=PHONE, color_scheme=scheme)
    type_words(page, "Leave the room and stop.")
    page.get_by_role("slider").fill("1")
    assert small_texts(page) == []
    assert not overflows(page)
    assert violations(page) == []


@pytest.fixture
def doomed(browser: Browser) -> Iterator[Page]:
    """A page whose requests may fail, which chromium tells its console; that the page itself fails is a fault."""
    context, errors = browser.new_context(), list[str]()
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.mark.parametrize(
    ("link", "line"),
    [
        ("#split=r2r/val_unseen&id=nobody&step=x", "No such episode in r2r/val_unseen; choose one from the list"),
        ("#split=../secret&id=1_0", "No such split; known: "),
        ("#task=r2r&scan=nowhere&start=a&heading=0&text=go", "No such viewpoint in this house"),
    ],
    ids=["episode", "split", "house"],
)
def test_a_damaged_link_is_told_in_a_line(doomed: Page, address: str, link: str, line: str) -> None:
    doomed.goto(address + link)
    expect(doomed.locator("#message")).to_contain_text(line)
    doomed.goto(address)
    doomed.reload()
    expect(doomed.get_by_role("status")).to_contain_text("Step 1 of")


def test_damaged_answers_leave_the_page_alive(doomed: Page, address: str) -> None:
    doomed.goto(address)
    doomed.wait_for_selector(READY)
    answers = iter([(200, "<html>no json"), (503, json.dumps({"error": "too many walks at once"}))])

    def answer(route: Route, _: Request) -> None:
        status, body = next(answers, (0, ""))
        if status:
            route.fulfill(status=status, body=body, content_type="application/json")
        else:
            route.continue_()

    doomed.route("**/api/walk?*", answer)
    for line in ("The server's answer is damaged (200)", "Too many walks at once"):
        doomed.locator("#instructions button").nth(1).click()
        expect(doomed.locator("#message")).to_have_text(line)
    doomed.locator("#instructions button").nth(1).click()
    expect(doomed.locator("#message")).to_have_text("")


def test_without_javascript_a_card_tells_all(open_page: Open, address: str) -> None:
    page = open_page(address, java_script_enabled=False)
    expect(page.get_by_label("Task")).to_be_hidden()
    page.get_by_role("link", name=re.compile(r"\w+ \w+")).nth(0).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("tiny-navigator")
    assert "stopped" in page.inner_text("main") or "ran out of steps" in page.inner_text("main")
    assert page.locator("svg").count() >= 1
