"""Pages and documents of the status site: what they show, status codes, headers, ETag, parts of lists, logins."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from structlog.testing import capture_logs

from detectors.incident import Silenced
from detectors.incidents.known_issues import IssueCatalogue, IssueEntry
from detectors.incidents.silences import Silence
from detectors.settings.live import SILENCE_KEY, LiveSettings, publish_silence
from sinks.contract.feedback import Feedback
from sinks.web.site.documents import ALL
from sinks.web.site.status_site import API, SITE_PATHS
from sinks.web.templating import content_security_policy
from tests.unit.sinks.samples import OPENED_AT
from tests.unit.sinks.web.site.filled import DAY_MS, NOW, FilledSite

PROJECT = Path(__file__).parents[5]
SCHEMA: dict[str, Any] = msgspec.json.decode((PROJECT / "docs" / "api" / "v1.schema.json").read_bytes())
PATHS = ("/", "/incidents/i", "/history", "/clusters", "/clusters/prod-eu", "/config", "/receivers")
DOCUMENTS = ("/incidents", *PATHS[1:])


def conforms(name: str, document: Any) -> None:
    jsonschema.validate(document, {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]*>", " ", html, flags=re.DOTALL))


def test_open_incidents_are_by_cluster_and_severity_with_the_silenced_last(filled: FilledSite) -> None:
    filled.add_incident("a-warning", cluster="a")
    filled.add_incident("b-info", cluster="b", severity="info")
    filled.add_incident("b-critical", cluster="b", severity="critical")
    filled.resolve("c-over", cluster="c")
    filled.add_incident("b-silenced", cluster="b", severity="critical", silence=Silenced("s", NOW + 1, "ann", "why"))
    document = filled.json("/incidents")
    assert [one["incident"] for one in document["incidents"]] == ["b-critical", "b-info", "b-silenced", "a-warning"]
    assert [(c["cluster"], c["critical"], c["warning"], c["info"], c["silenced"]) for c in document["clusters"]] == [
        ("b", 1, 0, 1, 1),
        ("a", 0, 1, 0, 0),
    ]
    page = text_of(filled.html("/"))
    assert "4 open incidents" in page
    assert "silenced until 2026-03-01" in page
    assert "c-over" not in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("cluster=a", ["one"]),
        ("job=orders", ["two"]),
        ("kind=heap_exhaustion", ["two"]),
        ("severity=critical", ["two"]),
        ("q=HEAP+of+t", ["two"]),
        ("q=%25", []),
        ("cluster=a&severity=critical", []),
        ("", ["two", "one"]),
    ],
)
def test_filters_select(filled: FilledSite, query: str, found: list[str]) -> None:
    filled.add_incident("one", cluster="a", job_name="other")
    filled.add_incident(
        "two", cluster="b", job_name="orders", cause="heap_exhaustion", severity="critical", summary="The heap of tm-1"
    )
    assert [one["incident"] for one in filled.json(f"/incidents?{query}")["incidents"]] == found
    assert [name for name in ("one", "two") if f"/incidents/{name}" in filled.html(f"/?{query}")] == sorted(found)


def test_a_list_comes_in_parts_that_together_are_the_whole(filled: FilledSite) -> None:
    for number in range(25):
        filled.add_incident(f"i{number:02}", cluster=f"c{number % 3}")
    seen: list[str] = []
    address: str | None = "/incidents?limit=10"
    while address is not None:
        document = filled.json(address)
        seen += [one["incident"] for one in document["incidents"]]
        assert document["total"] == 25
        address = document["next"] and document["next"].removeprefix(API)
    assert sorted(seen) == [f"i{number:02}" for number in range(25)]
    page = filled.html("/?limit=10&offset=10")
    assert "11 to 20 of 25." in page
    assert 'href="/?limit=10" rel="prev"' in page
    assert 'href="/?limit=10&amp;offset=20" rel="next"' in page


def test_an_incident_has_its_transitions_newest_first_and_who_was_notified(filled: FilledSite) -> None:
    filled.add_incident("earlier", opened_at=OPENED_AT - DAY_MS)
    filled.add_incident("other job", opened_at=OPENED_AT - DAY_MS, job_name="x")
    filled.add_incident("i", 3, config=filled.settings.hash)
    filled.notified("i", "pagerduty")
    document = filled.json("/incidents/i?limit=2")
    assert [one["seq"] for one in document["transitions"]] == [3, 2]
    assert (document["total"], document["complete"]) == (3, True)
    assert document["next"] == "/api/v1/incidents/i?limit=2&offset=2"
    assert [one["receiver"] for one in document["notifications"]] == ["pagerduty"]
    assert [one["incident"] for one in document["earlier"]] == ["earlier"]
    assert "checkpoint_overdue.factor" in [one["key"] for one in document["thresholds"]]
    page = filled.html("/incidents/i")
    assert "pagerduty" in page
    assert 'href="/incidents/earlier"' in page


def test_an_incident_shows_who_has_acknowledged_it(filled: FilledSite) -> None:
    filled.add_incident("i")
    answer = Feedback(incident="i", answer="acknowledged", person="<ann>", user="U1", at=OPENED_AT + 60_000)
    filled.collector.feedback.add(answer)
    assert filled.json("/incidents/i")["marks"]["acknowledged"] == {"by": "<ann>", "at": OPENED_AT + 60_000}
    assert "Acknowledged by &lt;ann&gt; at 14:04:00 UTC." in filled.html("/incidents/i")


def test_after_compaction_an_incident_is_shown_as_incomplete(filled: FilledSite) -> None:
    filled.resolve("i")
    document = filled.json("/incidents/i")
    assert (document["complete"], document["total"], document["incident"]["seq"]) == (False, 1, 9)
    assert filled.get("/incidents/i").status == 200


def test_thresholds_of_another_configuration_are_not_shown_with_an_incident(filled: FilledSite) -> None:
    filled.add_incident("i", config="0ld0ld00")
    assert filled.json("/incidents/i")["thresholds"] == []


def test_history_counts_two_weeks_by_kind_cluster_job_and_day(filled: FilledSite) -> None:
    filled.add_incident("open long ago", opened_at=NOW - 40 * DAY_MS, cluster="a")
    filled.resolve(
        "yesterday", NOW - DAY_MS, opened_at=NOW - DAY_MS, cluster="b", cause="node_lost", job_name="", job_id=""
    )
    filled.resolve("before", NOW - 14 * DAY_MS, opened_at=NOW - 15 * DAY_MS, cluster="c")
    document = filled.json("/history")
    assert document["total"] == 2
    assert [one["incident"] for one in document["incidents"]] == ["yesterday", "open long ago"]
    counts = {name: {one["name"]: one["count"] for one in document[name]} for name in ("kinds", "clusters", "jobs")}
    assert counts == {
        "kinds": {"checkpoint_overdue": 1, "node_lost": 1},
        "clusters": {"a": 1, "b": 1},
        "jobs": {"orders-enrichment": 1},
    }
    assert document["days"][0] == {"name": "2026-02-28", "count": 1}
    assert filled.json("/history?days=1")["total"] == 1
    assert filled.json("/history?state=resolved")["total"] == 1
    assert "/history?kind=node_lost" in filled.html("/history")


def test_clusters_are_those_with_open_incidents_and_those_with_readings(filled: FilledSite) -> None:
    filled.add_incident("i", cluster="ns/app & more")
    filled.read("gc_time_ratio", 0.1, cluster="quiet")
    assert [one["cluster"] for one in filled.json("/clusters")["clusters"]] == ["ns/app & more", "quiet"]
    assert [one["cluster"] for one in filled.json("/clusters?q=QUI")["clusters"]] == ["quiet"]
    assert 'href="/clusters/ns%2Fapp%20%26%20more"' in filled.html("/clusters")
    for path in ("ns%2Fapp%20%26%20more", "ns/app%20%26%20more"):
        assert [one["incident"] for one in filled.json(f"/clusters/{path}")["incidents"]] == ["i"]


def test_the_configuration_in_force_since_when_with_silences_and_changes(tmp_path: Path) -> None:
    live = LiveSettings.model_validate({"detectors": {"heap_exhaustion": {"gc_share": 0.5}}})
    site = FilledSite(tmp_path, live)
    for name, until in (("over", "2026-03-01T00:00:00Z"), ("on", "2026-03-09T00:00:00Z")):
        silence = {"id": name, "job": "backfill-*", "until": until, "author": "ann", "comment": "yearly"}
        record = publish_silence(Silence.model_validate(silence), 1, "ann")
        site.settings.add(SILENCE_KEY + name.encode(), msgspec.json.encode(record), NOW)
    document = site.json("/config")
    assert (document["at"], document["by"]) == (OPENED_AT - DAY_MS, "ann")
    assert document["changed"] == [{"name": "heap_exhaustion.gc_share", "value": 0.5, "default": 0.3}]
    assert [(one["id"], one["matches"]) for one in document["silences"]] == [("on", {"job": "backfill-*"})]
    assert [one["hash"] for one in document["changes"]] == [document["hash"]]
    page = text_of(site.html("/config"))
    assert "in force since 2026-02-28 14:03:00 UTC (25 h ago), published by ann (file)" in page
    site.store.close()


def test_maintenance_windows_have_their_present_or_next_period_the_present_one_first(tmp_path: Path) -> None:
    windows = [
        {"cluster": "prod-*", "begin": "02:00", "end": "04:00", "days": ["wed"], "comment": "node patching"},
        {"begin": "15:00", "end": "16:30", "time_zone": "Europe/London", "comment": "redeploy <b>"},
    ]
    site = FilledSite(tmp_path, LiveSettings.model_validate({"maintenance": windows}))
    now, later = site.json("/config")["maintenance"]
    assert (now["in_force"], now["matches"], now["until"] - NOW) == (True, {}, 87 * 60_000)
    assert (later["in_force"], later["matches"]) == (False, {"cluster": "prod-*"})
    page = text_of(site.html("/config"))
    assert "every day 15:00 to 16:30 Europe/London everything in force until 2026-03-01 16:30:00 UTC" in page
    assert "wed 02:00 to 04:00 UTC cluster prod-* 2026-03-04 02:00:00 UTC to 2026-03-04 04:00:00 UTC" in page
    assert "redeploy <b>" not in site.html("/config")
    site.store.close()


LEAK = IssueEntry.model_validate(
    {
        "id": "FLINK-33231",
        "title": "KafkaSource leaks entries",
        "signature": [{"kinds": ["zero_input_leak"]}],
        "affected": [{"since": "1.13", "before": "1.18"}],
        "fixed_in": "flink-connector-kafka 3.0.1",
        "workaround": "Send a heartbeat record.",
        "link": "https://issues.apache.org/jira/browse/FLINK-33231",
    }
)


@pytest.mark.parametrize(("version", "issues"), [("1.17.1", ["FLINK-33231"]), ("1.20.5", [])])
def test_a_cluster_lists_the_settings_and_known_issues_that_make_incidents_likely(
    tmp_path: Path, version: str, issues: list[str]
) -> None:
    site = FilledSite(tmp_path, issues=IssueCatalogue((LEAK,), "h"))
    site.read("flink_info", 1, version=version)
    site.read("flink_setting_info", 1, key="heartbeat.timeout", value="10000")
    document = site.json("/clusters/prod-eu")
    assert document["version"] == version
    (risk,) = (risk for risk in document["risks"] if risk["rule"] == "heartbeat-shorter-than-pauses")
    assert risk["seen"] == "heartbeat.timeout is 10 s"
    assert [issue["id"] for issue in document["known_issues"]] == issues
    html = site.html("/clusters/prod-eu")
    assert f"Before it happens What makes incidents likely here with Flink {version}" in text_of(html)
    assert "heartbeat.timeout is 10 s." in text_of(html)
    assert [LEAK.link in html] == [bool(issues)]
    assert site.json("/incidents")["total"] == 0
    site.store.close()


def test_what_is_not_known_of_a_cluster_is_no_risk(filled: FilledSite) -> None:
    filled.read("gc_time_ratio", 0.01)
    document = filled.json("/clusters/prod-eu")
    assert (document["risks"], document["known_issues"], document["version"]) == ([], [], "")
    assert [sentence.split(" unknown")[0] for sentence in document["unknown"]] == [
        "Flink's version is",
        "The settings are",
    ]


def test_receivers_show_what_failed_what_waits_and_the_checks(filled: FilledSite) -> None:
    delivery = filled.collector.delivery
    delivery.add_receiver("slack")
    delivery.count_attempt("slack", "serverError")
    delivery.undelivered.labels("slack").set(2)
    delivery.suppressed.labels("slack", "silence").inc()
    filled.notified("i", at=5_000)
    filled.notified("j", state="unknown", at=9_000)
    document = filled.json("/receivers")
    (found,) = document["receivers"]
    assert (found["receiver"], found["attempts"], found["undelivered"]) == ("slack", 1, 2)
    assert (found["failures"], found["suppressed"]) == ({"serverError": 1}, {"silence": 1})
    assert (found["states"], found["last_sent"]) == ({"sent": 1, "unknown": 1}, 5_000)
    assert document["checks"] == [{"name": "query", "problem": None}, {"name": "delivery", "problem": "3 on slack"}]
    assert "2 undelivered" in filled.html("/receivers")


@pytest.mark.parametrize("path", PATHS)
def test_every_page_has_the_headers_that_bind_a_browser(filled: FilledSite, path: str) -> None:
    filled.add_incident("i")
    found = filled.get(path)
    headers = dict(found.headers)
    assert headers["Content-Security-Policy"] == content_security_policy()
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert {name: headers[name] for name in ("X-Content-Type-Options", "Referrer-Policy", "Cache-Control")} == {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    html = found.body.decode()
    assert not re.search(r"(?:src|href|action)=[\"'](?:https?:)?//", html)
    assert html.count('<nav aria-label="flinkwatch">') == 1
    for target in re.findall(r'(?:href|action)="(/[^"?#]*)', html):
        assert filled.get(target).status == 200, target


def test_pages_of_the_present_state_refresh_themselves_unless_asked_not_to(filled: FilledSite) -> None:
    filled.add_incident("i")
    refreshed = [path for path in PATHS if dict(filled.get(path).headers).get("Refresh")]
    assert refreshed == ["/", "/clusters", "/clusters/prod-eu", "/receivers"]
    assert "Refresh" not in dict(filled.get("/?refresh=off").headers)
    assert 'href="/?q=x&amp;refresh=off"' in filled.html("/?q=x")


@pytest.mark.parametrize(("path", "name"), [*zip(DOCUMENTS, [one.__name__ for one in ALL[:-1]], strict=True)])
def test_every_document_is_as_the_published_schema_says(filled: FilledSite, path: str, name: str) -> None:
    filled.add_incident("i", 2, config=filled.settings.hash)
    filled.notified("i")
    filled.read("gc_time_ratio", 0.4, tm="t")
    filled.collector.delivery.add_receiver("slack")
    conforms(name, filled.json(path))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_client_that_has_the_document_gets_304(filled: FilledSite, path: str) -> None:
    filled.add_incident("i")
    first = filled.get(API + path)
    tag = dict(first.headers)["ETag"]
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = filled.get(API + path, If_None_Match=known)
        assert (again.status, again.body, dict(again.headers)["ETag"]) == (304, b"", tag)
    filled.add_incident("i2")
    filled.collector.delivery.add_receiver("new")
    changed = filled.get(API + path, If_None_Match='"x"')
    assert changed.status == 200


def test_the_schema_is_served_and_is_the_one_in_the_docs(filled: FilledSite) -> None:
    assert filled.json("/schema.json") == SCHEMA


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nix", 404),
        ("/incidents/", 404),
        ("/incidents", 404),
        ("/incidents/unknown", 404),
        ("/clusters/unknown", 404),
        ("/history/", 404),
        ("/?x=1", 400),
        ("/history?days=0", 400),
        ("/config?q=1", 400),
        ("//", 404),
    ],
)
def test_a_wrong_address_has_a_page_that_says_so(filled: FilledSite, path: str, status: int) -> None:
    found = filled.get(path)
    assert found.status == status
    assert dict(found.headers)["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("path", "status", "detail", "allowed"),
    [
        ("", 404, "there is no such path", None),
        ("/", 404, "there is no such path", None),
        ("/nix", 404, "there is no such path", None),
        ("/incidents/unknown", 404, "incident not found", None),
        ("/incidents/", 404, "there is no such path", None),
        ("/incidents?refresh=off", 400, "unknown parameter 'refresh'", "severity"),
        ("/incidents?kind=nix", 400, "kind has none of its values", "node_lost"),
        ("/history?state=closed", 400, "state has none of its values", "resolved"),
    ],
)
def test_a_wrong_request_to_the_api_gets_a_problem_document(
    filled: FilledSite, path: str, status: int, detail: str, allowed: str | None
) -> None:
    found = filled.get(API + path)
    document = msgspec.json.decode(found.body)
    assert (found.status, document["status"], document["detail"]) == (status, status, detail)
    assert dict(found.headers)["Content-Type"] == "application/problem+json"
    assert allowed is None or allowed in document["allowed"]
    conforms("Problem", document)


def test_while_topics_are_still_read_nothing_is_shown_as_if_it_were_all(filled: FilledSite) -> None:
    filled.incomplete = "17 records are unread"
    for path in (*PATHS[:-1], *(API + path for path in DOCUMENTS[:-1])):
        found = filled.get(path)
        assert (found.status, dict(found.headers)["Retry-After"]) == (503, "5"), path
        assert b"17 records are unread" in found.body
    assert filled.get("/receivers").status == filled.get("/api/v1/receivers").status == 200


def test_during_an_outage_the_last_state_is_shown_with_a_notice(filled: FilledSite) -> None:
    filled.add_incident("i")
    filled.problem = "Kafka cannot be read: KafkaTimeoutError"
    assert "This page may be outdated: Kafka cannot be read" in text_of(filled.html("/"))
    assert "Kafka cannot be read" in text_of(filled.html("/incidents/i"))
    assert filled.json("/incidents")["problem"] == filled.problem


def test_a_store_that_fails_is_answered_with_503_and_logged(filled: FilledSite) -> None:
    filled.store.close()
    with capture_logs() as lines:
        found = filled.get("/api/v1/incidents")
    assert (found.status, msgspec.json.decode(found.body)["detail"]) == (
        503,
        "incidents cannot be read: the incident store is not open",
    )
    assert [line["event"] for line in lines] == ["the status site cannot read its incidents"]


def test_a_defect_is_logged_and_shows_nothing_of_itself(filled: FilledSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filled.sources.collector, "delivery", None)
    with capture_logs() as lines:
        found = filled.get("/receivers")
    assert found.status == 500
    assert [line["event"] for line in lines] == ["the status site failed to answer"]
    assert b"NoneType" not in found.body


def test_a_foreign_host_gets_nothing(filled: FilledSite) -> None:
    filled.add_incident("i")
    for path in (*PATHS, *(API + path for path in DOCUMENTS)):
        found = filled.get(path, Host="evil.example")
        assert found.status == 421, path
        assert b"sinks.web.allowed_hosts" in found.body
        assert b"checkpoint" not in found.body.lower().replace(b"checkpoint overdue</option>", b"")


def test_a_login_guards_every_page_and_document_but_not_the_metrics(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken")
    site = FilledSite(tmp_path, token_file=token)
    site.add_incident("i")
    for path in (*PATHS, "/nix", "/?x=1", *(API + path for path in DOCUMENTS), "/api/v1/schema.json"):
        refused = site.get(path)
        assert (refused.status, dict(refused.headers)["WWW-Authenticate"]) == (401, 'Bearer realm="flinkwatch"')
        assert site.get(path, Authorization="Bearer t0ken").status != 401
    with pytest.raises(AssertionError):
        site.get("/metrics")
    token.unlink()
    with capture_logs():
        assert site.get("/", Authorization="Bearer t0ken").status == 503
    site.store.close()


def test_a_browser_is_asked_for_a_password_and_metrics_are_guarded_when_asked_for(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("pw")
    site = FilledSite(tmp_path, password_file=password, protect_metrics=True)
    for path in ("/", "/metrics", "/-/healthy", "/-/ready"):
        refused = site.get(path, Host="evil.example" if path != "/" else "localhost")
        assert (refused.status, dict(refused.headers)["WWW-Authenticate"]) == (401, 'Basic realm="flinkwatch"')
    site.store.close()


def test_links_have_the_path_of_the_external_address_whether_a_proxy_removes_it_or_not(tmp_path: Path) -> None:
    site = FilledSite(tmp_path, external_url="https://ops.example.org/flinkwatch")
    site.add_incident("i")
    for path in ("/", "/flinkwatch", "/flinkwatch/", "/flinkwatch/?q=i"):
        assert 'href="/flinkwatch/incidents/i"' in site.html(path), path
    assert site.get("/flinkwatchx").status == 404
    for target in re.findall(r'(?:href|action)="(/[^"?#]*)', site.html("/")):
        assert target.startswith("/flinkwatch")
        assert site.get(target).status == 200
    assert site.json("/incidents?limit=1")["next"] is None
    site.add_incident("j")
    assert site.json("/incidents?limit=1")["next"] == "/flinkwatch/api/v1/incidents?limit=1&offset=1"
    site.store.close()


def test_every_page_has_a_document_and_the_two_have_paths_that_match() -> None:
    assert [route.document for route in SITE_PATHS if route.path not in (route.document, "/")] == []


def test_no_more_than_two_pages_are_made_at_once_and_a_third_is_asked_to_come_again(
    filled: FilledSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delivery and scrapes share the process."""
    monkeypatch.setattr("sinks.web.site.status_site._WAIT_S", 0.05)
    busy, go = threading.Barrier(3, timeout=30), threading.Event()
    delivery = filled.collector.delivery

    def slow() -> Any:
        if not go.is_set():
            busy.wait()
            go.wait(30)
        return iter(())

    monkeypatch.setattr(delivery, "collect", slow)
    with ThreadPoolExecutor() as pool:
        two = [pool.submit(filled.get, "/receivers") for _ in range(2)]
        busy.wait()
        third = filled.get("/history")
        go.set()
        assert [one.result(30).status for one in two] == [200, 200]
    assert (third.status, dict(third.headers)["Retry-After"]) == (503, "5")
    assert filled.get("/history").status == 200


def test_requests_cannot_fill_the_log(filled: FilledSite) -> None:
    filled.store.close()
    with capture_logs() as lines:
        for _ in range(5):
            filled.get("/")
    assert len(lines) == 1
