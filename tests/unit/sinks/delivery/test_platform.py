"""Several clusters' incidents about one resource are one message, and none of them is lost by that."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from detectors.incident import Reading, Silenced, Transition
from sinks.routing import Route, Routing
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.detectors.incidents.test_shared_resources import about, finding
from tests.unit.sinks.delivery.test_delivery import World, metric
from tests.unit.sinks.samples import make_transition
from tests.unit.sinks.scripted import Bench

WAIT_S = 20.0
CLUSTERS = ("billing", "orders", "search")


def child(cluster: str, **changes: Any) -> Transition:
    """A cluster's incident about the broker."""
    return about(**{"incident": f"of-{cluster}", "cluster": cluster} | changes)


def whole(*clusters: str, **changes: Any) -> Transition:
    """The incident of these clusters."""
    listed = clusters or CLUSTERS
    entity = {
        "clusters": ", ".join(listed),
        "incidents": ", ".join(f"of-{c}" for c in listed),
        "resources": "broker/kafka-1:9092",
    }
    fields: dict[str, Any] = {
        "incident": "whole",
        "cluster": "flinkwatch",
        "cause": "platform_incident",
        "severity": "critical",
        "findings": [finding("platform_incident", **entity)],
        "summary": "broker kafka-1:9092 fails under 3 clusters at once: billing, orders, search",
        "job_id": "",
        "job_name": "",
    }
    return make_transition(**fields | changes)


class Fleet(World):
    """A deliverer that also reads the board, as the process does."""

    def say(self, *transitions: Transition, partition: int = 0) -> None:
        super().say(*transitions, partition=partition)
        for one in transitions:
            self.board.show_incident(one.incident, one)

    def titles(self) -> list[str]:
        return [parent.blocks[0]["text"]["text"] for parent in self.slack.parents()]


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as server:
        yield server


@pytest.fixture
def fleet(slack: SlackServer) -> Fleet:
    return Fleet(slack, now=time.time())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def shown(bench: Bench, *transitions: Transition) -> None:
    """The board has them, and delivery reads them."""
    for one in transitions:
        bench.board.show_incident(one.incident, one)
        bench.say(one)


def sent(bench: Bench) -> list[str]:
    return [incident for _, incident, _, _ in bench.sink.sent]


def test_three_clusters_with_one_broker_away_are_one_message_in_slack(fleet: Fleet) -> None:
    fleet.say(child("billing"), child("orders"))
    fleet.settle(5)
    assert fleet.titles() == []
    fleet.say(whole("billing", "orders"), child("search"), partition=1)
    fleet.settle()
    fleet.say(whole(seq=2, transition="updated"), partition=1)
    fleet.settle(WAIT_S)
    assert fleet.titles() == ["🔴 Critical: Platform incident · 3 clusters"]
    suppressed = {"integration": "slack", "reason": "platform incident"}
    assert metric(fleet.board, "flinkwatch_notifications_suppressed_total", **suppressed) == 3
    for cluster in CLUSTERS:
        fleet.say(child(cluster, seq=2, transition="resolved"))
    fleet.settle(60)
    fleet.say(whole(seq=3, transition="resolved", ended_at=make_transition().at + 1000), partition=1)
    fleet.settle(60)
    (title,) = fleet.titles()
    assert title.startswith("✅ Resolved after")
    (message,) = fleet.slack.parents()
    assert all(f"`{cluster}`" in str(message.blocks) for cluster in CLUSTERS)


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_restart_in_the_middle_neither_loses_nor_doubles_the_message(fleet: Fleet, at: int) -> None:
    steps = [[child("billing")], [child("orders")], [whole("billing", "orders")], [child("search")]]
    for n, step in enumerate(steps):
        fleet.say(*step)
        fleet.settle(1)
        if n == at:
            fleet.start()
    fleet.settle(WAIT_S)
    fleet.settle(WAIT_S)
    assert fleet.titles() == ["🔴 Critical: Platform incident · 2 clusters"]


def test_a_message_that_exists_is_edited_with_the_next_change_and_names_the_platform_incident(fleet: Fleet) -> None:
    fleet.say(child("billing"))
    fleet.settle(WAIT_S)
    assert len(fleet.titles()) == 1
    fleet.say(child("orders"), whole("billing", "orders"))
    fleet.settle(WAIT_S)
    fleet.say(child("billing", seq=2, transition="updated"))
    fleet.settle(WAIT_S)
    assert sorted(title[0] for title in fleet.titles()) == ["🔗", "🔴"]
    (first, _) = fleet.slack.parents()
    assert "`whole`" in str(first.blocks)


def test_one_cluster_waits_only_if_there_may_be_others(bench: Bench) -> None:
    for n, cluster in enumerate(("billing", "flinkwatch")):
        bench.board.show_reading(f"{n}", Reading(name="lag", labels={"cluster": cluster}, value=1.0, at=0))
    shown(bench, child("billing"))
    bench.settle()
    assert sent(bench) == ["of-billing"]
    bench.board.show_reading("x", Reading(name="lag", labels={"cluster": "orders"}, value=1.0, at=0))
    shown(bench, child("billing", incident="next"))
    bench.settle(WAIT_S - 0.1)
    assert sent(bench) == ["of-billing"]
    bench.settle(0.2)
    assert sent(bench) == ["of-billing", "next"]


def test_nothing_else_waits(bench: Bench) -> None:
    bench.say(make_transition())
    bench.settle()
    assert len(sent(bench)) == 1


def test_an_old_record_waits_from_the_start_on_until_the_board_can_be_read(bench: Bench) -> None:
    bench.dispatcher.accept(child("billing"), 0, 0, bench.now_ms() - 600_000)
    bench.settle(WAIT_S - 0.1)
    assert sent(bench) == []
    bench.settle(0.2)
    assert sent(bench) == ["of-billing"]
    bench.dispatcher.accept(child("orders"), 0, 1, bench.now_ms() - 600_000)
    bench.settle()
    assert sent(bench) == ["of-billing", "of-orders"]


@pytest.mark.parametrize(
    "changes",
    [
        {"silence": Silenced("a1", 1 << 42, "ann", "maintenance")},
        {"transition": "resolved"},
        {"findings": [finding("platform_incident", resources="broker/kafka-9:9092", incidents="x")]},
    ],
)
def test_without_the_platform_incident_each_cluster_is_reported(bench: Bench, changes: dict[str, Any]) -> None:
    one = whole(**changes)
    bench.board.show_incident("whole", one)
    shown(bench, child("billing"), child("orders"))
    bench.settle(WAIT_S)
    assert sorted(sent(bench)) == ["of-billing", "of-orders"]


def test_a_receiver_that_does_not_get_it_gets_the_clusters_own() -> None:
    bench = Bench(is_target=lambda t: t.cause != "platform_incident")
    shown(bench, whole(), child("billing"), child("orders"))
    bench.settle(WAIT_S)
    assert sorted(sent(bench)) == ["of-billing", "of-orders"]


def test_an_incident_whose_cause_is_another_one_now_is_reported(bench: Bench) -> None:
    shown(bench, whole(), child("billing"))
    bench.settle(WAIT_S)
    assert sent(bench) == ["whole"]
    shown(bench, child("billing", seq=2, transition="updated", kind="job_failed", entity={}))
    bench.settle()
    assert sent(bench) == ["whole", "of-billing"]


def test_one_that_is_open_again_after_the_platform_incident_is_reported(bench: Bench) -> None:
    shown(bench, whole(), child("billing"))
    bench.settle(WAIT_S)
    shown(bench, child("billing", seq=2, transition="resolved"), whole(seq=2, transition="resolved"))
    bench.settle(WAIT_S)
    shown(bench, child("billing", seq=3, transition="updated"))
    bench.settle(WAIT_S)
    assert sent(bench) == ["whole", "whole", "of-billing"]


def test_a_route_matches_it_by_any_of_its_clusters() -> None:
    routes = (Route(cluster="ord*", to=("a",)), Route(cluster="flinkwatch", to=("b",)))
    routing = Routing(routes=routes, default=("c",))
    assert routing.targets(whole(), ["a", "b", "c"]) == ("a",)
    assert routing.targets(whole("billing", "search"), ["a", "b", "c"]) == ("c",)
    assert routing.targets(child("flinkwatch"), ["a", "b", "c"]) == ("b",)


def test_prometheus_has_it_like_any_other_and_the_clusters_own_too(bench: Bench) -> None:
    shown(bench, child("billing"), child("orders"), whole("billing", "orders"))
    of_platform = {"kind": "platform_incident", "severity": "critical", "cluster": "flinkwatch", "job": ""}
    assert metric(bench.board, "flinkwatch_incident_active", **of_platform) == 1
    assert metric(bench.board, "flinkwatch_incident_open", incident="whole", cluster="flinkwatch") == 3
    assert metric(bench.board, "flinkwatch_incident_open", incident="of-billing", cluster="billing") == 3
    shown(bench, whole(seq=2, transition="resolved"))
    assert metric(bench.board, "flinkwatch_incident_active", **of_platform) is None
    assert metric(bench.board, "flinkwatch_incident_open", incident="of-billing", cluster="billing") == 3
