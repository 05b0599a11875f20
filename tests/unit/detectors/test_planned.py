"""What healthy clusters do that must not be taken for an incident, and what must be although it looks planned."""

from detectors.events.event import Event
from tests.unit.detectors.streams import START, in_order, log, metric, run

JOB, OTHER = "a" * 32, "b" * 32
MINUTE = 60_000


def trigger(n: int, at: int, job: str = JOB, kind: str = "CHECKPOINT") -> Event:
    return log("checkpoint_triggered", at, checkpoint=str(n), job=job, type=kind, epoch=str(START + at))


def done(n: int, at: int, job: str = JOB) -> Event:
    return log("checkpoint_completed", at, checkpoint=str(n), job=job, bytes="1", duration="1000")


def expired(n: int, at: int, job: str = JOB) -> Event:
    return log("checkpoint_expired", at, checkpoint=str(n), job=job)


def state(new: str, at: int, job: str = JOB) -> Event:
    return log("job_state", at, job=job, name="orders", before="X", state=new)


def usual(first: int, count: int, start: int = 0, job: str = JOB) -> list[Event]:
    pairs = [
        (trigger(first + n, start + n * MINUTE, job), done(first + n, start + n * MINUTE + 1_000, job))
        for n in range(count)
    ]
    return [event for pair in pairs for event in pair]


def causes(*events: Event, until: int = 60 * MINUTE) -> list[str]:
    return [t.cause for t in run(in_order(events), until=START + until) if t.transition == "opened"]


def test_a_checkpoint_that_hangs_is_said() -> None:
    """The streams below would be, too, but for what they show."""
    assert causes(*usual(1, 9), trigger(10, 9 * MINUTE)) == ["checkpoint_overdue"]


def test_a_savepoint_may_take_its_time() -> None:
    assert causes(*usual(1, 9), trigger(10, 9 * MINUTE, kind="SavepointType{name='Savepoint'}")) == []


def test_a_checkpoint_in_flight_ends_with_its_job_or_its_cluster() -> None:
    hung = [*usual(1, 9), trigger(10, 9 * MINUTE)]
    for new in ("CANCELLING", "FINISHED", "SUSPENDED", "RESTARTING"):
        assert causes(*hung, state(new, 9 * MINUTE + 5_000)) == [], new
    assert causes(*hung, state("FAILED", 9 * MINUTE + 5_000)) == ["job_failed"]
    assert causes(*hung, log("cluster_ending", 9 * MINUTE + 5_000, what="X", status="SUCCEEDED")) == []


def test_a_completed_line_that_was_lost_is_made_up_for_by_the_gauge() -> None:
    gauge = metric("checkpoints_in_progress", 9 * MINUTE + 10_000, 0.0, job_id=JOB)
    assert causes(*usual(1, 9), trigger(10, 9 * MINUTE), gauge) == []


def test_a_completed_line_that_was_lost_is_made_up_for_by_the_next_trigger() -> None:
    """Flink triggers the next one when the last has ended, by default."""
    soon = [trigger(11, 9 * MINUTE + 20_000), done(11, 9 * MINUTE + 21_000)]
    assert causes(*usual(1, 9), trigger(10, 9 * MINUTE), *soon) == []
    late = [trigger(11, 10 * MINUTE), done(11, 10 * MINUTE + 1_000)]
    said = run(in_order([*usual(1, 9), trigger(10, 9 * MINUTE), *late]), until=START + 15 * MINUTE)
    assert [t.transition for t in said] == ["opened", "resolved"]
    assert said[-1].reason == "checkpoint 11 was triggered after it"


def test_lines_that_a_shipper_holds_back_are_waited_for() -> None:
    """A trigger that arrives at once and a completion that arrives 50 s later, with the next trigger."""
    for lag in (100, 50_000):
        pairs = [
            (trigger(n, n * MINUTE), log("checkpoint_completed", n * MINUTE + 1_000, 0, "jm", lag, **fields))
            for n in range(1, 12)
            for fields in [{"checkpoint": str(n), "job": JOB, "bytes": "1", "duration": "900"}]
        ]
        held = [event for pair in pairs for event in pair]
        assert causes(*held) == [], lag
        assert causes(*held, trigger(12, 12 * MINUTE)) == ["checkpoint_overdue"], lag


def test_of_concurrent_checkpoints_the_hung_one_is_said_although_others_are_triggered() -> None:
    both = [
        trigger(10, 9 * MINUTE),
        trigger(11, 9 * MINUTE + 500),
        done(10, 9 * MINUTE + 900),
        done(11, 9 * MINUTE + 1_000),
    ]
    assert causes(*usual(1, 9), *both, trigger(12, 10 * MINUTE), trigger(13, 11 * MINUTE)) == ["checkpoint_overdue"]


def test_numbers_that_jump_back_after_a_restore_are_watched_as_before() -> None:
    again = [*usual(1, 9), state("RESTARTING", 10 * MINUTE), log("job_restored", 10 * MINUTE + 10, job=JOB)]
    assert causes(*again, *usual(3, 5, 11 * MINUTE)) == []
    assert causes(*again, *usual(3, 5, 11 * MINUTE), trigger(8, 16 * MINUTE)) == ["checkpoint_overdue"]


def test_an_overdue_checkpoint_is_over_when_one_completes_after_a_restore_from_an_older_one() -> None:
    hung = [*usual(1, 9), trigger(10, 9 * MINUTE), state("RESTARTING", 11 * MINUTE)]
    said = run(in_order([*hung, *usual(3, 3, 12 * MINUTE)]), until=START + 20 * MINUTE)
    assert [t.transition for t in said] == ["opened", "resolved"]


def test_a_notice_without_an_expiry_is_nothing() -> None:
    """Declined checkpoints, restarts and cancels are noticed as aborted, too."""
    notice = log("checkpoint_abort_noticed", 9 * MINUTE, 0, "tm-1", checkpoint="10")
    assert causes(*usual(1, 9), notice, *usual(11, 3, 11 * MINUTE)) == []


def test_a_notice_belongs_to_the_job_its_taskmanager_works_for() -> None:
    place = [log("tm_started", 0, 0, "tm-1", tm="tm-1"), metric("records_in", 10, 5.0, job_id=OTHER, tm_id="tm_1")]
    late = [expired(10, 9 * MINUTE), log("checkpoint_abort_noticed", 9 * MINUTE + 4_000, 0, "tm-1", checkpoint="10")]
    assert causes(*place, *usual(1, 9), *late) == ["checkpoint_overdue"]
    assert run(in_order([*place, *usual(1, 9), *late]))[-1].cause == "checkpoint_overdue"
    mine = [place[0], metric("records_in", 10, 5.0, job_id=JOB, tm_id="tm_1")]
    assert run(in_order([*mine, *usual(1, 9), *late]))[-1].cause == "late_barrier_acks"


def test_many_expiries_after_the_late_one_do_not_lose_the_open_finding() -> None:
    late = [
        log("checkpoint_acked_late", 9 * MINUTE + n, checkpoint="1", job=JOB, attempt=str(n) * 32) for n in range(3)
    ]
    many = [expired(1, 8 * MINUTE), *late, *(expired(n, (9 + n) * MINUTE) for n in range(2, 12))]
    said = run(in_order([*many, *usual(12, 3, 22 * MINUTE)]), until=START + 40 * MINUTE)
    assert (said[-1].transition, said[-1].cause) == ("resolved", "late_barrier_acks")


def lost(tm: str, at: int) -> Event:
    return log("tm_unreachable", at, tm=tm)


def registered(tm: str, at: int) -> Event:
    return log("tm_registered", at, tm=tm)


def closed(tm: str, at: int, reason: str) -> Event:
    return log("tm_closed", at, tm=tm, reason=reason)


def test_a_taskmanager_that_says_goodbye_is_not_lost_whichever_line_comes_first() -> None:
    bye = "The TaskExecutor is shutting down."
    for first, second in ((closed("t", 0, bye), lost("t", 1_000)), (lost("t", 0), closed("t", 1_500, bye))):
        assert causes(first, second) == []
    assert causes(lost("t", 0)) == ["taskmanager_lost"]


def test_containers_that_flink_releases_are_not_lost_and_those_that_yarn_kills_are() -> None:
    released = "Container killed by the ApplicationMaster. Exit code is 143"
    assert causes(closed("t", 0, released), lost("t", 900)) == []
    killed = "Container [pid=1] is running beyond the 'PHYSICAL' memory limit. Killing container. Exit code is 143"
    signal = [log("tm_started", 0, 0, "tm", tm="t"), log("process_signalled", 1_000, 0, "tm", signal="15")]
    assert causes(*signal, closed("t", 1_500, killed)) == ["memory_limit_kill"]
    assert causes(*signal, lost("t", 1_500)) == []


def test_a_signal_to_one_taskmanager_is_no_excuse_for_another() -> None:
    both = [log("tm_started", 0, 0, s, tm=s) for s in ("t1", "t2")]
    assert causes(*both, log("process_signalled", 1_000, 0, "t1", signal="15"), lost("t2", 2_000)) == [
        "taskmanager_lost"
    ]


def test_what_the_jobmaster_still_says_of_a_replaced_taskmanager_is_no_second_loss() -> None:
    said = run(in_order([lost("t", 0), registered("u", 10_000), lost("t", 40_000)]), until=START + 10 * MINUTE)
    assert [t.transition for t in said] == ["opened", "resolved"]


def test_an_old_registration_that_is_told_again_ends_no_loss() -> None:
    again = log("tm_registered", 0, 9, lag=20_000, tm="u")
    said = run(in_order([registered("u", 0), lost("t", 10_000), again]), until=START + 10 * MINUTE)
    assert [t.transition for t in said] == ["opened"]
