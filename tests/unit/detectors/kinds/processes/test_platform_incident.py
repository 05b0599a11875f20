"""What several clusters share is reported once: which incidents belong together, who joins, and when it ends."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.events.vocabulary import flinkwatch_itself, match
from detectors.incident import Finding, Transition
from tests.unit.detectors.story import HOUR, MINUTE, SECOND, Story
from tests.unit.detectors.streams import START

KAFKA, OTHER, HOST = "broker/kafka-1:9092", "broker/kafka-2:9092", "host/node-17"
CLUSTERS = ("billing", "orders", "search")


class Shared(Story):
    """What the driver writes of the incidents of all clusters."""

    def wrote(self, line: str, at: int) -> "Shared":
        """A line as it is printed."""
        found = match.match_anywhere(line)
        assert found is not None
        return self.line(found[0], at, source="flinkwatch", **found[1])

    def fails(
        self,
        cluster: str,
        at: int,
        *resources: str,
        since: int | None = None,
        severity: str = "critical",
        name: str = "",
    ) -> "Shared":
        """A cluster's incident is open; without another time its first symptom was ten seconds before."""
        began = START + (at - 10 * SECOND if since is None else since)
        about = resources or (KAFKA,)
        return self.wrote(
            flinkwatch_itself.resource_fails(cluster, name or f"of-{cluster}", severity, began, about), at
        )

    def works(self, cluster: str, at: int, name: str = "") -> "Shared":
        """It has ended."""
        return self.wrote(flinkwatch_itself.resource_works(cluster, name or f"of-{cluster}"), at)

    def three(self, at: int = MINUTE) -> "Shared":
        """Three clusters within three seconds."""
        for n, cluster in enumerate(CLUSTERS):
            self.fails(cluster, at + n * SECOND)
        return self

    def reported(self, until: int = HOUR) -> list[Transition]:
        """The transitions of an hour."""
        return self.transitions(until)

    def changes(self, until: int = HOUR) -> list[str]:
        return [t.transition for t in self.reported(until)]


def shared() -> Shared:
    return Shared("platform_incident")


def finding(transition: Transition) -> Finding:
    (one,) = transition.findings
    return one


def listed(transition: Transition, key: str) -> list[str]:
    return sorted(finding(transition).entity[key].split(", "))


class TestNoPlatformIncident:
    def test_one_cluster_however_often_and_with_however_many_incidents(self) -> None:
        history = shared()
        for n in range(5):
            history.fails("billing", n * MINUTE, name=f"i{n}").fails("billing", n * MINUTE + SECOND, name=f"i{n}")
        assert history.changes() == []

    @pytest.mark.parametrize("other", [OTHER, "broker/kafka-1:9093", HOST, "host/kafka-1:9092"])
    def test_clusters_with_trouble_of_their_own_at_the_same_time(self, other: str) -> None:
        assert shared().fails("billing", MINUTE).fails("orders", MINUTE, other).changes() == []

    @pytest.mark.parametrize(("apart", "opened"), [(5 * MINUTE, True), (5 * MINUTE + 1, False)])
    def test_the_same_resource_at_another_time(self, apart: int, opened: bool) -> None:
        history = shared().fails("billing", MINUTE, since=0).fails("orders", MINUTE + apart, since=apart)
        assert (history.changes(MINUTE + apart + MINUTE) == ["opened"]) == opened

    def test_a_cluster_whose_trouble_ended_before_the_other_cluster_had_it(self) -> None:
        assert shared().fails("billing", 0).works("billing", 30 * SECOND).fails("orders", MINUTE).changes() == []

    def test_one_that_ended_while_it_was_waited_for_further_ones(self) -> None:
        history = shared().fails("billing", 0).fails("orders", SECOND).works("orders", 3 * SECOND)
        assert history.changes() == []

    def test_an_end_without_a_beginning(self) -> None:
        assert shared().works("billing", 0).works("orders", SECOND).changes() == []

    def test_a_name_without_a_resource(self) -> None:
        assert shared().fails("billing", 0, "").fails("orders", 0, KAFKA).changes() == []


def test_three_clusters_are_one_incident_that_names_them_and_the_resource() -> None:
    (opened,) = shared().three().reported(10 * MINUTE)
    assert (opened.cause, opened.severity) == ("platform_incident", "critical")
    assert opened.summary == "broker kafka-1:9092 fails under 3 clusters at once: billing, orders, search"
    assert listed(opened, "clusters") == [*CLUSTERS]
    assert listed(opened, "incidents") == ["of-billing", "of-orders", "of-search"]
    assert finding(opened).since == START + MINUTE - 10 * SECOND
    assert [e.text for e in opened.evidence] == [f"{cluster}: {KAFKA}" for cluster in CLUSTERS]


def test_it_is_reported_a_few_seconds_after_the_first_trouble_of_which_another_cluster_is_known() -> None:
    (opened,) = shared().three().reported(10 * MINUTE)
    # The line arrives 100 ms later, and deadlines are met on whole seconds.
    assert opened.at - START - MINUTE == 6 * SECOND


def test_it_is_as_severe_as_the_worst_of_its_incidents() -> None:
    history = shared().fails("billing", 0, severity="warning").fails("orders", SECOND, severity="warning")
    assert [t.severity for t in history.reported(MINUTE)] == ["warning"]
    worse = history.fails("billing", 2 * MINUTE, severity="critical")
    assert [t.severity for t in worse.reported(3 * MINUTE)] == ["warning", "critical"]


def test_a_cluster_that_notices_it_much_later_joins_and_opens_nothing() -> None:
    history = shared().three().fails("reports", 40 * MINUTE, since=39 * MINUTE)
    for at in range(2 * MINUTE, 40 * MINUTE, MINUTE):
        history.fails("billing", at, since=MINUTE - 10 * SECOND)
    found = history.reported(45 * MINUTE)
    assert {t.incident for t in found} == {found[0].incident}
    assert "reports" in listed(found[-1], "clusters")


def test_a_cluster_that_shares_another_broker_with_one_of_them_joins() -> None:
    history = shared().fails("billing", 0).fails("orders", 0, KAFKA, OTHER).fails("search", SECOND, OTHER)
    (opened,) = history.reported(MINUTE)
    assert listed(opened, "resources") == [KAFKA, OTHER]
    assert opened.summary.startswith("broker kafka-1:9092 (and 1 more) fails under 3 clusters")


def test_two_resources_are_two_incidents() -> None:
    history = shared().three().fails("a", MINUTE, HOST).fails("b", MINUTE, HOST)
    assert sorted(finding(t).subject for t in history.reported(10 * MINUTE)) == [KAFKA, HOST]


def test_it_ends_with_the_last_of_its_incidents_and_not_before() -> None:
    history = shared().three().works("billing", 2 * MINUTE).works("orders", 3 * MINUTE)
    assert history.changes(10 * MINUTE) == ["opened"]
    found = history.works("search", 4 * MINUTE).reported(10 * MINUTE)
    assert [t.transition for t in found] == ["opened", "resolved"]
    assert found[-1].reason == "it has ended in every cluster"


def test_lines_that_come_again_change_nothing() -> None:
    once = shared().three().reported(10 * MINUTE)
    history = shared().three()
    for at in range(2 * MINUTE, 9 * MINUTE, MINUTE):
        for n, cluster in enumerate(CLUSTERS):
            history.fails(cluster, at, since=MINUTE + n * SECOND - 10 * SECOND)
    assert [(t.transition, t.incident, t.summary) for t in history.reported(10 * MINUTE)] == [
        (t.transition, t.incident, t.summary) for t in once
    ]


def test_as_long_as_its_lines_are_repeated_it_is_not_stale() -> None:
    history = shared().three()
    for at in range(2 * MINUTE, 60 * MINUTE, MINUTE):
        history.fails("billing", at, since=MINUTE - 10 * SECOND)
    assert history.changes(HOUR) == ["opened"]


def test_a_broker_that_comes_and_goes_is_one_incident() -> None:
    history = shared().three()
    for cluster in CLUSTERS:
        history.works(cluster, 2 * MINUTE)
    history.fails("orders", 5 * MINUTE, name="again").works("orders", 6 * MINUTE, name="again")
    found = history.reported(20 * MINUTE)
    assert {t.incident for t in found} == {found[0].incident}
    assert [t.transition for t in found] == ["opened", "resolved", "updated", "resolved"]


def test_one_cluster_alone_long_after_its_end_is_not_part_of_it() -> None:
    history = shared().three()
    for cluster in CLUSTERS:
        history.works(cluster, 2 * MINUTE)
    assert history.fails("orders", 8 * MINUTE, name="again").changes(20 * MINUTE) == ["opened", "resolved"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_in_which_clusters_report_within_the_delay_changes_neither_incident_nor_members(
    order: tuple[int, ...],
) -> None:
    history = shared()
    for place, n in enumerate(order):
        history.fails(CLUSTERS[n], MINUTE + place * SECOND, since=n * SECOND)
    (opened,) = history.reported(10 * MINUTE)
    (in_order,) = shared().three().reported(10 * MINUTE)
    assert listed(opened, "incidents") == listed(in_order, "incidents")
    assert finding(opened).since == START


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4_800), min_size=6, max_size=6))
def test_any_arrival_within_the_delay_gives_the_same_incident(late: list[int]) -> None:
    """Which clusters come first, second and third, and how long after each other, is chance."""
    history = shared()
    for n, ms in enumerate(late):
        history.fails(f"c{n}", MINUTE + ms, since=n * SECOND)
    (opened,) = history.reported(10 * MINUTE)
    others = shared()
    for n in range(6):
        others.fails(f"c{n}", MINUTE, since=n * SECOND)
    (together,) = others.reported(10 * MINUTE)
    assert opened.incident == together.incident
    assert listed(opened, "incidents") == listed(together, "incidents")
    assert opened.summary == together.summary


def test_names_of_any_kind_arrive_as_they_are() -> None:
    odd = "search, eu/%41 \N{SNOWMAN}"
    (opened,) = shared().fails(odd, 0).fails("orders", 0).reported(MINUTE)
    assert odd in opened.summary


def test_a_thousand_incidents_are_kept_within_bounds_and_end() -> None:
    history = shared()
    for n in range(1_100):
        history.fails(f"c{n}", n * 10, name=f"i{n}", since=0)
    for n in range(1_100):
        history.works(f"c{n}", 10 * MINUTE + n, name=f"i{n}")
    found = history.reported(HOUR)
    assert {t.incident for t in found} == {found[0].incident}
    assert found[-1].transition == "resolved"
    assert len(listed(found[-1], "clusters")) == 200
