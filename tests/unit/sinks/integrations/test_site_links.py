"""With an address of the status site, every receiver gets the page of the incident; without one, nothing changes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.contract.sink import Notification
from sinks.contract.site_links import incident_url
from sinks.integrations.alertmanager import alert
from sinks.integrations.pagerduty import event
from sinks.integrations.slack.message.links import Links
from sinks.integrations.webhook import WebhookConfig, WebhookSink
from sinks.receivers import make_receivers
from sinks.settings import Sinks
from tests.fake_slack.server import TOKEN, SlackServer
from tests.fake_teams.server import SECRET, TeamsServer
from tests.unit.sinks.receiver import Receiver
from tests.unit.sinks.samples import make_transition

OUTSIDE = "https://ops.example.org/flinkwatch"
PAGE = f"{OUTSIDE}/incidents/9f2c41d07b3e"
"""Of `make_transition()`."""


def test_slack_links_to_the_incident_first() -> None:
    links = Links("https://runbooks.example.org", external_url=OUTSIDE).of(make_transition(), 0, 0)
    assert links[0] == f"<{PAGE}|Incident>"
    assert len(links) == 2


def test_pagerduty_and_alertmanager_have_their_own_fields_for_it() -> None:
    assert event(make_transition(), "key", OUTSIDE)["client_url"] == PAGE
    assert alert(make_transition(), external_url=OUTSIDE)["generatorURL"] == PAGE
    assert "client_url" not in event(make_transition(), "key")
    assert "generatorURL" not in alert(make_transition())


@pytest.mark.parametrize("outside", [OUTSIDE, ""])
def test_the_setting_reaches_every_receiver(monkeypatch: pytest.MonkeyPatch, outside: str) -> None:
    monkeypatch.setenv("PAGERDUTY_ROUTING_KEY", "key")
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("TEAMS_CLIENT_SECRET", SECRET)
    with Receiver() as receiver, SlackServer() as slack, TeamsServer() as teams:
        sinks = Sinks.model_validate(
            {
                "web": {"external_url": outside},
                "slack": {"enabled": True, "channel": "flink-alerts", "base_url": slack.base_url},
                "webhook": {"enabled": True, "url": f"{receiver.url}/in"},
                "alertmanager": {"enabled": True, "urls": [receiver.url]},
                "pagerduty": {"enabled": True, "url": f"{receiver.url}/in"},
                "teams": teams.settings,
            }
        )
        for one in make_receivers(sinks):
            one.sink.send(Notification(transition=make_transition()))
        chats = [slack.parents()[0].blocks, list(teams.messages.values())]
        sent = [request.body for request in receiver.received] + [msgspec.json.encode(chat) for chat in chats]
        assert [PAGE.encode() in body for body in sent] == [bool(outside)] * 5


def test_slack_and_the_webhook_link_to_flink_s_ui(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with Receiver() as receiver, SlackServer() as slack:
        sinks = Sinks.model_validate(
            {
                "flink_ui_url": {"prod-*": "https://flink.example.org/{cluster}/#/job/{job_id}"},
                "slack": {"enabled": True, "channel": "flink-alerts", "base_url": slack.base_url},
                "webhook": {"enabled": True, "url": f"{receiver.url}/in"},
            }
        )
        for one in make_receivers(sinks):
            one.sink.send(Notification(transition=make_transition()))
        sent = [receiver.received[0].body, msgspec.json.encode(slack.parents()[0].blocks)]
        assert [b"https://flink.example.org/prod-eu/#/job/a1b2c3" in body for body in sent] == [True, True]


def test_the_webhook_has_the_page_in_its_json() -> None:
    with Receiver() as receiver:
        sink = WebhookSink(WebhookConfig(enabled=True, url=f"{receiver.url}/in", timeout="10s"), OUTSIDE)
        sink.send(Notification(transition=make_transition()))
        (request,) = receiver.received
    assert request.json()["url"] == PAGE


@given(st.text())
def test_an_id_is_one_part_of_the_address(incident: str) -> None:
    url = incident_url(OUTSIDE, incident)
    assert not url or url.count("/") == PAGE.count("/")
    assert not set(url) & set(" <>|\"'\\\n?#")
