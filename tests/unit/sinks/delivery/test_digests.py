"""The digests of a storm by themselves: what they count, when one ends, and what of it is told alone afterwards."""

import msgspec
import pytest

from sinks.contract.digest import PREFIX, Folded
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.delivery.outbox import Clocks, Outbox
from sinks.delivery.storm import Storms
from tests.unit.sinks.memory_kafka import TOPICS, MemoryKafka
from tests.unit.sinks.samples import make_transition

BEGAN = 1_700_000_000_000
HOUR = 3_600_000
MINUTE = 60_000
SILENCE = {"id": "a1", "until": BEGAN + HOUR, "author": "ann", "comment": "backfill"}


class Digests:
    """The digests of one receiver with a log and an outbox; one partition is ours."""

    def __init__(self, limit: int = 30) -> None:
        self.log = NotificationLog(MemoryKafka().producer(), TOPICS.deliveries, "slack")
        self.log.load(0, ())
        self.outbox = Outbox()
        self.now_ms = BEGAN
        self.storms = Storms(self.log, self.outbox, limit, Clocks(lambda: 0.0, lambda: self.now_ms / 1000))

    def fold(self, incident: str, at: int = BEGAN, **changes: object) -> None:
        self.now_ms = at
        self.storms.fold(make_transition(incident=incident, **changes), 0, 0)

    def change(self, incident: str, at: int = BEGAN, **changes: object) -> bool:
        known = self.log.get(0, incident)
        assert known is not None
        one = make_transition(incident=incident, **{"seq": known.seq + 1, "transition": "updated", **changes})
        self.now_ms = at
        return self.storms.change(known, one, 0, 1)

    def told(self) -> None:
        """The digest that waits has been sent."""
        self.outbox.done(f"{PREFIX}{BEGAN}")


def sent(incident: str, at: int = BEGAN, **more: object) -> Entry:
    return msgspec.convert({"incident": incident, "seq": 1, "state": "sent", "at": at, **more}, Entry)


@pytest.fixture
def digests() -> Digests:
    return Digests()


def test_a_digest_counts_its_incidents_for_as_long_as_the_log_knows_them(digests: Digests) -> None:
    digests.fold("over")
    digests.fold("open")
    digests.change("over", seq=2, transition="resolved")
    digests.told()
    digests.storms.ended(BEGAN + 2 * HOUR, 10)
    assert (digests.storms.summary(BEGAN).total, digests.storms.summary(BEGAN).open) == (2, 1)
    digests.log.forget_resolved(BEGAN + 1)
    assert digests.storms.summary(BEGAN).total == 1


def test_a_change_of_an_incident_with_its_own_message_hours_later_leaves_the_counts_of_its_digest(
    digests: Digests,
) -> None:
    digests.fold("i")
    known = digests.log.get(0, "i")
    assert known is not None
    assert known.folded is not None
    alone = msgspec.structs.replace(known.folded, has_own_message=True)
    digests.log.set_soon(0, "i", msgspec.structs.replace(known, state="sent", ts="1.1", folded=alone))
    digests.told()
    digests.storms.ended(BEGAN + 2 * HOUR, 10)
    sent = digests.log.get(0, "i")
    assert sent is not None
    digests.storms.refresh(sent)
    queued = digests.outbox.get(f"{PREFIX}{BEGAN}")
    assert queued is not None
    assert queued.summary is not None
    assert (queued.summary().total, queued.summary().with_own_message) == (1, 1)


def test_what_comes_an_hour_after_a_digest_began_gets_another_one(digests: Digests) -> None:
    digests.fold("first")
    digests.fold("within", at=BEGAN + HOUR - 1)
    digests.fold("after", at=BEGAN + HOUR)
    assert digests.storms.summary(BEGAN).total == 2
    assert digests.storms.summary(BEGAN + HOUR).total == 1


def test_once_it_is_calm_what_is_open_gets_a_message_of_its_own(digests: Digests) -> None:
    """But for what is silenced, over, or old."""
    for name in ("open", "silenced", "over"):
        digests.fold(name)
    digests.storms.fold(make_transition(incident="old"), 0, 0, backlog=True)
    digests.change("silenced", silence=SILENCE)
    digests.change("over", transition="resolved")
    assert digests.storms.ended(BEGAN + MINUTE - 1, 10) == []
    assert len(digests.storms.ended(BEGAN + MINUTE, 10)) == 1
    assert digests.storms.ended(BEGAN + MINUTE, 0) == []


def test_a_storm_with_more_than_the_limit_still_open_is_not_told_one_by_one() -> None:
    digests = Digests(limit=2)
    for number in range(3):
        digests.fold(f"i{number}")
    assert digests.storms.ended(BEGAN + HOUR - 1, 10) == []
    digests.change("i0", transition="resolved")
    assert len(digests.storms.ended(BEGAN + HOUR - 1, 10)) == 2


def test_one_that_becomes_critical_gets_a_message_of_its_own_unless_it_is_silenced_or_over(digests: Digests) -> None:
    for name in ("grows", "silenced", "over", "stays"):
        digests.fold(name, severity="critical" if name == "stays" else "warning")
    assert not digests.change("grows", severity="critical")
    assert digests.change("silenced", severity="critical", silence=SILENCE)
    assert digests.change("over", severity="critical", transition="resolved")
    assert digests.change("stays", severity="critical")
    assert digests.change("stays", severity="warning")


def test_one_whose_silence_ends_gets_a_message_of_its_own(digests: Digests) -> None:
    digests.fold("i")
    assert digests.change("i", silence=SILENCE)
    assert digests.storms.summary(BEGAN).silenced == 1
    assert not digests.change("i")


def test_an_older_change_is_passed_over(digests: Digests) -> None:
    digests.fold("i", seq=5)
    assert digests.change("i", seq=5, severity="critical")
    assert digests.storms.summary(BEGAN).severities == {"warning": 1}


@pytest.mark.parametrize(("over", "alone", "total"), [(False, False, 1), (True, False, 0), (False, True, 0)])
def test_what_another_process_folded_goes_on_in_a_digest_of_ours_while_it_is_told_nowhere_else(
    digests: Digests, over: bool, alone: bool, total: int
) -> None:
    """The digest it was in is in a partition of somebody else."""
    one = Folded(
        storm=BEGAN,
        kind="k",
        cluster="c",
        job="j",
        severity="warning",
        since=BEGAN,
        resolved=over,
        has_own_message=alone,
    )
    entry = Entry(incident="i", seq=1, state="folded", at=BEGAN, folded=one)
    digests.log.load(1, [(b"slack/i", msgspec.json.encode(entry))])
    digests.now_ms = BEGAN + MINUTE
    digests.storms.take_over(1)
    assert digests.storms.summary(BEGAN + MINUTE).total == total


def folded_entry(incident: str, storm: int = BEGAN, **changes: object) -> Entry:
    one = {"storm": storm, "kind": "k", "cluster": "c", "job": "j", "severity": "warning", "since": BEGAN}
    return sent(incident, state="folded", folded=one, **changes)


def load(digests: Digests, partition: int, *entries: Entry) -> None:
    """A partition becomes ours, and its log holds these entries."""
    digests.log.load(partition, [(f"slack/{e.incident}".encode(), msgspec.json.encode(e)) for e in entries])
    digests.storms.take_over(partition)


def digest_sent(digests: Digests, ts: str = "7.7") -> None:
    """The log knows a try to send the digest that waits, with a message if `ts` names one."""
    digests.told()
    digests.log.remember(0, f"{PREFIX}{BEGAN}", sent(f"{PREFIX}{BEGAN}", channel="C1", ts=ts))


def test_a_digest_is_sent_at_once_and_edited_five_seconds_after_a_change(digests: Digests) -> None:
    digests.fold("i")
    assert digests.outbox.next_due() == 0.0
    digest_sent(digests)
    digests.change("i")
    waiting = digests.outbox.get(f"{PREFIX}{BEGAN}")
    assert waiting is not None
    assert (waiting.due, waiting.method, waiting.transition.seq) == (5.0, "edit", 2)


def test_a_digest_whose_message_is_not_known_counts_as_a_new_message(digests: Digests) -> None:
    digests.fold("i")
    digest_sent(digests, ts="")
    digests.change("i")
    waiting = digests.outbox.get(f"{PREFIX}{BEGAN}")
    assert waiting is not None
    assert waiting.method == "post"


def test_twice_as_many_critical_incidents_as_others_get_messages_of_their_own_within_a_minute() -> None:
    storms = Digests(limit=2).storms
    critical, warning = make_transition(severity="critical"), make_transition(severity="warning")
    assert [storms.floods(critical) for _ in range(5)] == [False] * 4 + [True]
    assert [storms.floods(warning) for _ in range(3)] == [False] * 2 + [True]


def test_one_that_becomes_critical_stays_in_the_digest_if_the_channel_can_take_no_more() -> None:
    digests = Digests(limit=1)
    for name in ("a", "b", "c"):
        digests.fold(name)
    assert [digests.change(name, severity="critical") for name in ("a", "b", "c")] == [False, False, True]
    assert digests.storms.summary(BEGAN).severities == {"critical": 1, "warning": 2}


def test_what_is_deleted_from_the_log_is_in_no_digest(digests: Digests) -> None:
    for name in ("deleted", "sent since", "open"):
        digests.fold(name)
    digests.log.set_soon(0, "deleted", None)
    digests.log.set_soon(0, "sent since", sent("sent since"))
    assert digests.storms.summary(BEGAN).total == 1
    assert len(digests.storms.ended(BEGAN + MINUTE, 10)) == 1


def test_a_silenced_incident_that_resolves_counts_as_resolved(digests: Digests) -> None:
    digests.fold("i")
    digests.change("i", silence=SILENCE)
    digests.change("i", silence=SILENCE, transition="resolved")
    summary = digests.storms.summary(BEGAN)
    assert (summary.total, summary.resolved, summary.silenced) == (1, 1, 0)


def test_an_incident_goes_into_the_newest_digest(digests: Digests) -> None:
    digests.fold("first")
    digests.fold("second", at=BEGAN + HOUR)
    digests.fold("third", at=BEGAN + HOUR + MINUTE)
    assert [digests.storms.summary(storm).total for storm in (BEGAN, BEGAN + HOUR)] == [1, 2]


def test_an_entry_that_is_folded_but_lost_its_content_changes_nothing(digests: Digests) -> None:
    digests.log.remember(0, "i", sent("i", state="folded"))
    assert digests.change("i")
    assert len(digests.outbox) == 0


class TestMovedPartitions:
    """Partitions that come and go while a storm lasts."""

    def test_a_digest_whose_entry_is_ours_continues_with_the_incidents_of_a_partition_that_comes(
        self, digests: Digests
    ) -> None:
        digest_sent(digests)
        digests.now_ms = BEGAN + MINUTE
        load(digests, 1, sent("own message"), folded_entry("i"))
        assert digests.storms.summary(BEGAN).total == 1
        assert f"{PREFIX}{BEGAN}" in digests.outbox
        assert digests.storms.ended(BEGAN + MINUTE, 10) == [(1, -1)]

    def test_what_another_process_has_put_into_its_digest_meanwhile_is_no_longer_in_ours(
        self, digests: Digests
    ) -> None:
        digest_sent(digests)
        load(digests, 1, folded_entry("i"))
        digests.fold("j")
        digests.storms.release(1)
        digests.log.drop(1)
        load(digests, 1, folded_entry("i", BEGAN + MINUTE), sent(f"{PREFIX}{BEGAN + MINUTE}", channel="C1", ts="8.8"))
        assert [digests.storms.summary(storm).total for storm in (BEGAN, BEGAN + MINUTE)] == [1, 1]

    def test_a_digest_without_a_partition_of_ours_gets_no_more_incidents(self, digests: Digests) -> None:
        digests.fold("i")
        digests.storms.release(0)
        digests.outbox.drop(0)
        digests.log.drop(0)
        digests.log.load(1, ())
        digests.now_ms = BEGAN + MINUTE
        digests.storms.fold(make_transition(incident="j"), 1, 0)
        assert f"{PREFIX}{BEGAN + MINUTE}" in digests.outbox
        assert f"{PREFIX}{BEGAN}" not in digests.outbox


def test_what_was_deleted_from_the_log_is_not_known_and_what_was_written_is() -> None:
    kafka = MemoryKafka()
    log = NotificationLog(kafka.producer(), TOPICS.deliveries, "slack")
    assert not log.is_failing
    i, j = (msgspec.json.encode(Entry(incident=name, seq=1, state="sent", at=BEGAN)) for name in "ij")
    assert log.load(0, [(b"slack/i", i), (b"slack/i", None), (b"slack/j", j)]) == []
    assert (log.get(0, "i"), log.get(0, "j") is not None) == (None, True)
    log.set_soon(0, "i", Entry(incident="i", seq=1, state="sent", at=BEGAN))
    assert not log.is_failing


def test_a_log_fails_from_a_write_that_the_brokers_refuse_until_one_that_they_take() -> None:
    kafka = MemoryKafka()
    log = NotificationLog(kafka.producer(), TOPICS.deliveries, "slack")
    kafka.refuse_writes = True
    assert not log.try_set(0, "i", sent("i"))
    assert log.is_failing
    kafka.refuse_writes = False
    assert log.try_set(0, "i", sent("i"))
    assert not log.is_failing


class Producer:
    """Notes what is written and waited for, and whether it was closed."""

    def __init__(self) -> None:
        self.keys: list[tuple[bytes, bool]] = []
        self.waited = 0
        self.closed = False

    def send(self, _topic: str, *, key: bytes, value: bytes | None, partition: int) -> "Producer":
        assert partition == 0
        self.keys.append((key, value is not None))
        return self

    def get(self, timeout: float) -> None:
        assert timeout > 0
        self.waited += 1

    def close(self, timeout: float) -> None:
        assert timeout > 0
        self.closed = True


def test_a_flush_waits_once_for_what_was_written_since_the_last_one() -> None:
    producer = Producer()
    log = NotificationLog(producer, TOPICS.deliveries, "slack")
    for name in ("i", "j"):
        log.set_soon(0, name, sent(name))
    log.flush()
    log.flush()
    assert producer.waited == 2


def test_a_log_that_is_written_again_has_all_of_it_and_nothing_of_the_old_producer_is_waited_for() -> None:
    old, new = Producer(), Producer()
    log = NotificationLog(old, TOPICS.deliveries, "slack")
    for name in ("i", "j"):
        log.set_soon(0, name, sent(name))
    log.set_soon(0, "deleted", None)
    log.write_again(new)
    log.flush()
    assert old.closed
    assert not old.waited
    assert new.keys == [(b"slack/i", True), (b"slack/j", True)]
    assert new.waited == 2


def test_what_has_ended_is_taken_out_of_the_log_with_digests_that_count_nothing_any_more() -> None:
    one = {"storm": BEGAN, "kind": "k", "cluster": "c", "job": "j", "severity": "warning", "since": BEGAN}
    producer = Producer()
    log = NotificationLog(producer, TOPICS.deliveries, "slack")
    log.remember(0, "open", sent("open"))
    log.remember(0, "over", sent("over", resolved=True))
    log.remember(0, "late", sent("late", at=BEGAN + 1, resolved=True))
    log.remember(0, "given up", sent("given up", resolved=True, state="undelivered"))
    log.remember(0, "counted", sent("counted", state="folded", folded=one))
    log.remember(0, f"{PREFIX}{BEGAN}", sent(f"{PREFIX}{BEGAN}"))
    log.remember(
        0, "folded and over", sent("folded and over", state="folded", resolved=True, folded={**one, "storm": 7})
    )
    log.remember(0, f"{PREFIX}7", sent(f"{PREFIX}7"))
    log.forget_resolved(BEGAN + 1)
    assert [key.decode() for key, _ in producer.keys] == ["slack/over", "slack/folded and over", f"slack/{PREFIX}7"]
