"""Text from logs and requests from anywhere: nothing becomes markup, and nothing fails."""

import re
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from detectors.incident import Silenced
from sinks.web.site.exchange import HttpRequest
from tests.unit.sinks.samples import late_acks_finding, make_transition, overdue_finding
from tests.unit.sinks.web.site.filled import NOW, FilledSite

EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% include 'x' %}",
    "\u202egnp.exe\u202c \x1b[31mred\x1b[0m \x00\x07",
    "</title></style></textarea><svg/onload=alert(1)>",
    "a" * 100_000,
    "../../etc/passwd",
    "%2e%2e%2f",
    "'; DROP TABLE incidents; --",
    "x' OR '1'='1",
    "\ud7ff\ufffe\U0010ffff",
]
PAGES = ("/", "/history", "/clusters", "/config", "/receivers")
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LAWFUL = {"script", "style"}

many = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Elements(HTMLParser):
    """The elements of a page, and attributes that run code or leave the page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.dangerous: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (name in ("href", "src", "action") and not lawful(value or "")):
                self.dangerous.append(f"{tag} {name}={value}")


def lawful(address: str) -> bool:
    return re.match(r"/(?!/)|#|data:,$", address) is not None


def judge(html: str, expected: dict[str, int]) -> None:
    """The page has only the scripts, images and forms that it has without the text."""
    elements = Elements()
    elements.feed(html)
    assert elements.dangerous == []
    assert {tag: elements.names.count(tag) for tag in ("script", "style", "img", "iframe", "object")} == expected
    assert not INVISIBLE.search(html)


def hostile(site: FilledSite, text: str) -> None:
    """The text in every field that the site shows."""
    site.add(
        make_transition(
            incident=text,
            cluster=text,
            cause=text,
            job_name=text,
            job_id=text,
            summary=text,
            advice=text,
            reason=text,
            config=text,
            merged=[text],
            silence=Silenced(text, NOW, text, text),
            findings=[
                overdue_finding(kind=text, subject=text, summary=text, entity={text: text, "job_name": text}),
                late_acks_finding(summary=text, advice=text),
            ],
        )
    )
    site.notified(text, receiver=text, reason=text, state="undelivered")
    site.read("gc_time_ratio", 0.5, cluster=text, tm=text, job=text)


ONE = {"script": 1, "style": 1, "img": 0, "iframe": 0, "object": 0}


@pytest.mark.parametrize("text", EVIL, ids=range(len(EVIL)))
def test_no_text_from_a_log_becomes_markup(tmp_path: Path, text: str) -> None:
    site = FilledSite(tmp_path)
    hostile(site, text)
    with capture_logs() as lines:
        for path in (*PAGES, f"/incidents/{quote(text[:1000])}", f"/clusters/{quote(text[:1000], safe='')}"):
            found = site.get(path)
            assert found.status == 200, path
            judge(found.body.decode(), ONE)
            document = site.get(f"/api/v1{'/incidents' if path == '/' else path}")
            assert document.status == 200
            msgspec.json.decode(document.body)
    assert lines == []
    site.store.close()


@settings(many, max_examples=12)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_from_a_log_can_be_shown(tmp_path: Path, text: str) -> None:
    site = FilledSite(tmp_path)
    try:
        hostile(site, text)
        with capture_logs() as lines:
            for path in (*PAGES, f"/clusters/{quote(text, safe='')}" if text else "/"):
                found = site.get(path)
                assert found.status == 200, path
                judge(found.body.decode(), ONE)
        assert lines == []
    finally:
        site.store.close()


ODD = st.one_of(
    st.text(),
    st.sampled_from(EVIL),
    st.sampled_from(["/incidents/", "/clusters/", "/api/v1/incidents/", "/api/v1/", "/history", "//", "/..", "%ff"]),
)


@many
@given(st.lists(ODD, max_size=4), st.lists(ODD, max_size=4), st.booleans())
def test_any_address_gets_an_answer_that_repeats_nothing_as_markup(
    filled: FilledSite, path: list[str], query: list[str], encoded: bool
) -> None:
    joined, asked = "/" + "".join(path), "&".join(query)
    if encoded:
        joined, asked = quote(joined, errors="replace"), quote(asked, safe="=&", errors="replace")
    headers = Message()
    headers["Host"] = "localhost"
    with capture_logs() as lines:
        found = filled.site.respond(HttpRequest(joined, asked, headers))
    assert lines == []
    if found is not None:
        assert found.status in (200, 304, 400, 404)
        if dict(found.headers)["Content-Type"].startswith("text/html"):
            judge(found.body.decode(), ONE)
        else:
            msgspec.json.decode(found.body)


@pytest.mark.parametrize("text", EVIL, ids=range(len(EVIL)))
def test_a_search_for_anything_finds_only_what_contains_it(filled: FilledSite, text: str) -> None:
    filled.add_incident("i")
    asked = quote(text[:1000], safe="")
    for field in ("q", "cluster", "job"):
        found = filled.get(f"/api/v1/incidents?{field}={asked}")
        assert msgspec.json.decode(found.body)["total"] == 0
        judge(filled.html(f"/?{field}={asked}"), ONE)
