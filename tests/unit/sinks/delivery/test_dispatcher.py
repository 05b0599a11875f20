"""What becomes of a transition in one receiver, and what is remembered and forgotten on the way."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from detectors.incident import Silenced, Transition
from sinks.contract.outcome import Found, Refused, RetryAfter, Unknown
from sinks.contract.sink import Traits
from sinks.delivery.notification_log import Entry
from tests.unit.sinks.delivery.test_delivery import metric
from tests.unit.sinks.samples import make_transition
from tests.unit.sinks.scripted import EDITS, Bench, ResendingScriptedSink

DAY_S, HOUR_MS, DAY_MS = 86_400, 3_600_000, 86_400_000
OPENED = make_transition()
UPDATED = make_transition(seq=2, transition="updated")
RESOLVED = make_transition(seq=3, transition="resolved")
SILENCE = Silenced("a1", 1 << 42, "ann", "backfill")
TOO_LONG = Refused("msg_too_long", "shorten it", "message", "clientError")
AWAY = RetryAfter(None, "away", "serverError")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.fixture
def bench() -> Bench:
    return Bench()


def sent(bench: Bench) -> list[tuple[str, int, str]]:
    return [(incident, seq, ts) for _, incident, seq, ts in bench.sink.sent]


def kept(bench: Bench, incident: str, age_ms: int, **fields: Any) -> None:
    """The log has had an entry for so long."""
    entry = Entry(incident=incident, seq=1, state="sent", at=bench.now_ms() - age_ms, channel="C1", ts="9.9")
    bench.log.set(0, incident, replace(entry, **fields))


class TestForgetting:
    def test_what_ended_two_weeks_ago_is_forgotten_at_the_start_and_nothing_else(self, bench: Bench) -> None:
        for name, age, fields in (
            ("over", 14 * DAY_MS + 1, {"resolved": True}),
            ("lately", 14 * DAY_MS - 60_000, {"resolved": True}),
            ("open", 30 * DAY_MS, {}),
            ("kept", 30 * DAY_MS, {"resolved": True, "state": "undelivered"}),
        ):
            kept(bench, name, age, **fields)
        bench.dispatcher.take_over(1)
        assert [entry.incident for _, entry in bench.log.entries()] == ["lately", "open", "kept"]

    def test_it_is_looked_for_once_a_day(self, bench: Bench) -> None:
        bench.settle()
        kept(bench, "over", 14 * DAY_MS - HOUR_MS, resolved=True)
        kept(bench, "lately", HOUR_MS, resolved=True)
        bench.settle(DAY_S - 1)
        assert bench.entry("over") is not None
        bench.settle(1)
        assert bench.entry("over") is None
        assert bench.entry("lately") is not None

    @pytest.mark.parametrize(("age_ms", "told"), [(14 * DAY_MS + 1, False), (14 * DAY_MS - 1, True), (None, True)])
    def test_an_end_of_two_weeks_ago_is_not_told(self, age_ms: int | None, told: bool) -> None:
        bench = Bench(replace(EDITS, notifies_already_resolved=True))
        bench.dispatcher.accept(RESOLVED, 0, 0, 0 if age_ms is None else bench.now_ms() - age_ms)
        bench.settle()
        assert (len(bench.sink.sent) == 1) == told

    def test_an_end_of_two_weeks_ago_takes_what_waits_with_it(self, bench: Bench) -> None:
        bench.sink.answers.append(AWAY)
        bench.say(OPENED)
        bench.settle()
        bench.dispatcher.accept(RESOLVED, 0, 1, bench.now_ms() - 15 * DAY_MS)
        assert len(bench.dispatcher.outbox) == 0

    def test_a_message_that_stands_shows_the_end_however_late_that_is_read(self, bench: Bench) -> None:
        bench.say(OPENED)
        bench.settle()
        bench.dispatcher.accept(RESOLVED, 0, 1, bench.now_ms() - 15 * DAY_MS)
        bench.settle()
        assert [seq for _, seq, _ in sent(bench)] == [1, 3]

    def test_what_waits_unsent_is_told_although_it_has_ended(self) -> None:
        bench = Bench(replace(EDITS, notifies_already_resolved=True))
        bench.sink.answers.append(AWAY)
        bench.say(OPENED)
        bench.settle()
        bench.say(RESOLVED)
        bench.settle(1)
        assert [seq for _, seq, _ in sent(bench)] == [1, 3]

    def test_an_old_opening_is_told(self, bench: Bench) -> None:
        bench.dispatcher.accept(OPENED, 0, 0, bench.now_ms() - 30 * DAY_MS)
        bench.settle()
        assert len(bench.sink.sent) == 1

    def test_a_record_that_was_deleted_is_forgotten_and_not_sent(self, bench: Bench) -> None:
        bench.say(OPENED)
        bench.settle()
        bench.say(UPDATED)
        bench.dispatcher.forget(OPENED.incident, 0)
        bench.dispatcher.forget("never heard of", 0)
        bench.settle()
        assert (len(bench.sink.sent), bench.entry(OPENED.incident)) == (1, None)
        assert list(dict(bench.kafka.read_notification_log(0))) == [f"slack/{OPENED.incident}".encode()]

    def test_a_partition_that_goes_takes_what_waits_and_what_is_known_of_it_along(self) -> None:
        bench = Bench(sink=ResendingScriptedSink)
        bench.settle()
        bench.sink.answers.append(Unknown("lost", "other"))
        bench.say(OPENED)
        bench.say(make_transition(incident="other"), partition=1)
        bench.settle()
        bench.dispatcher.release(0)
        bench.settle(60)
        assert bench.sink.released == [OPENED.incident]
        assert (bench.entry(OPENED.incident), bench.entry("other", 1) is None) == (None, False)
        assert len(bench.sink.sent) == 2


class TestHistory:
    """Records from before the log: what stands in the channel is changed, what is old is told in a digest."""

    @pytest.fixture
    def bench(self) -> Bench:
        return self.begun(EDITS)

    def begun(self, traits: Traits) -> Bench:
        bench = Bench(traits)
        bench.dispatcher.bootstrap.start_log(0, 5, bench.now_ms())
        bench.sink.stands = {OPENED.incident: Found("C1", "7.7", 1)}
        assert bench.dispatcher.bootstrap.read_channel(bench.now_ms()) is None
        return bench

    def accept(self, bench: Bench, one: Transition, offset: int, age_ms: int = 0) -> None:
        bench.dispatcher.accept(one, 0, offset, bench.now_ms() - age_ms)

    def test_a_message_that_stands_is_changed_and_not_repeated(self, bench: Bench) -> None:
        self.accept(bench, OPENED, 0)
        bench.settle()
        assert sent(bench) == []
        self.accept(bench, UPDATED, 1)
        bench.settle()
        assert sent(bench) == [(OPENED.incident, 2, "7.7")]

    @pytest.mark.parametrize(("asked", "waits"), [(20.0, 20.0), (None, 15.0)])
    def test_a_channel_that_cannot_be_read_is_tried_eight_times(self, asked: float | None, waits: float) -> None:
        bench = Bench()
        bench.sink.stands = RetryAfter(asked, "away", "serverError")
        delays = [bench.dispatcher.bootstrap.read_channel(bench.now_ms()) for _ in range(9)]
        assert delays == [waits] * 7 + [None, None]
        assert bench.sink.looked == [("C1", "", bench.now_ms() - 7 * DAY_MS)] * 8

    @pytest.mark.parametrize("receiver", [{"channel": ""}, {"traits": replace(EDITS, can_look_up=False)}])
    def test_where_nothing_can_be_looked_up_nothing_is(self, receiver: dict[str, Any]) -> None:
        bench = Bench(**receiver)
        assert bench.dispatcher.bootstrap.read_channel(bench.now_ms()) is None
        assert bench.sink.looked == []

    def test_what_has_a_damaged_entry_is_looked_up_a_week_back_before_it_is_sent(self) -> None:
        bench = Bench()
        bench.dispatcher.bootstrap.mark_unknown(0, ["~start", OPENED.incident], bench.now_ms())
        assert [entry.incident for _, entry in bench.log.entries()] == [OPENED.incident]
        bench.sink.finds.append(Found("C1", "7.7", 1))
        bench.say(UPDATED)
        bench.settle()
        ((channel, incident, since),) = bench.sink.looked
        assert (channel, incident, since <= bench.now_ms() - 7 * DAY_MS) == ("C1", OPENED.incident, True)
        assert sent(bench) == [(OPENED.incident, 2, "7.7")]

    def test_the_end_of_a_message_that_stands_is_shown(self, bench: Bench) -> None:
        self.accept(bench, OPENED, 0)
        self.accept(bench, RESOLVED, 1)
        bench.settle()
        assert sent(bench) == [(OPENED.incident, 3, "7.7")]

    def test_a_change_from_before_the_log_is_told_like_its_beginning(self, bench: Bench) -> None:
        self.accept(bench, make_transition(incident="other"), 0)
        self.accept(bench, make_transition(incident="other", seq=2, transition="updated"), 1)
        bench.settle()
        assert sent(bench) == [("other", 2, "")]

    def test_where_there_are_no_digests_each_is_told(self) -> None:
        bench = self.begun(replace(EDITS, digests=False))
        self.accept(bench, make_transition(incident="other"), 0, DAY_MS)
        bench.settle()
        assert sent(bench) == [("other", 1, "")]

    @pytest.mark.parametrize(
        ("age_ms", "own"), [(0, True), (HOUR_MS - 1, True), (HOUR_MS + 1, False), (30 * DAY_MS, False)]
    )
    def test_what_is_open_since_long_is_told_in_a_digest(self, bench: Bench, age_ms: int, own: bool) -> None:
        self.accept(bench, make_transition(incident="other"), 4, age_ms)
        bench.settle()
        ((incident, *_),) = sent(bench)
        assert (incident == "other") == own
        entry = bench.entry("other")
        assert entry is not None
        assert (None if entry.folded is None else entry.folded.backlog) == (None if own else True)

    @pytest.mark.parametrize(("offset", "told"), [(4, 0), (5, 1)])
    def test_an_end_from_before_the_log_is_not_told(self, offset: int, told: int) -> None:
        bench = self.begun(replace(EDITS, notifies_already_resolved=True))
        self.accept(bench, make_transition(incident="other", transition="resolved"), offset)
        bench.settle()
        assert len(bench.sink.sent) == told

    def test_a_message_that_shows_an_older_change_is_edited(self, bench: Bench) -> None:
        self.accept(bench, UPDATED, 1)
        bench.settle()
        assert sent(bench) == [(OPENED.incident, 2, "7.7")]

    @pytest.mark.parametrize("notifies_already_resolved", [True, False])
    def test_what_began_and_ended_before_the_log_is_not_told(self, notifies_already_resolved: bool) -> None:
        bench = self.begun(replace(EDITS, notifies_already_resolved=notifies_already_resolved))
        self.accept(bench, make_transition(incident="other"), 0)
        self.accept(bench, make_transition(incident="other", seq=2, transition="resolved"), 1)
        bench.settle()
        assert (sent(bench), len(bench.dispatcher.outbox)) == ([], 0)

    @pytest.mark.parametrize(("age_ms", "told"), [(1_799_000, 1), (1_801_000, 0)])
    def test_who_keeps_no_log_hears_of_ends_of_the_last_half_hour(self, age_ms: int, told: int) -> None:
        bench = self.begun(Traits(keeps_log=False))
        self.accept(bench, make_transition(incident="other", transition="resolved"), 0, age_ms)
        bench.settle()
        assert len(bench.sink.sent) == told

    def test_what_is_not_told_now_is_not_told_in_a_digest_either(self, bench: Bench) -> None:
        bench = self.begun(replace(EDITS, min_severity="critical"))
        self.accept(bench, make_transition(incident="other"), 0, DAY_MS)
        bench.settle()
        assert (sent(bench), bench.entry("other")) == ([], None)

    @pytest.mark.parametrize("offset", [1, 5])
    def test_a_message_that_the_log_names_is_edited_although_its_incident_is_older_than_the_log(
        self, bench: Bench, offset: int
    ) -> None:
        kept(bench, OPENED.incident, 0)
        self.accept(bench, replace(UPDATED, opened_at=bench.now_ms() - DAY_MS), offset, DAY_MS)
        bench.settle()
        assert sent(bench) == [(OPENED.incident, 2, "9.9")]
        assert [incident for _, incident, _ in bench.sink.looked] == [""]

    @pytest.mark.parametrize(
        ("seq", "opened_before_ms", "changes", "looked_up"),
        [
            (2, 1, {}, True),
            (2, 0, {}, False),
            (1, 1, {}, False),
            (2, 1, {"silenced_before": SILENCE}, False),
        ],
        ids=["older", "younger", "opening", "silenced before"],
    )
    def test_a_change_of_an_incident_that_is_older_than_the_log_and_not_in_it_is_looked_up_before_it_is_sent(
        self, bench: Bench, seq: int, opened_before_ms: int, changes: dict[str, Any], looked_up: bool
    ) -> None:
        one = make_transition(incident="other", seq=seq, opened_at=bench.now_ms() - opened_before_ms, **changes)
        self.accept(bench, one, 5)
        bench.settle()
        assert (bench.sink.looked[-1][1] == "other") == looked_up
        assert sent(bench) == [("other", seq, "")]

    @pytest.mark.parametrize("can_look_up", [True, False])
    def test_quiet_hours_hold_an_incident_that_is_older_than_the_log_unless_its_message_can_be_looked_up(
        self, can_look_up: bool
    ) -> None:
        quiet = {"quiet_until": lambda _, now: now + timedelta(minutes=10)}
        bench = Bench(replace(EDITS, can_look_up=can_look_up), **quiet)
        bench.dispatcher.bootstrap.start_log(0, 5, bench.now_ms())
        self.accept(bench, replace(UPDATED, opened_at=bench.now_ms() - DAY_MS), 5)
        bench.settle()
        assert (len(bench.sink.looked), len(bench.dispatcher.outbox)) == ((1, 0) if can_look_up else (0, 1))

    def test_a_record_from_before_the_log_is_not_looked_up_by_itself(self, bench: Bench) -> None:
        self.accept(bench, make_transition(incident="other", seq=2, opened_at=bench.now_ms() - DAY_MS), 1)
        bench.settle()
        assert [incident for _, incident, _ in bench.sink.looked] == [""]
        assert sent(bench) == [("other", 2, "")]

    def test_what_is_older_than_the_log_and_for_another_receiver_is_left_alone(self) -> None:
        bench = Bench(is_target=lambda _: False)
        bench.dispatcher.bootstrap.start_log(0, 5, bench.now_ms())
        self.accept(bench, replace(UPDATED, opened_at=bench.now_ms() - DAY_MS), 5)
        bench.settle()
        assert (sent(bench), bench.sink.looked) == ([], [])

    def test_what_waits_already_is_not_looked_up(self, bench: Bench) -> None:
        bench.sink.answers.append(AWAY)
        old = bench.now_ms() - DAY_MS
        self.accept(bench, make_transition(incident="other", opened_at=old), 5)
        bench.settle()
        self.accept(bench, make_transition(incident="other", seq=2, opened_at=old), 6)
        bench.settle(1)
        assert [incident for _, incident, _ in bench.sink.looked] == [""]
        assert sent(bench) == [("other", 1, ""), ("other", 2, "")]


class TestRouting:
    def test_what_is_for_another_receiver_is_left_alone_until_it_was_told_here(self) -> None:
        ours: list[bool] = [False]
        bench = Bench(is_target=lambda _: ours[0])
        bench.say(OPENED)
        bench.settle()
        ours[0] = True
        bench.say(UPDATED)
        bench.settle()
        ours[0] = False
        bench.say(RESOLVED)
        bench.settle()
        assert [seq for _, seq, _ in sent(bench)] == [2, 3]

    def test_a_change_of_what_waits_to_be_sent_is_sent_whatever_the_routes_say_by_then(self) -> None:
        ours: list[bool] = [True]
        bench = Bench(is_target=lambda _: ours[0])
        bench.sink.answers.append(AWAY)
        bench.say(OPENED)
        bench.settle()
        ours[0] = False
        bench.say(UPDATED)
        bench.settle(1)
        assert [seq for _, seq, _ in sent(bench)] == [1, 2]

    def test_quiet_hours_put_off_the_first_message_and_what_ends_in_them_is_not_told(self) -> None:
        until: list[datetime | None] = [None]
        bench = Bench(quiet_until=lambda *_: until[0])
        until[0] = datetime.fromtimestamp(bench.now_ms() / 1000 + 600, UTC)
        bench.say(OPENED, make_transition(incident="other"), make_transition(incident="third"))
        bench.settle(599)
        bench.say(make_transition(incident="other", seq=2, transition="resolved"))
        assert sent(bench) == []
        assert bench.dispatcher.outbox.oldest() is None
        bench.now += 1
        until[0] = None
        bench.say(make_transition(incident="third", seq=2, transition="resolved"))
        bench.settle()
        assert [incident for incident, *_ in sent(bench)] == [OPENED.incident]
        labels = {"integration": "slack", "reason": "quiet hours"}
        assert metric(bench.board, "flinkwatch_notifications_suppressed_total", **labels) == 2

    def test_what_waits_for_the_end_of_quiet_hours_is_due_with_a_change_after_them(self) -> None:
        until: list[datetime | None] = [None]
        bench = Bench(quiet_until=lambda *_: until[0])
        until[0] = datetime.fromtimestamp(bench.now_ms() / 1000 + 600, UTC)
        bench.say(OPENED)
        until[0] = None
        bench.say(UPDATED)
        assert bench.dispatcher.outbox.oldest() == bench.now_ms()
        bench.settle()
        assert [seq for _, seq, _ in sent(bench)] == [2]

    @pytest.mark.parametrize(
        ("known", "held"),
        [
            ({"state": "undelivered", "ts": ""}, True),
            ({"state": "undelivered"}, False),
            ({"state": "unknown", "ts": ""}, False),
            ({}, False),
        ],
    )
    def test_quiet_hours_hold_what_was_never_told_and_no_change_of_what_may_have_been(
        self, known: dict[str, Any], held: bool
    ) -> None:
        bench = Bench(replace(EDITS, can_look_up=False), quiet_until=lambda _, now: now + timedelta(minutes=10))
        kept(bench, OPENED.incident, 0, **known)
        bench.say(UPDATED)
        bench.settle()
        assert (sent(bench) == []) == held

    def test_in_quiet_hours_a_change_waits_on_and_an_end_is_counted(self) -> None:
        bench = Bench(
            replace(EDITS, notifies_already_resolved=True), quiet_until=lambda _, now: now + timedelta(minutes=10)
        )
        bench.say(OPENED, UPDATED, make_transition(incident="other", transition="resolved"))
        bench.settle()
        assert (sent(bench), len(bench.dispatcher.outbox)) == ([], 1)
        labels = {"integration": "slack", "reason": "quiet hours"}
        assert metric(bench.board, "flinkwatch_notifications_suppressed_total", **labels) == 1

    @pytest.mark.parametrize(("digests", "own", "folded"), [(True, 1, 2), (False, 3, None)])
    def test_only_who_has_digests_folds(self, digests: bool, own: int, folded: int | None) -> None:
        bench = Bench(replace(EDITS, digests=digests), digest_above=1)
        bench.say(*(make_transition(incident=f"i{n}") for n in range(3)))
        bench.settle()
        assert len([name for name, *_ in sent(bench) if not name.startswith("~")]) == own
        labels = {"integration": "slack", "reason": "digest"}
        assert metric(bench.board, "flinkwatch_notifications_suppressed_total", **labels) == folded

    @pytest.mark.parametrize(("later", "folds"), [(59.9, True), (60, False)])
    def test_more_than_the_limit_within_a_minute_is_a_storm(self, later: float, folds: bool) -> None:
        bench = Bench(digest_above=1)
        for number in range(2):
            bench.say(make_transition(incident=f"i{number}"))
            bench.settle(later)
        assert (("i1", 1, "") not in sent(bench)) == folds

    @pytest.mark.parametrize(("waiting", "folds"), [(1, False), (2, True)])
    def test_as_many_as_the_limit_that_wait_are_a_storm_however_slowly_they_came(
        self, waiting: int, folds: bool
    ) -> None:
        bench = Bench(digest_above=2)
        bench.sink.answers.append(RetryAfter(600.0, "limited", "rateLimited"))
        for number in range(waiting + 1):
            bench.say(make_transition(incident=f"i{number}"))
            bench.settle(100)
        assert (bench.entry(f"i{waiting}") is not None) == folds

    def test_an_older_change_of_one_in_a_digest_changes_nothing(self) -> None:
        bench = Bench(digest_above=1)
        bench.say(make_transition(incident="i0"), make_transition(incident="i1"))
        bench.settle()
        bench.say(make_transition(incident="i1", seq=3, transition="updated"))
        for seq in (2, 3):
            bench.say(make_transition(incident="i1", seq=seq, transition="resolved", severity="critical"))
        bench.settle(10)
        entry = bench.entry("i1")
        assert entry is not None
        assert (entry.seq, entry.resolved, entry.state) == (3, False, "folded")

    def test_a_change_of_what_waits_already_is_not_folded(self) -> None:
        bench = Bench(digest_above=1)
        bench.sink.answers.append(AWAY)
        bench.say(OPENED)
        bench.settle()
        bench.say(UPDATED)
        bench.settle(1)
        assert sent(bench) == [(OPENED.incident, 1, ""), (OPENED.incident, 2, "")]

    @pytest.mark.parametrize(
        ("change", "sends", "counts"),
        [
            ({"transition": "updated", "severity": "critical"}, [2, 3], (0, 0, 1)),
            ({"transition": "resolved"}, [2], (1, 0, 0)),
            ({"transition": "updated", "silence": SILENCE}, [2], (0, 1, 0)),
        ],
        ids=["worse", "over", "silenced"],
    )
    def test_one_of_a_digest_that_waits_to_be_told_alone_is_not_once_it_is_over_or_silenced(
        self, change: dict[str, Any], sends: list[int], counts: tuple[int, int, int]
    ) -> None:
        bench = Bench(digest_above=1)
        bench.say(make_transition(incident="i0"), make_transition(incident="i1"))
        bench.settle()
        bench.sink.answers.append(AWAY)
        bench.say(make_transition(incident="i1", seq=2, transition="updated", severity="critical"))
        bench.settle()
        bench.say(make_transition(incident="i1", seq=3, **change))
        bench.settle(60)
        assert [seq for name, seq, _ in sent(bench) if name == "i1"] == sends
        entry = bench.entry("i1")
        assert entry is not None
        assert (entry.seq, entry.state) == (3, "sent" if len(sends) == 2 else "folded")
        bench.settle(5)
        summary = [one.summary for one in bench.sink.notifications if one.summary is not None][-1]
        assert (summary.resolved, summary.silenced, summary.with_own_message) == counts

    def test_a_change_of_one_in_a_digest_is_shown_there_also_after_the_storm(self) -> None:
        bench = Bench(digest_above=1)
        bench.say(*(make_transition(incident=f"i{number}") for number in range(3)))
        bench.settle()
        bench.settle(120)
        bench.say(make_transition(incident="i1", seq=2, transition="updated"))
        bench.settle(5)
        assert {name for name, *_ in sent(bench) if not name.startswith("~")} == {"i0"}

    @pytest.mark.parametrize(
        ("traits", "changes"),
        [({"min_severity": "critical"}, {}), ({}, {"silence": SILENCE})],
        ids=["minor", "silenced"],
    )
    def test_incidents_that_are_not_notified_make_no_storm(
        self, traits: dict[str, Any], changes: dict[str, Any]
    ) -> None:
        bench = Bench(replace(EDITS, **traits), digest_above=1)
        bench.say(*(make_transition(incident=f"i{number}", **changes) for number in range(3)))
        bench.settle()
        assert (sent(bench), list(bench.log.entries())) == ([], [])


class TestSilences:
    def test_what_was_given_up_and_is_silenced_is_neither_counted_nor_told(self) -> None:
        bench = Bench(replace(EDITS, can_look_up=False))
        bench.sink.answers.extend([TOO_LONG] * 2)
        bench.say(OPENED)
        bench.settle()
        bench.say(make_transition(seq=2, transition="updated", silence=SILENCE))
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert (entry.silenced, entry.seq, entry.offset, bench.dispatcher.undelivered()) == (True, 2, 1, 0)
        labels = {"integration": "slack", "reason": "silence"}
        assert metric(bench.board, "flinkwatch_notifications_suppressed_total", **labels) == 1

    def test_what_is_silenced_goes_on_in_the_log_and_is_told_when_the_silence_is_over(self, bench: Bench) -> None:
        bench.sink.answers.extend([TOO_LONG] * 2)
        bench.say(OPENED)
        bench.settle()
        bench.say(make_transition(seq=2, transition="updated", silence=SILENCE))
        labels = {"integration": "slack", "reason": "silence"}
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert bench.dispatcher.undelivered() in {0, 1}
        bench.settle(60)
        bench.say(make_transition(seq=3, transition="updated"))
        bench.settle(60)
        assert sent(bench)[-1][:2] == (OPENED.incident, 3)
        assert (metric(bench.board, "flinkwatch_notifications_suppressed_total", **labels) or 0) >= 1

    def test_what_waits_is_not_told_once_it_is_silenced(self, bench: Bench) -> None:
        bench.sink.answers.append(AWAY)
        bench.say(OPENED)
        bench.settle()
        bench.say(make_transition(seq=2, transition="updated", silence=SILENCE))
        bench.settle(60)
        assert (len(bench.sink.sent), len(bench.dispatcher.outbox)) == (1, 0)

    @pytest.mark.parametrize("state", ["unknown", "undelivered"])
    def test_whether_a_silenced_incident_has_a_message_is_looked_up_whatever_holds_up_new_messages(
        self, state: str
    ) -> None:
        quiet: list[datetime | None] = [None]
        bench = Bench(quiet_until=lambda *_: quiet[0])
        bench.sink.answers.append(RetryAfter(60.0, "limited", "rateLimited"))
        bench.say(make_transition(incident="other"))
        bench.settle()
        quiet[0] = datetime.fromtimestamp(bench.now_ms() / 1000 + 600, UTC)
        kept(bench, OPENED.incident, 0, state=state, ts="")
        bench.say(replace(UPDATED, silence=SILENCE))
        bench.settle()
        assert [incident for _, incident, _ in bench.sink.looked] == [OPENED.incident]


class TestRevival:
    def given_up(self, bench: Bench, **fields: Any) -> None:
        kept(bench, OPENED.incident, 2 * HOUR_MS, **{"state": "undelivered", "ts": "", "seq": 2, "offset": 3, **fields})

    @pytest.mark.parametrize(
        ("fields", "one", "again"),
        [
            ({}, UPDATED, ""),
            ({"ts": "9.9"}, UPDATED, "9.9"),
            ({}, OPENED, None),
            ({"state": "sent", "seq": 1}, UPDATED, None),
            ({"state": "folded"}, OPENED, None),
            ({}, make_transition(seq=3, transition="updated", silence=SILENCE), None),
        ],
    )
    def test_what_was_given_up_is_tried_with_the_newest_record_alone(
        self, fields: dict[str, Any], one: Transition, again: str | None
    ) -> None:
        bench = Bench(replace(EDITS, can_look_up=False))
        self.given_up(bench, **fields)
        bench.dispatcher.requeue(one, 0, 3)
        bench.settle()
        assert sent(bench) == ([] if again is None else [(OPENED.incident, 2, again)])

    @pytest.mark.parametrize(("ts", "due"), [("9.9", 0), ("", 60)])
    def test_only_a_new_message_waits_for_the_limit_of_new_messages(self, bench: Bench, ts: str, due: int) -> None:
        bench.sink.answers.append(RetryAfter(60.0, "limited", "rateLimited"))
        bench.say(make_transition(incident="other"))
        bench.settle()
        self.given_up(bench, ts=ts)
        bench.dispatcher.requeue(UPDATED, 0, 3)
        assert bench.dispatcher.due_in() == due

    def test_what_is_not_known_is_not_revived(self, bench: Bench) -> None:
        bench.dispatcher.requeue(UPDATED, 0, 3)
        assert len(bench.dispatcher.outbox) == 0

    def test_the_one_whose_last_try_is_longest_ago_comes_first_and_one_at_a_time(self, bench: Bench) -> None:
        for name, age, fields in (
            ("a", 2 * HOUR_MS, {"offset": 1}),
            ("b", 3 * HOUR_MS, {"offset": 2}),
            ("c", HOUR_MS - 1, {"offset": 3}),
            ("d", 9 * HOUR_MS, {"offset": 4, "silenced": True}),
            ("e", 9 * HOUR_MS, {"offset": 5, "state": "sent"}),
        ):
            kept(bench, name, age, **{"state": "undelivered", "ts": "", **fields})
        assert bench.dispatcher.undelivered() == 3
        assert bench.dispatcher.to_read() == [(0, 2)]
        assert bench.dispatcher.to_read() == []
        # A receiver that takes messages is asked for the next at once.
        bench.dispatcher.requeue(make_transition(incident="b"), 0, 2)
        assert bench.dispatcher.to_read() == []
        bench.settle()
        assert bench.dispatcher.to_read() == [(0, 1)]

    def test_what_was_given_up_and_waits_with_a_newer_change_is_not_read_again(self, bench: Bench) -> None:
        self.given_up(bench, seq=1)
        bench.say(UPDATED)
        assert bench.dispatcher.to_read() == []

    def test_what_waits_with_a_newer_change_keeps_all_its_tries(self, bench: Bench) -> None:
        self.given_up(bench, seq=1)
        bench.say(UPDATED)
        bench.dispatcher.requeue(UPDATED, 0, 0)
        bench.sink.answers.append(AWAY)
        bench.settle()
        assert len(bench.dispatcher.outbox) == 1

    def test_what_is_read_again_waits_since_then(self, bench: Bench) -> None:
        self.given_up(bench)
        bench.dispatcher.requeue(UPDATED, 0, 3)
        assert bench.dispatcher.outbox.oldest() == bench.now_ms()

    def test_what_is_open_after_a_storm_is_looked_for_every_five_seconds(self) -> None:
        bench = Bench(digest_above=1)
        bench.say(make_transition(incident="i0"), make_transition(incident="i1"))
        bench.settle()
        bench.now += 60
        assert bench.dispatcher.to_read() == [(0, 1)]
        bench.now += 4.9
        assert bench.dispatcher.to_read() == []
        bench.now += 0.1
        assert bench.dispatcher.to_read() == [(0, 1)]


class TestFigures:
    def value(self, bench: Bench, name: str) -> float | None:
        return metric(bench.board, f"flinkwatch_{name}", integration="slack")

    def test_they_follow_each_second(self, bench: Bench) -> None:
        bench.settle()
        bench.sink.answers.extend([AWAY, Unknown("lost", "other")])
        said = bench.now_ms() / 1000
        bench.say(OPENED, make_transition(incident="other"))
        bench.dispatcher.bootstrap.start_log(0, 0, 0)
        bench.settle(0.5)
        assert self.value(bench, "notifications_queue_length") == 0
        bench.settle(0.5)
        assert self.value(bench, "notifications_queue_length") == 2
        assert self.value(bench, "notifications_oldest_waiting_timestamp_seconds") == said
        assert self.value(bench, "notification_log_entries") == 1
        assert self.value(bench, "notification_log_oldest_unsettled_timestamp_seconds") == said + 0.5
        bench.settle(60)
        bench.settle(1)
        assert self.value(bench, "notifications_queue_length") == 0
        assert self.value(bench, "notifications_undelivered") == 0
        assert self.value(bench, "notification_log_entries") == 2
        bench.dispatcher.bootstrap.mark_unknown(0, ["damaged"], bench.now_ms())
        bench.settle(1)
        assert self.value(bench, "notification_log_oldest_unsettled_timestamp_seconds") is None

    @pytest.mark.parametrize(
        ("known", "one"),
        [
            (None, OPENED),
            ({}, UPDATED),
            ({"state": "unknown", "ts": ""}, make_transition(seq=2, transition="updated", silence=SILENCE)),
        ],
        ids=["post", "edit", "look"],
    )
    @pytest.mark.parametrize("age_ms", [5_000, None])
    def test_what_waits_waits_since_its_record_or_since_now_where_that_has_no_time(
        self, bench: Bench, known: dict[str, Any] | None, one: Transition, age_ms: int | None
    ) -> None:
        if known is not None:
            kept(bench, OPENED.incident, 0, **known)
        bench.dispatcher.accept(one, 0, 0, 0 if age_ms is None else bench.now_ms() - age_ms)
        assert bench.dispatcher.outbox.oldest() == bench.now_ms() - (age_ms or 0)

    def test_the_oldest_message_of_unknown_fate_is_the_one_that_is_shown(self, bench: Bench) -> None:
        bench.settle()
        for name, age_ms in (("older", 9_000), ("younger", 2_000)):
            kept(bench, name, age_ms, state="unknown", ts="")
        oldest = (bench.now_ms() - 9_000) / 1000
        bench.settle(1)
        assert self.value(bench, "notification_log_oldest_unsettled_timestamp_seconds") == oldest

    def test_damaged_entries_are_counted(self, bench: Bench) -> None:
        bench.dispatcher.count_damaged(3)
        labels = {"topic": bench.log.topic, "reason": "not readable"}
        assert metric(bench.board, "flinkwatch_delivery_records_skipped_total", **labels) == 3


class TestTakingOver:
    def restarted(self, before: Bench, *partitions: int) -> Bench:
        """Another process takes over these partitions, a second later."""
        after = Bench(digest_above=1)
        after.now, after.kafka = before.now + 1, before.kafka
        for partition in partitions:
            after.log.load(partition, before.kafka.read_notification_log(partition))
            after.dispatcher.take_over(partition)
        return after

    @pytest.fixture
    def storm(self) -> Bench:
        """Two incidents of each partition in one digest, which stands in the log of the first."""
        bench = Bench(digest_above=1)
        for number in range(5):
            bench.say(make_transition(incident=f"i{number}"), partition=number % 2)
        bench.settle()
        return bench

    def test_what_another_put_into_its_own_digest_meanwhile_is_counted_there_alone(self, storm: Bench) -> None:
        storm.now += 60
        other = self.restarted(storm, 1)
        other.settle()
        storm.dispatcher.release(1)
        storm.log.load(1, [(f"slack/{e.incident}".encode(), msgspec.json.encode(e)) for _, e in other.log.entries()])
        storm.dispatcher.take_over(1)
        storm.say(make_transition(incident="i2", seq=2, transition="resolved"))
        storm.settle(10)
        began = min(name for _, name, *_ in storm.sink.sent if name.startswith("~"))
        summaries = [one.summary for one in storm.sink.notifications if one.transition.incident == began]
        assert summaries[-1] is not None
        assert (summaries[-1].total, summaries[-1].open) == (2, 1)

    def last(self, bench: Bench) -> tuple[int, int]:
        summary = [one.summary for one in bench.sink.notifications if one.summary is not None][-1]
        return summary.total, summary.open

    def test_the_digest_goes_on_and_counts_all_its_incidents(self, storm: Bench) -> None:
        after = self.restarted(storm, 0, 1)
        after.say(make_transition(incident="i1", seq=2, transition="resolved"), partition=1)
        after.settle(10)
        assert self.last(after) == (4, 3)
        assert [ts for _, name, _, ts in after.sink.sent if name.startswith("~")] == ["2.0"]

    def test_who_has_a_part_without_the_digest_begins_one_for_what_is_open_there(self, storm: Bench) -> None:
        storm.say(make_transition(incident="i1", seq=2, transition="resolved"), partition=1)
        after = self.restarted(storm, 1)
        after.settle(10)
        assert self.last(after) == (1, 1)
        assert [ts for _, name, _, ts in after.sink.sent if name.startswith("~")] == [""]

    def test_what_went_to_another_is_no_longer_counted(self, storm: Bench) -> None:
        storm.dispatcher.release(1)
        storm.say(make_transition(incident="i2", seq=2, transition="resolved"))
        storm.settle(10)
        assert self.last(storm) == (2, 1)
