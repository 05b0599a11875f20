"""Routes, quiet hours and mentions change while receivers run; everything else stays as it was at the start."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sinks.in_force import SinksInForce
from sinks.receivers import make_receivers
from sinks.settings import Sinks
from tests.unit.sinks.samples import make_transition

ACTIONS = {"enabled": True, "allowed": ["*"], "remind_after": "15m"}
NIGHT = {"begin": "22:00", "end": "07:00"}
AT_NIGHT = datetime(2026, 11, 23, 23, tzinfo=UTC)


def sinks(*to: str, mention: tuple[str, ...] = (), **more: Any) -> Sinks:
    slack = {"enabled": True, "channel": "flink-alerts", "actions": {**ACTIONS, "mention": mention}}
    routing = {"routes": [{"to": list(to)}], "quiet_hours": more.pop("quiet_hours", [])}
    return Sinks.model_validate({"slack": slack, "routing": routing, **more})


def test_receivers_follow_the_settings_in_force() -> None:
    started = sinks("slack")
    in_force = SinksInForce(started)
    (receiver,) = make_receivers(started, in_force)
    one = make_transition()
    assert (receiver.is_target(one), receiver.quiet_until(one, AT_NIGHT), receiver.routes_version()) == (True, None, 0)

    in_force.replace(started.reloaded(sinks("slack:C1", quiet_hours=[NIGHT])))
    assert (receiver.is_target(one), receiver.routes_version()) == (False, 1)
    assert receiver.quiet_until(one, AT_NIGHT) == datetime(2026, 11, 24, 7, tzinfo=UTC)


def test_only_receivers_that_do_not_exist_are_made() -> None:
    assert [one.name for one in make_receivers(sinks("slack:C1"), existing=["slack"])] == ["slack:C1"]


def test_only_routes_quiet_hours_and_mentions_are_taken() -> None:
    webhook = {"enabled": True, "url": "https://hooks.example/x"}
    changed = sinks("slack:C1", mention=("U0ANN1",), webhook=webhook, max_silence="1h")
    merged = sinks("slack").reloaded(changed)
    assert (merged.routing, merged.slack.actions.mention) == (changed.routing, ("U0ANN1",))
    assert (merged.webhook.enabled, merged.max_silence) == (False, sinks("slack").max_silence)


def test_routes_to_a_sink_that_only_the_changed_file_enables_are_refused() -> None:
    webhook = {"enabled": True, "url": "https://hooks.example/x"}
    with pytest.raises(ValueError, match=r"'webhook', which is not an enabled receiver; enabled: slack, slack:<chan"):
        sinks("slack").reloaded(sinks("webhook", webhook=webhook))


def test_the_same_settings_are_no_change() -> None:
    in_force = SinksInForce(sinks("slack"))
    in_force.replace(sinks("slack").reloaded(sinks("slack")))
    assert in_force.version == 0


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (sinks("slack"), False),
        (sinks("slack", max_silence="1h"), False),
        (sinks("slack:C1"), True),
        (sinks("slack", mention=("U0ANN1",)), True),
        (sinks("slack", quiet_hours=[NIGHT]), True),
    ],
    ids=["same", "another setting", "routes", "mentions", "quiet hours"],
)
def test_the_hash_differs_if_routes_quiet_hours_or_mentions_differ(other: Sinks, differs: bool) -> None:
    assert (SinksInForce(other).hash() != SinksInForce(sinks("slack")).hash()) == differs
