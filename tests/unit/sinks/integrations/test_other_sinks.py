"""Webhook, Alertmanager and PagerDuty: what they send, how it is signed, and what each answer means."""

import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import ValidationError

from detectors.incident import decode_transition
from detectors.incidents.known_issues import IssueCatalogue
from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.contract.overview import Period, ScheduledOverview, overview
from sinks.contract.sink import Notification
from sinks.integrations.alertmanager import AlertmanagerConfig, AlertmanagerSink, alert
from sinks.integrations.calls import retry_after
from sinks.integrations.pagerduty import PagerDutyConfig, PagerDutySink
from sinks.integrations.webhook import WebhookConfig, WebhookSink
from sinks.secret import SecretError
from tests.unit.sinks.receiver import Receiver
from tests.unit.sinks.samples import OPENED_AT, make_transition

NOW = OPENED_AT / 1000 + 60


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def notice(**changes: Any) -> Notification:
    return Notification(transition=make_transition(**changes))


def webhook(receiver: Receiver, **config: Any) -> WebhookSink:
    return WebhookSink(WebhookConfig(enabled=True, url=f"{receiver.url}/in", timeout="10s", **config), wall=lambda: NOW)


def test_a_webhook_gets_the_whole_transition_under_a_key_that_repeats_share(receiver: Receiver) -> None:
    sink = webhook(receiver)
    assert sink.send(notice(seq=4)) == sink.send(notice(seq=4)) == Delivered()
    first, second = receiver.received
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"] == "9f2c41d07b3e/4"
    document = first.json()
    assert (document["version"], document["key"]) == (1, "9f2c41d07b3e/4")
    assert decode_transition(msgspec.json.encode(document["transition"])) == make_transition(seq=4)


def test_a_webhook_gets_an_overview_as_numbers_and_as_markdown(receiver: Receiver) -> None:
    found = overview(Period(OPENED_AT, OPENED_AT + 60_000), IssueCatalogue())
    notification = replace(notice(incident="~overview/shift/7", seq=1), summary=ScheduledOverview("shift", found))
    assert webhook(receiver).send(notification) == Delivered()
    document = receiver.received[0].json()
    assert document.keys() == {"version", "key", "overview", "markdown"}
    assert document["key"] == receiver.received[0].headers["Idempotency-Key"] == "~overview/shift/7/1"
    assert document["overview"]["opened"] == 0
    assert document["markdown"].startswith("# Flink incidents (shift), ")


@pytest.mark.parametrize("token", ["first\nsecond", "naïve", "bell\x07"])
def test_a_token_that_no_header_takes_is_refused_before_an_error_can_tell_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", token)
    sink = webhook(receiver, token_env="HOOK_TOKEN")
    with pytest.raises(SecretError, match="environment variable HOOK_TOKEN is not one line of ASCII"):
        sink.check()
    refused = sink.send(notice())
    assert isinstance(refused, Refused)
    assert refused.because == "setup"
    assert token not in repr(refused)


def test_the_signature_is_over_timestamp_and_body(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "k3y")
    webhook(receiver, secret_env="HOOK_SECRET").send(notice())
    (one,) = receiver.received
    signed = b"v1:" + one.headers["X-Flinkwatch-Timestamp"].encode() + b":" + one.body
    expected = "v1=" + hmac.new(b"k3y", signed, hashlib.sha256).hexdigest()
    assert one.headers["X-Flinkwatch-Signature"] == expected
    assert one.headers["X-Flinkwatch-Timestamp"] == str(int(NOW))
    assert b"k3y" not in one.body
    assert "k3y" not in str(one.headers)


def test_without_its_secret_a_webhook_neither_starts_nor_sends(receiver: Receiver) -> None:
    sink = webhook(receiver, secret_env="NOT_SET_ANYWHERE")
    with pytest.raises(SecretError, match="NOT_SET_ANYWHERE"):
        sink.check()
    outcome = sink.send(notice())
    assert isinstance(outcome, Refused)
    assert outcome.because == "setup"
    assert receiver.received == []


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (204, {}, Delivered()),
        (429, {"Retry-After": "7"}, RetryAfter(7.0, "rate limited", "rateLimited")),
        (429, {"Retry-After": "soon"}, RetryAfter(30.0, "rate limited", "rateLimited")),
        (503, {"Retry-After": "120"}, RetryAfter(120.0, "HTTP status 503", "serverError")),
        (502, {}, RetryAfter(None, "HTTP status 502", "serverError")),
        (500, {}, Unknown("HTTP status 500", "serverError")),
        (401, {}, "setup"),
        (403, {}, "setup"),
        (404, {}, "setup"),
        (302, {"Location": "https://elsewhere.example"}, "setup"),
        (400, {}, "message"),
        (413, {}, "message"),
        (0, {}, Unknown("connection lost: RemoteDisconnected", "other")),
    ],
)
def test_each_answer_has_its_outcome(
    receiver: Receiver, status: int, headers: dict[str, str], expected: Outcome | str
) -> None:
    receiver.answers.append((status, headers))
    outcome = webhook(receiver).send(notice())
    if isinstance(expected, str):
        assert isinstance(outcome, Refused)
        assert outcome.because == expected
    else:
        assert outcome == expected
    assert len(receiver.received) == 1, "redirects are not followed, nothing is tried again"


def test_a_receiver_that_does_not_listen_was_sent_nothing() -> None:
    config = WebhookConfig(enabled=True, url="http://127.0.0.1:9/in", timeout="10s")
    assert isinstance(WebhookSink(config).send(notice()), RetryAfter)


@given(st.text(max_size=40) | st.integers().map(str) | st.floats().map(str))
def test_no_retry_after_makes_a_busy_loop_or_an_endless_wait(value: str) -> None:
    seconds = retry_after({"Retry-After": value}, 0.0)
    assert seconds is None or 1.0 <= seconds <= 3600.0


def test_retry_after_may_be_a_date() -> None:
    assert retry_after({"retry-after": "Sun, 01 Mar 2026 14:04:00 GMT"}, OPENED_AT / 1000) == 60.0


def test_what_cannot_work_is_an_error_that_says_so() -> None:
    with pytest.raises(ValidationError, match="url is needed"):
        WebhookConfig(enabled=True)
    with pytest.raises(ValidationError, match="urls is needed"):
        AlertmanagerConfig(enabled=True)
    with pytest.raises(ValidationError, match=r"urls\[1\] is not an http\(s\) address") as wrong:
        AlertmanagerConfig(enabled=True, urls=("http://am-0:9093", "user:hunter2@am-1:9093"))
    assert "hunter2" not in str(wrong.value)
    with pytest.raises(ValidationError, match="at least twice resend_interval"):
        AlertmanagerConfig(resend_interval="10m", resolve_timeout="15m")


def alertmanager(receiver: Receiver) -> AlertmanagerSink:
    return AlertmanagerSink(AlertmanagerConfig(enabled=True, urls=(receiver.url,), timeout="10s"), wall=lambda: NOW)


def test_an_alert_has_the_labels_a_team_routes_by_and_ends_unless_it_is_sent_again(receiver: Receiver) -> None:
    alertmanager(receiver).send(notice())
    (one,) = receiver.received
    assert one.path == "/api/v2/alerts"
    (sent,) = one.json()
    assert sent["labels"] == {
        "alertname": "FlinkIncident",
        "severity": "warning",
        "cluster": "prod-eu",
        "job": "orders-enrichment",
        "incident": "9f2c41d07b3e",
    }
    assert sent["annotations"]["cause"] == "checkpoint_overdue"
    assert sent["startsAt"] == "2026-03-01T14:03:00.000Z"
    assert sent["endsAt"] == "2026-03-01T14:19:00.000Z"


def test_open_alerts_are_sent_again_and_resolved_ones_are_not(receiver: Receiver) -> None:
    sink = alertmanager(receiver)
    for number in range(501):
        sink.send(notice(incident=f"i{number}"))
    sink.send(notice(incident="i0", seq=2, transition="resolved", ended_at=OPENED_AT + 1))
    receiver.received.clear()
    assert sink.resend() == Delivered()
    sent = [one["labels"]["incident"] for received in receiver.received for one in received.json()]
    assert sorted(sent) == sorted(f"i{number}" for number in range(1, 501))
    assert len(receiver.received) == 1


def test_a_cause_that_becomes_known_leaves_one_alert(receiver: Receiver) -> None:
    sink = alertmanager(receiver)
    sink.send(notice())
    sink.send(notice(seq=2, transition="updated", cause="late_barrier_acks"))
    (before,), (after,) = (received.json() for received in receiver.received)
    assert after["labels"] == before["labels"]
    assert after["annotations"]["cause"] == "late_barrier_acks"


def test_an_alert_whose_labels_change_ends_and_begins_again(receiver: Receiver) -> None:
    sink = alertmanager(receiver)
    sink.send(notice())
    sink.send(notice(seq=2, transition="updated", severity="critical"))
    old, new = receiver.received[1].json()
    assert (old["labels"]["severity"], old["endsAt"]) == ("warning", "2026-03-01T14:04:00.000Z")
    assert (new["labels"]["severity"], new["endsAt"]) == ("critical", "2026-03-01T14:19:00.000Z")


def test_what_another_process_tells_is_not_sent_again(receiver: Receiver) -> None:
    sink = alertmanager(receiver)
    sink.send(notice())
    sink.release("9f2c41d07b3e")
    receiver.received.clear()
    assert sink.resend() is None
    assert receiver.received == []


@given(st.sampled_from(["opened", "updated", "stale"]), st.text(max_size=3000), st.text(max_size=20))
def test_an_alert_is_bounded_and_has_no_empty_label(change: Any, text: str, name: str) -> None:
    made = alert(make_transition(transition=change, summary=text, advice=text, job_name=name))
    assert all(made["labels"].values())
    assert all(len(value) <= 2_000 for value in made["annotations"].values())


def test_pagerduty_is_triggered_and_resolved_under_the_incidents_id(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGERDUTY_ROUTING_KEY", "r0uting")
    sink = PagerDutySink(PagerDutyConfig(enabled=True, url=receiver.url))
    sink.send(notice(severity="critical"))
    sink.send(notice(seq=2, transition="resolved"))
    opened, resolved = (one.json() for one in receiver.received)
    assert (opened["event_action"], opened["dedup_key"]) == ("trigger", "9f2c41d07b3e")
    assert opened["payload"]["severity"] == "critical"
    assert len(opened["payload"]["summary"]) <= 1024
    assert resolved == {
        "routing_key": "r0uting",
        "dedup_key": "9f2c41d07b3e",
        "client": "flinkwatch",
        "event_action": "resolve",
    }
