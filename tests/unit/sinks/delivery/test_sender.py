"""One transition on its way to a receiver, at the edge of each pause and each limit."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from detectors.incident import Silenced
from sinks.contract.notified import notified_state
from sinks.contract.outcome import Attachment, Delivered, Found, Outcome, Refused, RetryAfter, Unknown
from sinks.contract.sink import Rate, Traits
from sinks.delivery.attempt import NO_OFFSET, Deferred
from sinks.delivery.notification_log import NotificationLog
from sinks.delivery.outbox import Outbox
from sinks.delivery.rate_limit import RateLimiter
from tests.unit.sinks.delivery.test_delivery import metric
from tests.unit.sinks.memory_kafka import TOPICS
from tests.unit.sinks.samples import make_transition
from tests.unit.sinks.scripted import EDITS, Bench, ResendingScriptedSink

OPENED = make_transition()
UPDATED = make_transition(seq=2, transition="updated")
RESOLVED = make_transition(seq=3, transition="resolved")
OTHER = make_transition(incident="other")

AWAY = RetryAfter(None, "away", "serverError")
LIMITED = RetryAfter(60.0, "limited", "rateLimited")
LOST = Unknown("no answer", "contextDeadlineExceeded")
TOO_LONG = Refused("msg_too_long", "shorten it", "message", "clientError")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A trace of a defect, with all it holds, takes seconds to write."""
    with capture_logs():
        yield


@pytest.fixture
def bench() -> Bench:
    return Bench()


def seqs(bench: Bench) -> list[tuple[str, int]]:
    return [(incident, seq) for _, incident, seq, _ in bench.sink.sent]


class TestGates:
    @pytest.fixture
    def gates(self) -> tuple[RateLimiter, list[float]]:
        now = [1000.0]
        return RateLimiter(Traits(post_rate=Rate(per_second=0.5, burst=2), edit_rate=None), lambda: now[0]), now

    def test_a_call_beyond_the_burst_waits_as_long_as_the_rate_asks(self, gates: Any) -> None:
        gate, now = gates
        for _ in range(2):
            assert gate.available_at()["post"] <= now[0]
            gate.acquire("post")
        assert gate.available_at()["post"] == pytest.approx(1002.0)
        now[0] += 1
        assert gate.available_at()["post"] == pytest.approx(1002.0)
        assert gate.available_at()["edit"] <= now[0]
        now[0] += 1
        # Not "now": a gate that is open leaves the order of what is due alone.
        assert gate.available_at()["post"] == 1000.0

    def test_time_that_passes_saves_up_no_more_than_the_burst(self, gates: Any) -> None:
        gate, now = gates
        gate.available_at()
        now[0] += 3600
        gate.acquire("post")
        gate.acquire("post")
        assert gate.available_at()["post"] == pytest.approx(now[0] + 2)

    def test_calls_without_a_look_in_between_count_from_when_they_are_made(self, gates: Any) -> None:
        gate, now = gates
        gate.acquire("post")
        gate.acquire("post")
        now[0] += 4
        gate.acquire("post")
        gate.acquire("post")
        assert gate.available_at()["post"] == pytest.approx(now[0] + 2)

    def test_the_longest_wait_of_a_method_counts_and_no_other_method_waits(self, gates: Any) -> None:
        gate, now = gates
        gate.pause("edit", 60)
        gate.pause("edit", 10)
        assert gate.available_at() == {"post": 1000.0, "edit": 1060.0}
        now[0] += 100
        gate.pause("edit", 10)
        assert gate.available_at()["edit"] == 1110.0


class TestOutbox:
    def test_the_longest_due_is_next_whatever_its_method_once_that_is_open(self) -> None:
        box = Outbox()
        for number, method in enumerate(("post", "edit", "post")):
            box.put(make_transition(incident=f"i{number}"), 0, number, 10.0 + number, method=method)
        assert box.next(9.9) is None
        assert box.next_due() == 10.0
        taken = []
        while (one := box.next(12.0, {"post": 11.5, "edit": 0.0})) is not None:
            taken.append(one.transition.incident)
            box.done(one.transition.incident)
        assert taken == ["i1", "i0", "i2"]
        assert box.next_due() is None

    def test_a_gate_puts_off_what_is_due(self) -> None:
        box = Outbox()
        box.put(OPENED, 0, 0, 10.0)
        shut = {"post": 20.0, "edit": 0.0}
        assert (box.next_due(shut), box.next(19.9, shut)) == (20.0, None)
        assert box.next(20.0, shut) is box.get(OPENED.incident)

    def test_of_an_incident_the_newest_waits_and_as_long_as_the_first(self) -> None:
        box = Outbox()
        box.put(UPDATED, 0, 7, 10.0, at=70)
        box.put(OTHER, 0, 8, 11.0, at=80)
        box.put(RESOLVED, 1, 9, 12.0, at=90)
        box.put(OPENED, 0, 10, 13.0, at=100)
        box.put(make_transition(incident="third"), 0, 11, 14.0, at=110, method="edit")
        box.put(make_transition(incident="digest"), 2, NO_OFFSET, 15.0, at=120)
        waiting = box.next(12.0)
        assert waiting is not None
        assert (waiting.transition, waiting.partition, waiting.offset, waiting.at) == (RESOLVED, 1, 9, 70)
        assert (len(box), box.posts(), box.oldest()) == (4, 2, 70)
        assert [name in box for name in ("third", "none")] == [True, False]
        assert [box.lowest_offset(partition) for partition in (0, 1, 2)] == [8, 9, None]
        waiting.attempt = Deferred()
        assert box.oldest() == 80

    def test_what_was_put_off_is_due_later_and_once(self) -> None:
        box = Outbox()
        waiting = box.put(OPENED, 0, 0, 10.0)
        box.later(waiting, 20.0)
        waiting.method = "edit"
        box.later(waiting, 30.0)
        assert box.next_due() == 30.0
        assert box.next(29.0) is None
        assert box.next(30.0) is waiting
        box.drop(0)
        assert (box.next(99.0), len(box)) == (None, 0)


class TestPauses:
    def test_due_in_says_when_the_next_call_may_be_made(self, bench: Bench) -> None:
        assert bench.dispatcher.due_in() is None
        bench.say(OPENED)
        assert bench.dispatcher.due_in() == 0
        bench.sink.answers.append(LIMITED)
        bench.settle()
        assert bench.dispatcher.due_in() == 60
        bench.now += 100
        assert bench.dispatcher.due_in() == 0

    def test_what_is_open_is_resent_in_time_and_soon_after_a_failure(self) -> None:
        bench = Bench(Traits(), sink=ResendingScriptedSink)
        bench.settle()
        assert bench.dispatcher.due_in() == 60
        bench.settle(59)
        bench.sink.answers.append(AWAY)
        bench.settle(1)
        assert bench.dispatcher.due_in() == 5
        bench.settle(5)
        assert bench.sink.resent == [1000, 1060, 1065]
        assert bench.dispatcher.due_in() == 60
        bench.sink.answers.append(RetryAfter(20.0, "away", "serverError"))
        bench.say(OPENED)
        bench.settle()
        assert bench.dispatcher.due_in() == 20
        failed = metric(bench.board, "flinkwatch_notifications_failed_total", integration="slack", reason="serverError")
        assert failed == 2

    @pytest.mark.parametrize(
        ("answer", "others_wait"),
        [
            (RetryAfter(60.0, "away", "serverError"), False),
            (LIMITED, True),
            (RetryAfter(None, "limited", "rateLimited"), False),
            (Refused("invalid_auth", "mend it", "setup", "authError"), True),
        ],
        ids=str,
    )
    def test_a_limit_and_a_wrong_setup_hold_up_all_new_messages_and_no_edit(
        self, bench: Bench, answer: Outcome, others_wait: bool
    ) -> None:
        bench.say(OTHER)
        bench.settle()
        bench.sink.answers.append(answer)
        bench.say(OPENED)
        bench.settle()
        bench.say(make_transition(incident="third"), make_transition(incident="other", seq=2, transition="updated"))
        bench.settle(0.5)
        assert ("other", 2) in seqs(bench)
        assert (("third", 1) in seqs(bench)) != others_wait
        bench.settle(59.5)
        assert seqs(bench).count((OPENED.incident, 1)) == 2
        assert ("third", 1) in seqs(bench)


class TestOutcomes:
    def test_pauses_grow_to_a_minute_and_end_with_a_success(self, bench: Bench) -> None:
        bench.sink.answers.extend([AWAY] * 8)
        bench.say(OPENED)
        for _ in range(9):
            bench.settle(bench.dispatcher.due_in() or 0)
        at = [time for time, *_ in bench.sink.sent]
        assert [later - earlier for earlier, later in pairwise(at)] == [1, 2, 4, 8, 16, 32, 60, 60]
        bench.sink.answers.append(AWAY)
        bench.say(UPDATED)
        bench.settle()
        assert bench.dispatcher.due_in() == 1

    def test_a_failure_leaves_the_notification_log_as_it_was(self, bench: Bench) -> None:
        bench.sink.answers.append(AWAY)
        bench.say(OPENED)
        bench.settle()
        assert bench.entry(OPENED.incident) is None
        bench.settle(1)
        sent = bench.entry(OPENED.incident)
        for answer in (AWAY, TOO_LONG):
            bench.sink.answers.append(answer)
        bench.say(UPDATED)
        bench.dispatcher.send_next()
        assert bench.entry(OPENED.incident) == sent
        bench.now += 1
        bench.dispatcher.send_next()
        assert bench.entry(OPENED.incident) == sent

    def test_a_lost_answer_of_an_edit_is_edited_again_and_of_a_post_is_looked_up(self, bench: Bench) -> None:
        bench.sink.answers.append(LOST)
        bench.say(OPENED)
        bench.settle()
        entry, asked = bench.entry(OPENED.incident), bench.now_ms()
        assert entry is not None
        assert (entry.state, entry.ts, entry.at) == ("unknown", "", asked)
        bench.sink.finds.append(RetryAfter(20.0, "limited", "rateLimited"))
        bench.settle(1)
        assert bench.dispatcher.due_in() == 20
        bench.sink.finds.append(Found("C1", "7.7", 1))
        bench.settle(20)
        assert [look[:2] for look in bench.sink.looked] == [("C1", OPENED.incident)] * 2
        assert all(asked - 3_600_000 < since < asked - 120_000 for *_, since in bench.sink.looked)
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert (entry.state, entry.channel, entry.ts, entry.seq) == ("sent", "C1", "7.7", 1)
        bench.sink.answers.append(LOST)
        bench.say(UPDATED)
        bench.settle()
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert (entry.state, entry.channel, entry.ts, entry.seq) == ("unknown", "C1", "7.7", 2)
        bench.settle(1)
        assert len(bench.sink.looked) == 2
        assert [one[2:] for one in bench.sink.sent] == [(1, ""), (2, "7.7"), (2, "7.7")]

    def test_the_message_that_a_look_finds_is_edited_to_what_is_newest(self, bench: Bench) -> None:
        bench.sink.answers.append(LOST)
        bench.say(OPENED)
        bench.settle()
        bench.sink.finds.append(Found("C1", "7.7", 1))
        bench.say(UPDATED)
        bench.settle(1)
        assert [one[2:] for one in bench.sink.sent] == [(1, ""), (2, "7.7")]

    def test_what_a_look_does_not_find_is_sent_after_one_look_and_looked_up_again_when_lost_again(
        self, bench: Bench
    ) -> None:
        bench.sink.answers.extend([LOST, AWAY, LOST])
        bench.say(OPENED)
        bench.settle()
        for seconds, looks, sends in ((1, 1, 2), (2, 1, 3), (4, 2, 4)):
            bench.settle(seconds)
            assert (len(bench.sink.looked), len(bench.sink.sent)) == (looks, sends)

    def test_where_the_channel_is_not_known_nothing_is_looked_up_and_the_message_is_sent_again(self) -> None:
        bench = Bench(channel="")
        bench.sink.answers.append(LOST)
        bench.say(OPENED)
        bench.settle()
        bench.settle(1)
        assert (bench.sink.looked, seqs(bench)) == ([], [(OPENED.incident, 1)] * 2)

    @pytest.mark.parametrize(
        ("answer", "note"),
        [
            (Refused("message_not_found", "", "target", "clientError"), True),
            (Refused("is_archived", "", "setup", "clientError"), True),
            (Refused("channel_not_found", "", "setup", "clientError"), True),
            (Refused("not_in_channel", "", "setup", "clientError"), True),
            (TOO_LONG, False),
        ],
        ids=lambda one: getattr(one, "code", ""),
    )
    def test_a_message_that_is_gone_is_replaced_at_once_and_one_that_is_refused_is_made_plain(
        self, bench: Bench, answer: Outcome, note: bool
    ) -> None:
        bench.say(OPENED)
        bench.settle()
        bench.sink.answers.append(answer)
        bench.say(UPDATED)
        bench.settle()
        ts = "" if note else "1.0"
        assert [one[2:] for one in bench.sink.sent] == [(1, ""), (2, "1.0"), (2, ts)]
        last = bench.sink.notifications[-1]
        assert (bool(last.note), last.plain) == (note, not note)

    def test_a_channel_that_is_gone_before_the_first_message_is_tried_each_minute(self, bench: Bench) -> None:
        bench.sink.answers.append(Refused("is_archived", "", "setup", "clientError"))
        bench.say(OPENED)
        bench.settle()
        assert (len(bench.sink.sent), bench.dispatcher.due_in()) == (1, 60)

    def test_the_delay_is_measured_from_the_record_and_never_negative(self, bench: Bench) -> None:
        bench.dispatcher.accept(OPENED, 0, 0, bench.now_ms() + 5_000)
        bench.settle()
        bench.dispatcher.accept(UPDATED, 0, 1, bench.now_ms())
        bench.settle(2.5)
        assert metric(bench.board, "flinkwatch_notification_delay_seconds_sum", integration="slack") == 2.5

    def test_what_was_told_before_and_how_is_known_when_more_is_to_be_said(self, bench: Bench) -> None:
        for one in (OPENED, UPDATED, RESOLVED):
            bench.say(one)
            bench.settle()
        assert bench.sink.followed == [(None, False), (notified_state(OPENED), True), (notified_state(UPDATED), True)]
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert (entry.resolved, entry.notified) == (True, notified_state(RESOLVED))

    @pytest.mark.parametrize(("names", "job"), [(("orders", "a1"), "orders"), (("", "a1"), "a1")])
    def test_the_log_names_the_job_by_its_id_where_it_has_no_name(
        self, bench: Bench, names: tuple[str, str], job: str
    ) -> None:
        bench.say(make_transition(job_name=names[0], job_id=names[1]))
        with capture_logs() as lines:
            bench.settle()
        assert [(line["event"], line["job"]) for line in lines] == [("incident notified", job)]

    def test_what_is_refused_as_plain_text_is_kept_with_its_reason_and_probed_each_hour(self, bench: Bench) -> None:
        bench.sink.answers.extend([TOO_LONG] * 4)
        bench.say(OPENED)
        with capture_logs() as lines:
            bench.settle()
        assert [one["event"] for one in lines if one["log_level"] == "error"] == ["incident is undelivered, it is kept"]
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert (entry.state, entry.reason, entry.offset) == ("undelivered", "msg_too_long: shorten it", 0)
        assert (bench.dispatcher.undelivered(), len(bench.dispatcher.outbox)) == (1, 0)
        assert bench.dispatcher.to_read() == []
        bench.now += 3_600
        assert bench.dispatcher.to_read() == [(0, 0)]
        bench.dispatcher.requeue(OPENED, 0, 0)
        bench.settle()
        assert (len(bench.sink.sent), bench.dispatcher.undelivered()) == (4, 1)
        bench.now += 3_599
        assert bench.dispatcher.to_read() == []
        bench.now += 1
        assert bench.dispatcher.to_read() == [(0, 0)]
        bench.sink.answers.append(AWAY)
        bench.dispatcher.requeue(OPENED, 0, 0)
        with capture_logs() as lines:
            bench.settle()
        assert lines == []
        # A probe has one try, whatever becomes of it.
        assert len(bench.dispatcher.outbox) == 0
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert (entry.state, entry.reason, entry.at) == ("undelivered", "away", bench.now_ms())

    def test_after_a_day_and_five_tries_it_is_put_aside(self, bench: Bench) -> None:
        bench.sink.answers.extend([AWAY] * 100)
        bench.say(OPENED, OTHER)
        bench.settle(86_399)
        for _ in range(4):
            bench.settle(0.2)
        assert bench.dispatcher.undelivered() == 0
        for _ in range(5):
            bench.settle(60)
        assert bench.dispatcher.undelivered() == 2
        assert len(bench.sink.sent) == 12

    def test_before_a_day_is_over_it_is_tried_on(self, bench: Bench) -> None:
        bench.sink.answers.extend([AWAY] * 100)
        bench.say(OPENED)
        for _ in range(8):
            bench.settle(10_000)
        bench.settle(6_399)
        assert bench.dispatcher.undelivered() == 0
        bench.settle(60)
        assert bench.dispatcher.undelivered() == 1

    def test_a_defect_is_tried_five_times_more_and_then_put_aside(self, bench: Bench) -> None:
        bench.sink.answers.extend([ZeroDivisionError()] * 6)
        bench.say(OPENED)
        bench.settle()
        for seconds in (1, 2, 4, 8):
            bench.settle(seconds)
        assert bench.dispatcher.undelivered() == 0
        bench.settle(16)
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert (entry.state, entry.reason) == ("undelivered", "a defect in flinkwatch")
        assert (len(bench.sink.sent), len(bench.dispatcher.outbox)) == (6, 0)

    def test_without_the_notification_log_nothing_is_sent_and_nothing_twice(self, bench: Bench) -> None:
        bench.kafka.refuse_writes = True
        bench.say(OPENED)
        bench.settle()
        assert (bench.sink.sent, bench.entry(OPENED.incident), bench.dispatcher.due_in()) == ([], None, 1)
        bench.kafka.refuse_writes = False
        bench.sink.on_send = lambda: setattr(bench.kafka, "refuse_writes", True)
        bench.settle(1)
        assert len(bench.sink.sent) == 1
        assert bench.dispatcher.due_in() is not None
        bench.kafka.refuse_writes = False
        bench.settle(60)
        assert len(bench.sink.sent) == 1
        assert (len(bench.dispatcher.outbox), bench.dispatcher.due_in()) == (0, None)
        again = NotificationLog(None, TOPICS.deliveries, "slack")
        again.load(0, bench.kafka.read_notification_log(0))
        assert [one.state for _, one in again.entries()] == ["sent"]

    def test_a_notification_is_logged_as_made_once_the_notification_log_has_it(self, bench: Bench) -> None:
        bench.sink.on_send = lambda: setattr(bench.kafka, "refuse_writes", True)
        bench.say(OPENED)
        with capture_logs() as lines:
            bench.settle()
        assert "incident notified" not in [line["event"] for line in lines]
        bench.kafka.refuse_writes = False
        with capture_logs() as lines:
            bench.settle(60)
        assert [line["event"] for line in lines] == ["incident notified"]

    def test_a_message_that_was_sent_is_never_put_aside_however_long_the_log_is_away(self, bench: Bench) -> None:
        bench.sink.on_send = lambda: setattr(bench.kafka, "refuse_writes", True)
        bench.say(OPENED)
        for _ in range(10):
            bench.settle(20_000)
        bench.kafka.refuse_writes = False
        bench.settle(60)
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert (entry.state, len(bench.sink.sent)) == ("sent", 1)

    def test_what_cannot_be_put_aside_in_the_log_is_kept_in_hand(self, bench: Bench) -> None:
        bench.sink.answers.extend([TOO_LONG] * 3)
        bench.say(OPENED)
        bench.dispatcher.send_next()
        bench.sink.on_send = lambda: setattr(bench.kafka, "refuse_writes", True)
        bench.settle()
        assert bench.dispatcher.due_in() == 60
        bench.sink.on_send, bench.kafka.refuse_writes = None, False
        bench.settle(60)
        assert (len(bench.dispatcher.outbox), bench.dispatcher.undelivered()) == (0, 1)

    def test_a_change_while_the_log_is_away_is_sent_when_it_is_back(self, bench: Bench) -> None:
        bench.sink.on_send = lambda: setattr(bench.kafka, "refuse_writes", True)
        bench.say(OPENED)
        bench.settle()
        bench.sink.on_send, bench.kafka.refuse_writes = None, False
        bench.say(UPDATED)
        bench.settle(1)
        assert [one[2:] for one in bench.sink.sent] == [(1, ""), (2, "1.0")]


class TestExtras:
    def add(self, bench: Bench, answers: list[Outcome], posts: bool) -> list[float]:
        """An extra for the next message; when it was called."""
        called: list[float] = []

        def call() -> Outcome:
            called.append(bench.now)
            return answers.pop(0) if answers else Delivered()

        bench.sink.attachments = (Attachment(call, posts), *bench.sink.attachments)
        return called

    @pytest.mark.parametrize(
        ("answer", "posts", "others_wait"),
        [
            (LIMITED, True, True),
            (LIMITED, False, False),
            (RetryAfter(None, "limited", "rateLimited"), True, False),
            (RetryAfter(60.0, "away", "serverError"), True, False),
        ],
        ids=str,
    )
    def test_only_a_limited_line_of_the_thread_holds_up_new_messages(
        self, bench: Bench, answer: Outcome, posts: bool, others_wait: bool
    ) -> None:
        called = self.add(bench, [answer], posts)
        bench.say(OPENED)
        bench.settle()
        bench.sink.attachments = ()
        bench.say(OTHER)
        bench.settle()
        assert (len(bench.sink.sent) == 1) == others_wait
        bench.settle(60)
        assert called == [1000, 1060]
        assert len(bench.sink.sent) == 2
        assert len(bench.dispatcher.outbox) == 0
        failed = {"integration": "slack", "reason": answer.failure}  # type: ignore[union-attr]
        assert (metric(bench.board, "flinkwatch_notifications_failed_total", **failed) or 0) == int(posts)
        defects = {"integration": "slack", "reason": "other"}
        assert not metric(bench.board, "flinkwatch_notifications_failed_total", **defects)

    def test_a_line_follows_its_change_at_once(self, bench: Bench) -> None:
        bench.say(OPENED)
        bench.settle()
        called = self.add(bench, [], True)
        bench.say(UPDATED)
        bench.settle()
        assert called == [bench.now]

    def test_each_is_done_once_in_order_and_one_that_never_succeeds_is_left(self, bench: Bench) -> None:
        second, first = self.add(bench, [LOST], True), self.add(bench, [AWAY] * 100, True)
        bench.say(OPENED)
        for _ in range(30):
            bench.settle(60)
        assert (len(first), len(second), len(bench.dispatcher.outbox)) == (11, 1, 0)
        assert second[0] >= first[-1]

    @pytest.mark.parametrize("posts", [True, False])
    def test_lines_count_as_new_messages_and_charts_do_not(self, posts: bool) -> None:
        bench = Bench(replace(EDITS, post_rate=Rate(per_second=0.1, burst=2)))
        called = self.add(bench, [], posts)
        bench.say(OPENED)
        bench.settle()
        assert len(called) == 1
        bench.say(OTHER)
        bench.settle()
        assert len(bench.sink.sent) == 2 - posts
        bench.settle(10)
        assert len(bench.sink.sent) == 2
        called.clear()
        bench.say(make_transition(incident="third"), UPDATED)
        bench.settle()
        assert (OPENED.incident, 2) in seqs(bench)
        assert len(called) == 1 - posts

    def test_what_is_silenced_before_its_lines_are_said_says_no_more(self, bench: Bench) -> None:
        called = self.add(bench, [AWAY], True)
        bench.say(OPENED)
        bench.settle()
        bench.sink.attachments = ()
        bench.say(make_transition(seq=2, transition="updated", silence=Silenced("a1", 1 << 42, "ann", "backfill")))
        bench.settle(60)
        assert (len(called), [one[2] for one in bench.sink.sent]) == (1, [1, 2])

    def test_a_message_that_stands_is_never_put_aside_for_its_lines_and_its_next_change_is_tried_again(
        self, bench: Bench
    ) -> None:
        self.add(bench, [AWAY] * 100, True)
        bench.say(OPENED)
        for _ in range(6):
            bench.settle(20_000)
        entry = bench.entry(OPENED.incident)
        assert entry is not None
        assert entry.state == "sent"
        bench.sink.attachments = ()
        bench.sink.answers.append(AWAY)
        bench.dispatcher.outbox.done(OPENED.incident)
        bench.say(UPDATED)
        bench.settle()
        assert bench.dispatcher.due_in() == 1

    def test_a_change_that_comes_while_a_line_waits_has_all_its_tries(self, bench: Bench) -> None:
        called = self.add(bench, [AWAY], True)
        bench.say(OPENED)
        bench.settle()
        bench.sink.answers.append(AWAY)
        bench.say(UPDATED)
        bench.settle(1)
        assert (len(called), bench.dispatcher.due_in()) == (2, 2)
        bench.settle(2)
        assert [one[2] for one in bench.sink.sent] == [1, 2, 2]


class TestDigests:
    @pytest.fixture
    def storm(self) -> Bench:
        """One with a message of its own, three in a digest."""
        bench = Bench(digest_above=1)
        bench.say(*(make_transition(incident=f"i{n}") for n in range(4)))
        bench.settle()
        return bench

    def counts(self, bench: Bench) -> tuple[int, int, int, int]:
        """Of the digest that was sent last: all, open, over, alone."""
        found = [one.summary for one in bench.sink.notifications if one.summary is not None][-1]
        return found.total, found.open, found.resolved, found.with_own_message

    def change(self, bench: Bench, number: int, seq: int, **fields: Any) -> None:
        bench.say(make_transition(incident=f"i{number}", seq=seq, **fields))

    def test_the_digest_follows_its_incidents_until_each_has_ended(self, storm: Bench) -> None:
        assert seqs(storm)[0] == ("i0", 1)
        assert self.counts(storm) == (3, 3, 0, 0)
        for number in (1, 2):
            self.change(storm, number, 2, transition="resolved")
        storm.settle(5)
        assert self.counts(storm) == (3, 1, 2, 0)
        storm.now += 54
        assert storm.dispatcher.to_read() == []
        storm.now += 6
        assert storm.dispatcher.to_read() == [(0, 3)]
        storm.dispatcher.requeue(make_transition(incident="i3"), 0, 3)
        storm.settle()
        storm.settle(5)
        assert seqs(storm)[-2:] == [("i3", 1), (storm.sink.sent[-1][1], 3)]
        assert self.counts(storm) == (3, 0, 2, 1)
        self.change(storm, 3, 2, transition="resolved")
        storm.settle()
        storm.settle(5)
        assert self.counts(storm) == (3, 0, 3, 0)
        assert {ts for _, name, _, ts in storm.sink.sent if name.startswith("~")} == {"", "2.0"}

    def test_one_that_becomes_critical_gets_a_message_of_its_own(self, storm: Bench) -> None:
        self.change(storm, 2, 2, transition="updated", severity="critical")
        storm.settle()
        assert seqs(storm)[-1] == ("i2", 2)
        storm.settle(5)
        assert self.counts(storm) == (3, 2, 0, 1)

    def test_one_whose_own_message_is_refused_stays_in_the_digest(self, storm: Bench) -> None:
        storm.sink.answers.extend([TOO_LONG] * 2)
        self.change(storm, 2, 2, transition="updated", severity="critical")
        storm.settle()
        self.change(storm, 1, 2, transition="resolved")
        storm.settle(5)
        assert self.counts(storm) == (3, 2, 1, 0)

    @pytest.mark.parametrize("answers", [[TOO_LONG] * 2, [AWAY] * 40], ids=["refused", "away"])
    def test_a_digest_is_never_given_up(self, answers: list[Outcome]) -> None:
        bench = Bench(digest_above=1)
        bench.say(make_transition(incident="i0"))
        bench.settle()
        bench.say(make_transition(incident="i1"))
        bench.sink.answers.extend(answers)
        bench.settle()
        for _ in range(60):
            bench.settle(3_600)
        assert self.counts(bench) == (1, 1, 0, 0)
        assert [(e.state, bool(e.ts)) for _, e in bench.log.entries() if e.incident.startswith("~")] == [("sent", True)]
        assert bench.dispatcher.undelivered() == 0

    def test_a_defect_in_counting_a_storm_delays_its_digest_and_nothing_else(self, storm: Bench) -> None:
        self.change(storm, 1, 2, transition="updated")
        digest = next(one for one in storm.sink.sent if one[1].startswith("~"))[1]
        waiting = storm.dispatcher.outbox.get(digest)
        assert waiting is not None
        whole, waiting.summary = waiting.summary, lambda: 1 // 0  # type: ignore[assignment,return-value]
        storm.settle(5)
        self.change(storm, 0, 2, transition="updated")
        storm.settle(0.5)
        assert seqs(storm)[-1] == ("i0", 2)
        failed = metric(storm.board, "flinkwatch_notifications_failed_total", integration="slack", reason="other")
        assert failed == 1
        waiting.summary = whole
        storm.settle(60)
        assert seqs(storm)[-1] == (digest, 2)

    def test_a_storm_that_is_over_before_its_digest_is_sent_is_not_told(self) -> None:
        bench = Bench(digest_above=1)
        bench.sink.answers.append(LIMITED)
        bench.say(make_transition(incident="i0"), make_transition(incident="i1"))
        bench.settle()
        self.change(bench, 1, 2, transition="resolved")
        bench.settle(60)
        assert seqs(bench) == [("i0", 1), ("i0", 1)]
        assert len(bench.dispatcher.outbox) == 0


class TestSilences:
    SILENCED = make_transition(seq=2, transition="updated", silence=Silenced("a1", 1 << 42, "ann", "backfill"))

    @pytest.mark.parametrize(("found", "sent"), [(None, [1]), (Found("C1", "7.7", 1), [1, 2])], ids=["lost", "stands"])
    def test_under_a_silence_a_lost_message_is_looked_up_and_not_sent_again(
        self, bench: Bench, found: Found | None, sent: list[int]
    ) -> None:
        bench.sink.answers.append(LOST)
        bench.sink.finds.append(found)
        bench.say(OPENED)
        bench.settle()
        bench.say(self.SILENCED)
        bench.settle(60)
        assert [one[2] for one in bench.sink.sent] == sent
        assert len(bench.dispatcher.outbox) == 0
        assert (bench.entry(OPENED.incident) is None) == (found is None)
        suppressed = {"integration": "slack", "reason": "silence"}
        told = metric(bench.board, "flinkwatch_notifications_suppressed_total", **suppressed)
        assert (told or 0) == int(found is None)

    def test_one_of_a_digest_whose_own_message_is_lost_under_a_silence_is_counted_there_as_silenced(self) -> None:
        bench = Bench(digest_above=1)
        bench.say(make_transition(incident="i0"), make_transition(incident="i1"))
        bench.settle()
        bench.settle(120)
        bench.sink.answers.append(LOST)
        bench.say(make_transition(incident="i1", seq=2, transition="updated", severity="critical"))
        bench.settle()
        bench.say(replace(self.SILENCED, incident="i1", seq=3))
        for _ in range(4):
            bench.settle(10)
        entry = bench.entry("i1")
        assert entry is not None
        assert entry.folded is not None
        assert (entry.state, entry.ts, entry.silenced, entry.folded.has_own_message) == ("folded", "", True, False)
        summary = bench.sink.notifications[-1].summary
        assert summary is not None
        assert (summary.total, summary.open, summary.silenced) == (1, 0, 1)
        # Neither digests nor a message that turns out to be missing are notifications whose delay counts.
        delays = metric(bench.board, "flinkwatch_notification_delay_seconds_count", integration="slack")
        assert delays == len(bench.sink.followed)
