"""The status site in the Chromium of the machine: a phone, the dark, contrast, no JavaScript, and its form."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from sinks.prometheus.http_server import PrometheusConfig, StatusServer
from tests.unit.sinks.web.browser import TOO_PALE, chromium, needs_chromium
from tests.unit.sinks.web.site.filled import FilledSite

pytestmark = needs_chromium

PATHS = ("/", "/history", "/clusters", "/clusters/prod-eu", "/config", "/receivers", "/incidents/i1", "/nix")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def address(filled: FilledSite) -> Iterator[str]:
    server = StatusServer(PrometheusConfig(address="127.0.0.1", port=0))
    server.add_site(filled.site.respond)
    server.start()
    for number in range(4):
        filled.add_incident(f"i{number}", 2, cluster=["prod-eu", "a-cluster-with-a-very-long-name-" * 4][number % 2])
    filled.add_incident("i9", cause="heap_exhaustion", severity="critical", cluster="x" * 300)
    filled.resolve("done")
    filled.notified("i1")
    filled.read("gc_time_ratio", 0.5, tm="container_e21_1772_0001_01_000007")
    filled.collector.delivery.add_receiver("slack")
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


@contextmanager
def visiting(browser: Browser, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what its console reports."""
    context = browser.new_context(**options)
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(message.text) if "404" not in message.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page, wrong
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone_can_be_read_and_reports_no_error(browser: Browser, address: str, scheme: Any) -> None:
    with visiting(browser, viewport={"width": 360, "height": 800}, color_scheme=scheme) as (page, wrong):
        for path in PATHS:
            page.goto(address + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
            assert page.evaluate(TOO_PALE) == [], path
            assert page.locator("h1").count() == 1, path
        assert wrong == []


def test_without_javascript_an_incident_is_found_by_the_form_and_opened(browser: Browser, address: str) -> None:
    with visiting(browser, java_script_enabled=False) as (page, _):
        page.goto(address)
        page.get_by_text("Search and filter").click()
        page.get_by_label("Kind").select_option("heap_exhaustion")
        page.get_by_role("button", name="Show").click()
        assert page.get_by_role("heading", level=1).inner_text() == "1 open incident"
        page.get_by_role("link", name="Heap exhaustion").click()
        assert page.url == f"{address}/incidents/i9"
        page.get_by_role("link", name="Receivers").click()
        assert page.get_by_role("heading", name="slack").is_visible()
