"""Every line that the vocabulary knows becomes a fact, whatever it says in the parts that vary."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.events.event import LogEvent
from detectors.events.vocabulary import PATTERNS
from detectors.events.vocabulary.match import match
from detectors.events.vocabulary.pattern import LogPattern
from detectors.flink.facts import fact_of


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{p.event_type}-{p.pattern[:40]}")
@given(data=st.data())
@settings(max_examples=10)
def test_any_line_of_a_pattern_is_matched_and_becomes_a_fact(pattern: LogPattern, data: st.DataObject) -> None:
    """Hostile parts too. It found numbers such as 007, which a fact refuses."""
    line = data.draw(st.from_regex(re.compile(pattern.pattern), fullmatch=True))
    found = match(line)
    assert found is not None or pattern.anchor not in line
    if found is not None:
        event_type, fields = found
        fact_of(LogEvent(event_type, "prod", "jm-1", "h", 1, 1, "flink.logs", 0, 7, fields, line))


@pytest.mark.parametrize("number", ["007", "00", "１２", "1234567890123456789", "-1", "1_0", "+1"])
def test_a_number_that_java_does_not_print_is_no_number(number: str) -> None:
    assert match(f"Triggering checkpoint {number} (type=CHECKPOINT) @ 1 for job {'a' * 32}.") is None
