"""Settings travel as a record and are named by a hash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from detectors.settings.live import (
    DetectorSettings,
    LiveSettings,
    encode_published,
    publish,
    read_published,
    settings_hash,
)
from detectors.values.durations import format_duration, humanize, parse_duration


def test_published_settings_come_back_as_they_were() -> None:
    changed = LiveSettings.model_validate(
        {
            "detectors": {"late_barrier_acks": {"min_acks": 7}, "incidents": {"stale_after": "2h"}},
            "overrides": [{"job": "orders-*", "detectors": {"restart_loop": {"count": 9}}}],
            "silences": [{"kinds": ["restart_loop"], "until": "2026-12-01T00:00:00Z", "author": "ann", "comment": "x"}],
        }
    )
    back = read_published(encode_published(publish(changed, 5, "me")))
    assert back.live() == changed
    assert (back.hash, back.at, back.by) == (settings_hash(changed), 5, "me")


def test_the_hash_depends_on_the_settings_alone() -> None:
    one, other = (
        LiveSettings(),
        LiveSettings.model_validate({"detectors": {"taskmanager_lost": {"confirmation_delay": "3s"}}}),
    )
    assert publish(one, 1, "a").hash == publish(one, 2, "b").hash == settings_hash(LiveSettings())
    assert settings_hash(one) != settings_hash(other)


@pytest.mark.parametrize(
    "bad", [{"nothing": {}}, {"taskmanager_lost": {"confrm": "3s"}}, {"taskmanager_lost": {"confirmation_delay": 3}}]
)
def test_an_unknown_key_or_a_number_without_unit_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DetectorSettings.model_validate(bad)


@given(st.integers(0, 10**12))
def test_a_duration_survives_writing_and_reading(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms


@pytest.mark.parametrize("bad", ["", "5", 5, None, "5 m", "m", "-5m", "5y", "٥m5"])
def test_what_is_no_duration_is_an_error_with_an_example(bad: object) -> None:
    with pytest.raises(ValueError, match="write a number with a unit"):
        parse_duration(bad)


@given(st.floats(0, 1e12))
def test_any_length_of_time_can_be_spoken(ms: float) -> None:
    assert humanize(ms)[0].isdigit()
