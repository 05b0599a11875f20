"""Which incident goes where, and when it may not."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sinks.receivers import make_receivers
from sinks.routing import QuietHours, Routing
from sinks.settings import Sinks
from tests.unit.sinks.samples import make_transition

ENABLED = ("slack", "webhook")


def routing(*routes: dict[str, Any], **more: Any) -> Routing:
    return Routing.model_validate({"routes": routes, **more})


def test_without_rules_everything_goes_everywhere() -> None:
    assert routing().targets(make_transition(), ENABLED) == ENABLED


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        ({"cluster": "prod-*"}, True),
        ({"cluster": "test-*"}, False),
        ({"job": "orders-*"}, True),
        ({"job": "orders"}, False),
        ({"kinds": ["late_*", "checkpoint_*"]}, True),
        ({"kinds": ["late_*"]}, False),
        ({"severity": "warning"}, True),
        ({"severity": "critical"}, False),
        ({"cluster": "prod-*", "job": "x"}, False),
    ],
)
def test_a_rule_fits_when_all_of_it_fits(rule: dict[str, Any], fits: bool) -> None:
    found = routing({**rule, "to": ["slack:#a"]}).targets(make_transition(), ENABLED)
    assert found == (("slack:#a",) if fits else ENABLED)


def test_the_first_rule_that_fits_decides_unless_it_continues() -> None:
    first, second = {"to": ["slack:#a"]}, {"to": ["slack:#b", "slack:#a"]}
    assert routing(first, second).targets(make_transition(), ENABLED) == ("slack:#a",)
    assert routing({**first, "continue": True}, second).targets(make_transition(), ENABLED) == ("slack:#a", "slack:#b")


def test_a_rule_may_say_nobody_and_the_default_may_be_named() -> None:
    quiet = routing({"cluster": "prod-*", "to": []}, default=["webhook"])
    assert quiet.targets(make_transition(), ENABLED) == ()
    assert quiet.targets(make_transition(cluster="other"), ENABLED) == ("webhook",)


def sinks(**changes: Any) -> Sinks:
    slack = {"enabled": True, "channel": "flink-alerts"}
    return Sinks.model_validate({"slack": slack, **changes})


def test_each_channel_that_a_rule_names_is_a_receiver() -> None:
    made = make_receivers(sinks(routing={"routes": [{"severity": "critical", "to": ["slack:C0ONCALL99", "slack"]}]}))
    assert [(one.name, one.channel) for one in made] == [
        ("slack", ""),
        ("slack:C0ONCALL99", "C0ONCALL99"),
    ]
    critical = make_transition(severity="critical")
    assert [receiver.is_target(critical) for receiver in made] == [True, True]
    assert [receiver.is_target(make_transition()) for receiver in made] == [True, False]


@pytest.mark.parametrize("receiver", ["pagerduty", "webhook:x", "slack:", "mail"])
def test_a_rule_that_leads_nowhere_is_an_error_that_names_what_there_is(receiver: str) -> None:
    with pytest.raises(ValidationError, match=r"not an enabled receiver; enabled: slack, slack:<channel>"):
        sinks(routing={"routes": [{"to": [receiver]}]})


def scheduled(*to: str, name: str = "shift") -> dict[str, Any]:
    return {"name": name, "at": ["08:00"], "to": to}


def test_a_channel_that_only_an_overview_names_is_a_receiver_without_incidents() -> None:
    own, other = make_receivers(sinks(overviews=[scheduled("slack:C0TEAMLEAD"), scheduled("slack", name="week")]))
    assert (other.name, other.is_target(make_transition())) == ("slack:C0TEAMLEAD", False)
    assert [[one.name for one in receiver.overviews] for receiver in (own, other)] == [["week"], ["shift"]]


@pytest.mark.parametrize("receiver", ["alertmanager", "pagerduty"])
def test_an_overview_for_a_receiver_of_alerts_is_an_error_that_says_what_is_allowed(receiver: str) -> None:
    with pytest.raises(ValidationError, match=r"'shift' names .* cannot show an overview; allowed: slack, slack:"):
        sinks(overviews=[scheduled("slack", receiver)])


@pytest.mark.parametrize("receiver", ["webhook", "slack:", "mail"])
def test_an_overview_that_leads_nowhere_is_an_error_that_names_what_there_is(receiver: str) -> None:
    with pytest.raises(ValidationError, match=r"overviews: 'shift' names .* enabled: slack, slack:<channel>"):
        sinks(overviews=[scheduled(receiver)])


def test_two_schedules_with_one_name_are_an_error() -> None:
    with pytest.raises(ValidationError, match="'shift' is the name of more than one schedule"):
        sinks(overviews=[scheduled("slack"), scheduled("slack")])


def quiet(**changes: Any) -> QuietHours:
    return QuietHours.model_validate({"begin": "22:00", "end": "07:00", "time_zone": "Europe/Berlin", **changes})


@pytest.mark.parametrize(
    ("local", "until"),
    [
        ("2026-03-02 21:59", None),
        ("2026-03-02 22:00", "2026-03-03 07:00"),
        ("2026-03-03 06:59", "2026-03-03 07:00"),
        ("2026-03-03 07:00", None),
        # The clocks go forward: the night is an hour shorter.
        ("2026-03-29 00:30", "2026-03-29 07:00"),
    ],
)
def test_quiet_hours_are_local_and_go_over_midnight(local: str, until: str | None) -> None:
    zone = ZoneInfo("Europe/Berlin")
    now = datetime.fromisoformat(local).replace(tzinfo=zone)
    expected = None if until is None else datetime.fromisoformat(until).replace(tzinfo=zone)
    assert quiet().until(now.astimezone(UTC)) == expected


def test_quiet_hours_begin_on_their_days_alone() -> None:
    weekend = quiet(days=["sat"])
    saturday_night = datetime(2026, 3, 7, 22, 30, tzinfo=UTC)
    assert weekend.until(saturday_night) is not None
    assert weekend.until(saturday_night + timedelta(days=1)) is None


@given(st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)))  # noqa: DTZ001 - hypothesis adds none
def test_the_end_of_quiet_hours_is_never_past_and_at_most_a_night_away(now: datetime) -> None:
    at = now.replace(tzinfo=UTC)
    until = quiet().until(at)
    assert until is None or timedelta(0) < until - at <= timedelta(hours=10)


def test_quiet_hours_spare_what_is_severe_and_other_receivers() -> None:
    night = datetime(2026, 3, 2, 23, 0, tzinfo=UTC)
    rules = routing(quiet_hours=[{"begin": "22:00", "end": "07:00", "below": "critical", "to": ["slack*"]}])
    assert rules.quiet_until("slack:#a", make_transition(), night) == datetime(2026, 3, 3, 7, 0, tzinfo=UTC)
    assert rules.quiet_until("slack:#a", make_transition(severity="critical"), night) is None
    assert rules.quiet_until("webhook", make_transition(), night) is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"time_zone": "Berlin"}, "write a name such as Europe/Berlin"),
        ({"end": "22:00"}, "must differ"),
        # What YAML makes of 22:00 without quotes.
        ({"begin": 1320}, 'in quotes, such as "22:00"'),
        ({"begin": "22:00Z"}, "local time"),
        ({"end": "24:00"}, "hour"),
    ],
)
def test_quiet_hours_that_cannot_be_are_an_error(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        quiet(**wrong)
