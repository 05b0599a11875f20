"""The query string: what it may have, and errors that name it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.web.site.query import BadQueryError, SiteQuery, parse

ALLOWED = ("q", "cluster", "kind", "severity", "limit", "offset")


def test_a_form_sends_empty_fields_that_select_everything() -> None:
    assert parse("q=&cluster=&kind=&severity=", ALLOWED) == SiteQuery()
    assert parse("", ALLOWED) == SiteQuery()


def test_values_are_decoded() -> None:
    assert parse("cluster=a%2Fb+c&limit=5&offset=7", ALLOWED) == SiteQuery(cluster="a/b c", limit=5, offset=7)


@pytest.mark.parametrize(
    ("query", "why", "allowed"),
    [
        ("x=1", "unknown parameter 'x'", "cluster"),
        ("limit=0", "limit is not a number from 1 to 500", "1 to 500"),
        ("limit=501", "from 1 to 500", "1 to 500"),
        ("limit=-1", "from 1 to 500", "1 to 500"),
        ("limit=²", "from 1 to 500", "1 to 500"),
        ("limit=1e3", "from 1 to 500", "1 to 500"),
        ("offset=9999999999", "offset is not a number", "0 to 1000000"),
        ("severity=fatal", "severity has none of its values", "critical"),
        ("kind=nix", "kind has none of its values", "heap_exhaustion"),
        ("q=a&q=b", "q occurs twice", "q"),
        ("q", "the query string is not valid", "q"),
        ("&".join(f"q{n}=1" for n in range(30)), "the query string is not valid", "q"),
        ("q=" + "a" * 1001, "more than 1000 characters", "at most 1000 characters"),
    ],
)
def test_what_is_not_allowed_is_refused_with_what_is(query: str, why: str, allowed: str) -> None:
    with pytest.raises(BadQueryError, match=why) as caught:
        parse(query, ALLOWED)
    assert allowed in caught.value.allowed


@given(st.text())
def test_any_query_string_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadQueryError):
        assert parse(text, ALLOWED).limit > 0


@given(st.text(max_size=100), st.integers(0, 1000))
def test_the_address_of_another_part_selects_the_same(text: str, offset: int) -> None:
    query = SiteQuery(q=text.encode("utf-8", "replace").decode(), kind="node_lost", limit=7)
    again = parse(query.with_offset("/", offset).partition("?")[2], ALLOWED)
    assert (again.q, again.kind, again.limit, again.offset) == (query.q, query.kind, 7, offset)


def test_a_list_ends_with_its_last_entry() -> None:
    assert SiteQuery(limit=10).next("/x", 11) == "/x?limit=10&offset=10"
    assert SiteQuery(limit=10).next("/x", 10) is None
    assert SiteQuery(limit=10, offset=10).next("/x", 11) is None
