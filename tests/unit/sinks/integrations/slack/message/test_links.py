"""Addresses in a message: filled from names that come out of logs, in settings that people write."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sinks.contract.link_templates import flink_ui_url
from sinks.integrations.alertmanager import alert
from sinks.integrations.slack.message.links import Links
from sinks.integrations.slack.settings import SlackConfig
from sinks.settings import Sinks
from tests.unit.sinks.samples import OPENED_AT, SINCE, late_acks_finding, make_transition, overdue_finding

GRAFANA = "https://grafana.example.org/d/flink?var-job={job}&var-cluster={cluster}&from={from}&to={to}"


def test_the_dashboard_shows_the_job_from_half_an_hour_before_to_ten_minutes_after() -> None:
    (link,) = Links(dashboard_url=GRAFANA).of(make_transition(job_name="orders & more"), SINCE, OPENED_AT)
    assert link == (
        "<https://grafana.example.org/d/flink?var-job=orders%20%26%20more&amp;var-cluster=prod-eu"
        f"&amp;from={SINCE - 1_800_000}&amp;to={OPENED_AT + 600_000}|Dashboard>"
    )


def test_a_runbook_on_github_has_its_kind_within_the_address() -> None:
    base = "https://github.com/acme/flink/blob/main/docs/runbooks/{kind}.md"
    links = Links(runbook_base_url=SlackConfig.model_validate({"runbook_base_url": base}).runbook_base_url)
    assert links.of(make_transition(), 0, 0) == [f"<{base.replace('{kind}', 'checkpoint_overdue')}|Runbook>"]
    assert links.of(make_transition(cause="test"), 0, 0) == [], "the incident of `sinks test` has none"
    annotated = alert(make_transition(), base)["annotations"]["runbook_url"]
    assert annotated == base.replace("{kind}", "checkpoint_overdue")


def test_a_runbook_is_linked_for_a_kind_and_for_nothing_else() -> None:
    links = Links(runbook_base_url="https://example.org/runbooks/")
    assert links.of(make_transition(), 0, 0) == ["<https://example.org/runbooks/checkpoint_overdue|Runbook>"]
    assert links.of(make_transition(cause="../../evil?x=|y"), 0, 0) == []


UI = "https://flink.example.org/{cluster}/#/job/{job_id}/checkpoints?tm={tm}&host={host}&kind={kind}"


def test_flink_s_ui_is_that_of_the_first_pattern_that_matches_the_cluster() -> None:
    urls = Sinks.model_validate({"flink_ui_url": {"prod-eu": UI, "prod-*": "https://other.example.org"}}).flink_ui_url
    late = make_transition(cause="late_barrier_acks", findings=[overdue_finding(), late_acks_finding()])
    assert Links(flink_ui_url=urls).of(late, 0, 0) == [
        (
            "<https://flink.example.org/prod-eu/#/job/a1b2c3/checkpoints?tm=container_e21_1772_0001_01_000007"
            "&amp;host=node-17&amp;kind=late_barrier_acks|Flink UI>"
        )
    ]
    assert Links(flink_ui_url=urls).of(make_transition(cluster="prod-us"), 0, 0) == [
        "<https://other.example.org|Flink UI>"
    ]
    assert Links(flink_ui_url=urls).of(make_transition(cluster="test"), 0, 0) == []


@pytest.mark.parametrize("template", [UI, GRAFANA.replace("{job}", "{tm}")])
def test_a_link_is_left_out_if_the_incident_has_no_value_for_it(template: str) -> None:
    assert Links(dashboard_url=template, explain_url=template).of(make_transition(), 0, 0) == []


@given(st.text(min_size=1))
def test_no_name_leads_to_another_host_or_path(name: str) -> None:
    address = flink_ui_url({"*": "https://flink.example.org/{cluster}/x"}, make_transition(cluster=name))
    if name in (".", ".."):
        assert address == ""
    else:
        assert re.fullmatch(r"https://flink\.example\.org/[\w.~%-]+/x", address, re.ASCII)


@given(st.text(), st.integers(-(2**63), 2**63))
def test_no_name_ends_a_link_or_is_too_long_for_one(name: str, time: int) -> None:
    links = Links("https://example.org", GRAFANA, "https://example.org/?q={incident}")
    for link in links.of(make_transition(job_name=name, cluster=name, incident=name), time, time):
        assert re.fullmatch(r"<https://[^<>|\s]+\|(Runbook|Dashboard|Explain)>", link)
        assert len(link) <= 700


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://g/{jobb}", "unknown placeholder {jobb}; allowed: {cluster}, {job}"),
        ("https://g/{}", "unknown placeholder {}"),
        ("https://g/{job!r}", "unknown placeholder {job}"),
        ("https://g/{job.__class__}", "unknown placeholder {job.__class__}"),
        ("https://g/{job", "not part of a placeholder"),
        ("https://g/a b", "without blanks"),
        ("https://g/|x", "without blanks"),
        ("javascript:alert(1)", "http"),
    ],
)
@pytest.mark.parametrize("setting", ["dashboard_url", "explain_url"])
def test_an_address_that_cannot_be_filled_is_refused_at_start(setting: str, address: str, why: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(why)):
        SlackConfig.model_validate({setting: address})
    with pytest.raises(ValidationError, match=re.escape(why)):
        Sinks.model_validate({"flink_ui_url": {"*": address}})
