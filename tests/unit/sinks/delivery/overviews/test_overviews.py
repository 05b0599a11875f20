"""Overviews on a clock that is set by hand: each is sent once, late ones within two hours, and no time is left out."""

from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from detectors.incidents.known_issues import IssueCatalogue
from sinks.contract.outcome import Found, Refused, RetryAfter, Unknown
from sinks.contract.overview import Overview, Period, ScheduledOverview, overview
from sinks.contract.overview_schedule import OverviewSchedule
from sinks.delivery.notification_log import Entry
from sinks.delivery.overviews.overviews import LATE_MS, SETTLE_MS, Overviews
from tests.unit.sinks.samples import make_transition
from tests.unit.sinks.scripted import Bench

HOUR_S = 3600.0
SHIFT_S = 12 * HOUR_S
SETTLE_S = SETTLE_MS / 1000
MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC).timestamp()


class Shifts(Bench):
    """A receiver with overviews at 08:00 and 20:00 UTC. The process starts at 12:00."""

    def __init__(self, first: "Shifts | None" = None, *, at_s: float = 12 * HOUR_S, **schedule: Any) -> None:
        one = {"name": "shift", "at": ["08:00", "20:00"], "to": ["slack"], **schedule}
        super().__init__(overviews=(OverviewSchedule.model_validate(one),))
        self.wall_s = MIDNIGHT - self.now + at_s
        self.periods: list[tuple[float, float]] = []
        self.answers: list[Future[Overview]] = []
        self.busy = False
        if first is not None:
            self.take_log_of(first)
        self.overviews = Overviews(self.receiver, self.log, self.dispatcher.outbox, self.dispatcher.clocks, self.read)

    def take_log_of(self, other: "Shifts") -> None:
        """As a new owner of the partition does."""
        self.log.load(0, other.kafka.read_notification_log(0))

    def read(self, since: int, until: int) -> Future[Overview]:
        self.periods.append((hours(since), hours(until)))
        if self.answers:
            return self.answers.pop(0)
        found: Future[Overview] = Future()
        period = Period(since, until)
        if self.busy:
            period.add(make_transition(incident="a", at=since, opened_at=since))
        found.set_result(overview(period, IssueCatalogue()))
        return found

    def go_to(self, clock_s: float) -> None:
        """Lets time pass until so long after midnight, and works until nothing is due."""
        self.now = MIDNIGHT - self.wall_s + clock_s
        for _ in range(3):
            self.now += 1.0
            self.overviews.queue_due()
            self.settle()

    def sent(self) -> list[float]:
        """The times of what was sent, in hours after midnight."""
        return [hours(int(incident.rpartition("/")[2])) for _, incident, _, _ in self.sink.sent]

    def shown(self) -> ScheduledOverview:
        content = self.sink.notifications[-1].summary
        assert isinstance(content, ScheduledOverview)
        return content


def hours(epoch_ms: int) -> float:
    return (epoch_ms / 1000 - MIDNIGHT) / HOUR_S


@pytest.fixture
def shifts() -> Shifts:
    made = Shifts()
    made.go_to(12 * HOUR_S)
    return made


def test_a_new_schedule_begins_with_its_next_time(shifts: Shifts) -> None:
    assert shifts.sent() == []
    shifts.go_to(20 * HOUR_S + SETTLE_S)
    assert (shifts.sent(), shifts.periods) == ([20], [(8, 20)])


def test_an_overview_waits_for_the_last_changes_before_its_time(shifts: Shifts) -> None:
    shifts.go_to(20 * HOUR_S + SETTLE_S - 4)
    assert shifts.periods == []


def test_each_overview_is_sent_once_and_covers_the_time_since_the_one_before(shifts: Shifts) -> None:
    for clock in (20.1, 21, 24, 32.1, 33):
        shifts.go_to(clock * HOUR_S)
    assert (shifts.sent(), shifts.periods) == ([20, 32], [(8, 20), (20, 32)])
    assert not shifts.shown().is_longer
    known = [entry.incident for _, entry in shifts.log.entries()]
    assert [hours(int(name.rpartition("/")[2])) for name in known] == [8, 20, 32]


def test_another_process_does_not_send_it_again(shifts: Shifts) -> None:
    shifts.go_to(20.1 * HOUR_S)
    other = Shifts(shifts, at_s=20.2 * HOUR_S)
    other.go_to(20.2 * HOUR_S)
    assert other.sent() == []


def test_only_the_owner_of_the_first_partition_sends(shifts: Shifts) -> None:
    shifts.dispatcher.release(0)
    shifts.go_to(20.1 * HOUR_S)
    assert (shifts.sent(), shifts.periods) == ([], [])


def test_what_waits_when_the_partition_is_lost_is_left_to_its_new_owner(shifts: Shifts) -> None:
    shifts.sink.answers.append(RetryAfter(60.0, "busy", "rateLimited"))
    shifts.go_to(20.1 * HOUR_S)
    shifts.dispatcher.release(0)
    shifts.go_to(20.3 * HOUR_S)
    assert shifts.sent() == [20]
    other = Shifts(shifts, at_s=20.3 * HOUR_S)
    other.go_to(20.3 * HOUR_S)
    assert other.sent() == [20]


def test_an_overview_is_looked_up_if_the_process_was_killed_before_the_answer(shifts: Shifts) -> None:
    shifts.sink.on_send = _die
    with pytest.raises(KeyboardInterrupt):
        shifts.go_to(20.1 * HOUR_S)
    arrived, lost = Shifts(shifts, at_s=20.2 * HOUR_S), Shifts(shifts, at_s=20.2 * HOUR_S)
    arrived.sink.finds.append(Found("C1", "1.0", 1))
    arrived.go_to(20.2 * HOUR_S)
    lost.go_to(20.2 * HOUR_S)
    assert (arrived.sent(), lost.sent()) == ([], [20])
    assert [looked[1].rpartition("/")[0] for looked in arrived.sink.looked] == ["~overview/shift"]


def _die() -> None:
    raise KeyboardInterrupt


def test_a_lost_answer_is_looked_up_before_it_is_sent_again(shifts: Shifts) -> None:
    shifts.sink.answers.append(Unknown("no answer", "other"))
    shifts.sink.finds.append(Found("C1", "1.0", 1))
    shifts.go_to(20.1 * HOUR_S)
    shifts.go_to(20.2 * HOUR_S)
    assert shifts.sent() == [20]


@pytest.mark.parametrize(("late_ms", "sent"), [(LATE_MS - 60_000, [20]), (LATE_MS + 1, [])])
def test_an_overview_whose_time_passed_while_the_process_was_down_is_sent_within_two_hours(
    shifts: Shifts, late_ms: int, sent: list[float]
) -> None:
    clock = 20 * HOUR_S + late_ms / 1000
    later = Shifts(shifts, at_s=clock)
    later.go_to(clock)
    assert later.sent() == sent


def test_the_next_overview_covers_the_time_of_one_that_was_not_sent_and_says_so(shifts: Shifts) -> None:
    later = Shifts(shifts, at_s=23 * HOUR_S)
    for clock in (23, 32.1):
        later.go_to(clock * HOUR_S)
    assert (later.sent(), later.periods) == ([32], [(8, 32)])
    assert later.shown().is_longer


def test_an_overview_that_is_refused_for_two_hours_is_given_up(shifts: Shifts) -> None:
    refused = Refused("not_in_channel", "invite it", "setup", "clientError")
    shifts.sink.answers.extend([refused] * 3)
    with capture_logs() as logs:
        for clock in (20.1, 21, 22.1, 23, 24):
            shifts.go_to(clock * HOUR_S)
    assert [line["event"] for line in logs].count("overview not sent in time, the next one covers its time") == 1
    assert shifts.sent() == [20, 20]
    shifts.sink.answers.clear()
    shifts.go_to(32.1 * HOUR_S)
    assert (shifts.sent()[-1], shifts.periods[-1]) == (32, (8, 32))


@pytest.mark.parametrize("clock", [23, 33])
def test_what_was_given_up_after_a_kill_no_longer_counts_as_perhaps_sent(shifts: Shifts, clock: float) -> None:
    shifts.sink.on_send = _die
    with pytest.raises(KeyboardInterrupt):
        shifts.go_to(20.1 * HOUR_S)
    later = Shifts(shifts, at_s=clock * HOUR_S)
    later.go_to(clock * HOUR_S)
    assert {entry.state for _, entry in later.log.entries()} == {"sent"}


def test_a_newer_overview_takes_the_place_of_one_that_waits() -> None:
    shifts = Shifts(at=["12:00", "13:00", "14:00"])
    shifts.go_to(12.1 * HOUR_S)
    shifts.sink.answers.append(RetryAfter(3 * HOUR_S, "busy", "other"))
    shifts.go_to(13.1 * HOUR_S)
    shifts.go_to(14.1 * HOUR_S)
    assert (shifts.sent(), len(shifts.dispatcher.outbox)) == ([13, 14], 0)


@pytest.mark.parametrize("busy", [False, True])
def test_an_empty_overview_is_left_out_if_it_is_not_wanted(busy: bool) -> None:
    shifts = Shifts(send_empty=False)
    shifts.busy = busy
    for clock in (12, 20.1, 32.1):
        shifts.go_to(clock * HOUR_S)
    assert shifts.sent() == ([20, 32] if busy else [])
    assert shifts.periods == [(8, 20), (20, 32)]


def test_an_empty_overview_is_sent_by_default(shifts: Shifts) -> None:
    shifts.go_to(20.1 * HOUR_S)
    assert shifts.shown().found.is_empty


def test_topics_that_cannot_be_read_are_read_again_a_little_later(shifts: Shifts) -> None:
    broken: Future[Overview] = Future()
    broken.set_exception(OSError("no broker"))
    shifts.answers.append(broken)
    with capture_logs() as logs:
        shifts.go_to(20.1 * HOUR_S)
        assert shifts.sent() == []
        shifts.go_to(20.2 * HOUR_S)
    assert shifts.sent() == [20]
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["overview could not be read"]


def test_reading_delays_no_notification(shifts: Shifts) -> None:
    shifts.answers.append(Future())
    shifts.go_to(20.1 * HOUR_S)
    shifts.say(make_transition(incident="i"))
    shifts.settle()
    assert [incident for _, incident, *_ in shifts.sink.sent] == ["i"]


def test_without_the_notification_log_a_new_schedule_waits(shifts: Shifts) -> None:
    other = Shifts()
    other.kafka.refuse_writes = True
    other.go_to(12 * HOUR_S)
    other.kafka.refuse_writes = False
    other.go_to(13 * HOUR_S)
    assert [entry.incident for _, entry in other.log.entries()] == [entry.incident for _, entry in shifts.log.entries()]


def test_two_schedules_of_one_receiver_are_sent_apart() -> None:
    shifts = Shifts()
    week = OverviewSchedule.model_validate({"name": "week", "at": ["20:00"], "days": ["sun"], "to": ["slack"]})
    both = msgspec.structs.replace(shifts.receiver, overviews=(*shifts.receiver.overviews, week))
    shifts.overviews = Overviews(both, shifts.log, shifts.dispatcher.outbox, shifts.dispatcher.clocks, shifts.read)
    shifts.go_to(12 * HOUR_S)
    shifts.go_to(20.1 * HOUR_S)
    assert shifts.sent() == [20, 20]
    assert sorted(shifts.periods) == [(-148, 20), (8, 20)]


def test_overviews_are_forgotten_with_what_resolved(shifts: Shifts) -> None:
    shifts.go_to(20.1 * HOUR_S)
    shifts.log.forget_resolved(shifts.now_ms() + 1)
    assert [entry.incident for _, entry in shifts.log.entries()] == []


def test_a_damaged_name_in_the_log_is_no_overview(shifts: Shifts) -> None:
    shifts.log.set(0, "~overview/shift/x", Entry(incident="~overview/shift/x", seq=1, state="sent", at=0))
    shifts.go_to(20.1 * HOUR_S)
    assert shifts.sent() == [20]
