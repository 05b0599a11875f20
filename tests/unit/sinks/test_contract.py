"""What receivers share: the counts of a digest, what a message reports, quiet hours, words for kinds and times."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from detectors.incident import LateArrival, Silenced
from sinks.contract.digest import folded, summarise
from sinks.contract.notified import notified_state
from sinks.contract.receiver import Receiver
from sinks.contract.sink import Traits
from sinks.contract.wording import clock_time, kind_words, late_words, moment, runbook_url, silence_words, with_words
from tests.unit.sinks.samples import OPENED_AT, late_acks_finding, make_transition
from tests.unit.sinks.scripted import ScriptedSink

ONE = folded(make_transition(), 1)
SILENCE = Silenced("a1", OPENED_AT, "ann", "backfill")


class TestDigest:
    @pytest.mark.parametrize(
        ("changes", "job", "since"),
        [
            ({"job_name": "orders", "job_id": "a1", "at": 7}, "orders", OPENED_AT),
            ({"job_name": "", "job_id": "a1"}, "a1", OPENED_AT),
            ({"job_name": "orders", "opened_at": 0, "at": 7}, "orders", 7),
        ],
    )
    def test_an_incident_is_counted_by_its_job_and_since_it_opened(
        self, changes: dict[str, object], job: str, since: int
    ) -> None:
        one = folded(make_transition(**changes), 1)
        assert (one.job, one.since, one.resolved) == (job, since, False)

    def test_the_largest_eight_groups_and_the_ten_worst_are_listed(self) -> None:
        named = [(f"i{n:02}", replace(ONE, kind=f"k{n}", cluster=f"c{n}")) for n in range(12)]
        summary = summarise(1, [*named, ("more", replace(ONE, kind="k11", cluster="c11"))])
        assert (summary.open, len(summary.kinds), len(summary.clusters), len(summary.worst)) == (13, 8, 8, 10)
        assert (summary.kinds[0], summary.clusters[0]) == (("k11", 2), ("c11", 2))

    def test_the_worst_are_the_most_severe_and_then_the_oldest(self) -> None:
        named = [
            ("b", ONE),
            ("a", ONE),
            ("older", replace(ONE, since=1)),
            ("critical", replace(ONE, severity="critical")),
            ("info", replace(ONE, severity="info", since=0)),
        ]
        assert [name for name, _ in summarise(1, named).worst] == ["critical", "older", "a", "b", "info"]

    def test_every_incident_is_counted_once(self) -> None:
        named = [
            ("open", ONE),
            ("resolved", replace(ONE, resolved=True)),
            ("resolved alone", replace(ONE, resolved=True, has_own_message=True)),
            ("alone", replace(ONE, has_own_message=True)),
        ]
        summary = summarise(1, named, silenced=3)
        counts = summary.total, summary.open, summary.resolved, summary.with_own_message, summary.silenced
        assert counts == (7, 1, 2, 1, 3)


class TestNotified:
    def test_findings_are_those_listed_those_beyond_and_merged_incidents(self) -> None:
        assert notified_state(make_transition()).findings == 1
        many = make_transition(findings=[late_acks_finding()] * 2, more=5, merged=["other"])
        assert notified_state(many).findings == 8
        assert notified_state(make_transition(more=-1)).findings == 1

    @pytest.mark.parametrize(
        ("changes", "same"),
        [
            ({}, True),
            ({"change": "updated"}, True),
            ({"replied_at": 5, "charted_at": 6}, True),
            ({"change": "resolved"}, False),
            ({"findings": 2}, False),
            ({"severity": "info"}, False),
            ({"silence": "a1"}, False),
        ],
        ids=str,
    )
    def test_a_change_is_news_unless_only_numbers_differ(self, changes: dict[str, object], same: bool) -> None:
        before = notified_state(make_transition())
        assert before.same_but_for_numbers(replace(before, **changes)) == same
        assert replace(before, **changes).same_but_for_numbers(before) == same

    def test_resolved_twice_is_no_news(self) -> None:
        over = notified_state(make_transition(transition="resolved"))
        assert over.same_but_for_numbers(over)


@pytest.mark.parametrize(("until_s", "quiet_s"), [(None, 0), (1_600, 600), (1_000, 0), (400, 0)])
def test_quiet_hours_hold_a_notification_until_they_end(until_s: int | None, quiet_s: float) -> None:
    asked: list[datetime] = []

    def quiet_until(_: object, now: datetime) -> datetime | None:
        asked.append(now)
        return None if until_s is None else datetime.fromtimestamp(until_s, UTC)

    receiver = Receiver(name="r", sink=ScriptedSink(Traits(), lambda: 0.0), quiet_until=quiet_until)
    assert receiver.quiet_s(make_transition(), 1_000) == quiet_s
    assert asked == [datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)]


@pytest.mark.parametrize("base", ["https://a/b", "https://a/b/", "https://a/b/{kind}"])
def test_a_runbook_is_behind_the_address_or_where_it_has_the_kind(base: str) -> None:
    assert runbook_url(base, "node_lost") == "https://a/b/node_lost"


class TestSilence:
    def test_it_is_named_while_it_lasts_and_after_it_until_the_incident_resolves(self) -> None:
        assert silence_words(make_transition()) == ""
        assert silence_words(make_transition(silence=SILENCE)) == (
            "Silenced until 2026-03-01 14:03:00 UTC by ann: backfill"
        )
        ended = "The silence by ann ended, the incident has been open since 2026-03-01 14:03:00 UTC: backfill"
        assert silence_words(make_transition(silenced_before=SILENCE, at=7)) == ended
        assert silence_words(make_transition(silenced_before=SILENCE, opened_at=0)) == ended
        assert silence_words(make_transition(silence=SILENCE, transition="resolved")) == ""


class TestLate:
    def test_it_is_said_when_lines_were_written_and_read(self) -> None:
        at = 1_772_373_780_000  # 14:03:00
        assert late_words(make_transition()) == ""
        late = LateArrival(at - 2 * 3_600_000 - 118_000, at - 2 * 3_600_000, at)
        assert (
            late_words(make_transition(late=late))
            == "Arrived 2 h late: written 12:01:02 to 12:03:00, read 14:03:00 UTC"
        )
        once = LateArrival(at - 90_000, at - 90_000, at)
        assert late_words(make_transition(late=once)) == "Arrived 90 s late: written 14:01:30, read 14:03:00 UTC"

    def test_the_day_is_said_if_it_is_another_one(self) -> None:
        at = 1_772_330_400_000
        late = LateArrival(at - 3 * 3_600_000, at - 3 * 3_600_000, at)
        assert late_words(make_transition(late=late)).count("2026-0") == 2


class TestWords:
    def test_kinds_are_read_as_words(self) -> None:
        assert kind_words("taskmanager_lost") == "TaskManager lost"
        assert kind_words("gc_pressure") == "GC pressure"
        assert with_words("restart_loop recurred after taskmanager_lost") == (
            "Restart loop recurred after TaskManager lost"
        )
        assert with_words("after restart_loop") == "after restart loop"
        assert with_words("no kind") == "no kind"

    def test_times_are_utc_and_have_a_date_where_the_day_is_another(self) -> None:
        assert moment(OPENED_AT) == "2026-03-01 14:03:00 UTC"
        assert clock_time(OPENED_AT, OPENED_AT + 3_600_000) == "14:03:00"
        assert clock_time(OPENED_AT, OPENED_AT + 86_400_000) == "2026-03-01 14:03:00"

    def test_a_time_that_no_calendar_holds_is_its_number(self) -> None:
        assert moment(1 << 62) == f"{1 << 62} ms"
        assert clock_time(1 << 62, OPENED_AT) == f"{1 << 62} ms"
