"""The page of an incident in a browser: on a phone, in the dark, by keyboard, without JavaScript, without a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from sinks.web.incident_page import render_incident
from tests.unit.sinks.web.browser import TOO_PALE, chromium, needs_chromium, opened
from tests.unit.sinks.web.page_samples import HOSTILE, HUGE, chain, hostile_context, many

pytestmark = needs_chromium
OPEN_STEPS = "[...document.querySelectorAll('details.step')].filter((d) => d.open).map((d) => d.id)"
OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.name = ''; d.open = true; })"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("page") / "incident.html"
    page.write_text(render_incident(chain(), hostile_context("x")), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("page") / "hostile.html"
    html = render_incident(many(4, 4, text=HOSTILE + HUGE), hostile_context(HOSTILE + HUGE))
    page.write_text(html, encoding="utf-8")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_light_and_in_the_dark(browser: Browser, file: Path, scheme: str) -> None:
    with opened(browser, file, color_scheme=scheme) as (page, wrong):
        page.evaluate(OPEN_ALL)
        assert page.evaluate(TOO_PALE) == []
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)"
        )
        assert wrong == []


@pytest.mark.parametrize("name", ["file", "hostile"])
def test_a_phone_scrolls_in_one_direction_only(browser: Browser, name: str, request: pytest.FixtureRequest) -> None:
    with opened(browser, request.getfixturevalue(name), viewport={"width": 360, "height": 740}) as (page, wrong):
        page.evaluate(OPEN_ALL)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert wrong == []


def test_keys_step_through_the_changes_and_open_one_at_a_time(browser: Browser, file: Path) -> None:
    with opened(browser, file) as (page, wrong):
        seen = []
        for key in "nnnnpp":
            page.keyboard.press(key)
            seen.append(page.evaluate(OPEN_STEPS))
        assert seen == [[f"change-{n}"] for n in (1, 2, 3, 3, 2, 1)]
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert wrong == []


def test_tab_reaches_the_content_first_and_every_control_shows_that_it_has_the_focus(
    browser: Browser, file: Path
) -> None:
    with opened(browser, file) as (page, _):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.tagName") == "A"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_button_copies_an_address_and_its_line(browser: Browser, file: Path) -> None:
    with opened(browser, file, permissions=["clipboard-read", "clipboard-write"]) as (page, wrong):
        page.click("button.copy >> nth=0")
        page.wait_for_function("document.querySelector('button.copy').textContent === 'Copied'")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == "jobmanager.log/0@17 Received late message"
        assert wrong == []


def test_without_javascript_the_page_is_complete_and_has_no_dead_button(browser: Browser, file: Path) -> None:
    with opened(browser, file, java_script_enabled=False) as (page, _):
        assert page.locator("button.copy").first.is_hidden()
        page.click("#change-2 summary")
        assert "Late barrier acks" in page.inner_text("#change-2 .known")
        page.click("#change-3 summary")
        assert page.locator("#change-2 .known").is_hidden()


def test_a_link_to_a_change_opens_it(browser: Browser, file: Path) -> None:
    with opened(browser, file) as (page, _):
        page.evaluate("location.hash = '#change-2'")
        page.wait_for_function("document.querySelector('#change-2').open")
