"""A picture of the page of an incident, by Chromium."""

import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

from sinks.web.incident_page import render_incident
from sinks.web.page_context import PageContext
from tests import recorded
from tests.unit.sinks.web.browser import chromium

_WIDTH, _HEIGHT = 900, 1_280


def draw_page(scenario: str, changes: int, file: Path) -> None:
    """Write the top of the page of a scenario's first incident, after so many changes, to a PNG."""
    transitions = recorded.said(recorded.records(scenario))
    own = [t for t in transitions if t.incident == transitions[0].incident][:changes]
    html = render_incident(own, PageContext(runbook_base_url="https://flinkwatch.example.org/runbooks/"))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        path = Path(folder) / "incident.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
        page.goto(path.as_uri())
        picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(file, optimize=True)
