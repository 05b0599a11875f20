"""Pages in the Chromium of the machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
needs_chromium = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is missing (apt install chromium)")

TOO_PALE = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((n) => (n /= 255) <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const [, , , alpha = 1] = numbers(getComputedStyle(one).backgroundColor);
      if (alpha > 0) return getComputedStyle(one).backgroundColor;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const text = [...element.childNodes].filter((n) => n.nodeType === 3 && n.textContent.trim()).length;
    if (!text || ["SCRIPT", "desc"].includes(element.tagName) || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(element instanceof SVGElement ? style.fill : style.color), light(paper(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return found;
}"""
"""The elements whose text has a contrast below 4.5 with what is behind it."""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, file: Path, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what went wrong in it so far: messages on the console, and requests but for the page itself."""
    context = browser.new_context(**options)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if not harmless(request.url, file) else None)
    page.goto(file.as_uri())
    yield page, wrong
    context.close()


def harmless(url: str, file: Path) -> bool:
    return url.partition("#")[0] == file.as_uri() or url == "data:,"
