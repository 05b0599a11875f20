"""Late acknowledgements: what proves them, where they lie, and advice: what helps one cause may harm another."""

import pytest

from detectors.events.event import Sample
from detectors.incident import Finding
from detectors.patterns.keep_state import KEEP_STATE
from tests.unit.detectors.containers import throttled
from tests.unit.detectors.story import JOB, MINUTE, SECOND, Story
from tests.unit.detectors.streams import START, encoded
from tests.unit.test_advice import first_danger

TM, OTHER_TM = "tm-2:6122-bbbbbb", "tm-1:6122-aaaaaa"
AT = 10 * MINUTE


class Job(Story):
    """A job whose checkpoints expire at AT and later. An `old` Flink does not export how busy a task is."""

    def __init__(self, *kinds: str, old: bool = False) -> None:
        super().__init__(*kinds)
        self.started: set[str] = set()
        self.old = old

    def late(self, count: int, number: int = 14, after: int = SECOND, apart: int = 0, tm: str = TM) -> "Job":
        """So many acknowledgements of a checkpoint, the first one `after` AT, from subtasks on one TaskManager."""
        fields = {"checkpoint": str(number), "job": JOB, "tm": tm, "host": tm.partition(":")[0]}
        for n in range(count):
            self.line("checkpoint_acked_late", AT + after + n * apart, attempt=f"{tm}_{number}_{n}", **fields)
        return self

    def reads(self, **rates: int) -> "Job":
        """Records that TaskManagers read each second, scraped for two minutes before AT."""
        for at in range(AT - 2 * MINUTE, AT, 30 * SECOND):
            for n, (tm, rate) in enumerate(rates.items()):
                labels = {"job_id": JOB, "tm_id": tm, "task_id": "t", "subtask_index": str(n)}
                self.scrape(Sample("records_in", labels, rate * at // 1000), at=at)
        return self

    def noticed(self, *tms: str, number: int = 14, after: int = SECOND) -> "Job":
        """Each of these TaskManagers notices that a checkpoint is aborted, once for each subtask."""
        for n, tm in enumerate(tms):
            self.by(tm.partition(":")[0])
            if tm not in self.started:
                self.started.add(tm)
                self.line("tm_started", 0, tm=tm)
            self.line("checkpoint_abort_noticed", AT + after + n, checkpoint=str(number))
        return self

    def holds(self, task: str, *tms: str, connections: int = -1) -> "Job":
        """A task, one subtask on each of these TaskManagers, is busy all the time, and a source waits for it."""
        for at in range(AT - MINUTE, AT + MINUTE, 30 * SECOND):
            for n, tm in enumerate(tms):
                labels = {"job_id": JOB, "tm_id": tm_label(tm), "subtask_index": str(n)}
                its = {**labels, "task_id": "t2", "task_name": task}
                self.scrape(
                    *([Sample("busy_time", its, 1000.0)] if not self.old else []),
                    Sample("in_pool_usage", its, 1.0),
                    Sample("backpressured_time", {**labels, "task_id": "t1", "task_name": "source"}, 990.0),
                    *([Sample("kafka_connections", its, float(connections))] if connections >= 0 else []),
                    at=at,
                )
        return self

    def finding(self) -> Finding:
        """The cause in the last transition of two minutes."""
        return self.transitions(AT + 2 * MINUTE)[-1].findings[0]


def job(expired: int = 14) -> Job:
    return Job("late_barrier_acks").runs(0).expired(expired, AT)


def tm_label(tm: str) -> str:
    return tm.replace("-", "_")


def test_three_late_acknowledgements_of_one_checkpoint_name_their_taskmanager() -> None:
    assert job().late(2).opened() == []
    history = job().late(3)
    assert [(t.transition, t.cause, t.severity) for t in history.transitions(AT + MINUTE)][:1] == [
        ("opened", "late_barrier_acks", "warning")
    ]
    finding = history.finding()
    assert (finding.entity["tm_id"], finding.entity["host"], finding.entity["checkpoint"]) == (TM, "tm-2", "14")
    assert finding.confidence == "sure"
    assert finding.summary.startswith("3 subtasks acknowledged checkpoint 14 up to 1 s after it expired, all on tm-2")


def test_a_place_is_named_only_when_most_late_subtasks_are_there() -> None:
    finding = job().late(2).late(2, tm=OTHER_TM).finding()
    assert (finding.entity["tm_id"], finding.confidence) == ("", "fair")
    assert job().late(4).late(1, tm=OTHER_TM).finding().entity["tm_id"] == TM
    assert "80% of them on tm-2" in job().late(4).late(1, tm=OTHER_TM).finding().summary


def test_a_taskmanager_that_has_used_up_its_cpu_limit_is_late_for_that_reason() -> None:
    starved = throttled(job().late(3).line("tm_registered", 0, tm=TM, host="tm-2"), "tm-2", AT)
    assert f"; TaskManager {TM} has used up its CPU limit" in starved.finding().summary


def test_an_acknowledgement_that_is_reported_twice_counts_once() -> None:
    assert job().late(2).late(2, after=3 * SECOND).opened() == []


def test_an_acknowledgement_long_after_the_expiry_does_not_belong_to_it() -> None:
    assert job().late(3, after=9 * MINUTE).opened() == ["late_barrier_acks"]
    assert job().late(3, after=11 * MINUTE).opened() == []


def test_an_acknowledgement_of_a_checkpoint_that_did_not_expire_is_nothing() -> None:
    assert job().late(3, number=13).opened() == []


def test_few_of_each_of_two_checkpoints_prove_it_too_and_more_are_critical() -> None:
    history = job().late(1).expired(15, AT + 30 * SECOND).late(1, 15, after=31 * SECOND)
    assert [t.severity for t in history.transitions(AT + MINUTE)] == ["warning"]
    history.expired(16, AT + 60 * SECOND).late(1, 16, after=61 * SECOND)
    assert [t.severity for t in history.transitions(AT + 2 * MINUTE)][-1] == "critical"
    assert "; 2 checkpoints affected so far" in history.finding().summary


@pytest.mark.parametrize("notice_after", [-2 * SECOND, 2 * SECOND])
def test_one_abort_notice_names_the_taskmanager_that_wrote_it_before_or_after_the_expiry(notice_after: int) -> None:
    history = job().by("tm-2").line("tm_started", 0, tm=TM)
    history.line("checkpoint_abort_noticed", AT + notice_after, checkpoint="14")
    assert history.opened() == ["late_barrier_acks"]
    assert history.finding().entity["tm_id"] == TM
    assert "barriers wait behind data" in history.finding().summary


def test_a_notice_of_another_checkpoint_is_nothing() -> None:
    history = job().by("tm-2").line("tm_started", 0, tm=TM)
    assert history.line("checkpoint_abort_noticed", AT + SECOND, checkpoint="13").opened() == []


def test_it_ends_after_two_checkpoints_in_a_row() -> None:
    history = job().late(3).completed(15, AT + MINUTE)
    assert [t.transition for t in history.transitions(AT + 4 * MINUTE)] == ["opened"]
    history.completed(16, AT + 2 * MINUTE)
    transitions = history.transitions(AT + 4 * MINUTE)
    assert [t.transition for t in transitions] == ["opened", "resolved"]
    assert transitions[-1].reason == "2 checkpoints in a row completed, the last is 16"


def test_an_expiry_between_two_completed_checkpoints_does_not_end_it() -> None:
    history = job().late(3).completed(15, AT + MINUTE).expired(16, AT + 90 * SECOND).completed(17, AT + 2 * MINUTE)
    assert "resolved" not in [t.transition for t in history.transitions(AT + 4 * MINUTE)]


@pytest.mark.parametrize("state", ["CANCELED", "FINISHED", "FAILED", "SUSPENDED"])
def test_it_ends_with_the_job(state: str) -> None:
    transitions = job().late(3).state(state, at=AT + MINUTE).transitions(AT + 3 * MINUTE)
    assert (transitions[-1].transition, transitions[-1].reason) == ("resolved", f"the job is {state}")


def test_numbers_that_begin_anew_after_a_restore_are_other_checkpoints() -> None:
    history = job().late(3).line("job_restored", AT + 20 * SECOND, job=JOB)
    history.expired(2, AT + 40 * SECOND).late(3, 2, after=41 * SECOND, tm=OTHER_TM)
    entity = history.finding().entity
    assert (entity["tm_id"], entity["checkpoint"]) == (OTHER_TM, "2")


def restored_and_expired_again() -> Job:
    """Checkpoint 14 expired with late acknowledgements; the job went back to 13, and its next checkpoint is 14."""
    told = job().late(4).line("job_restored", AT + 20 * SECOND, job=JOB)
    return told.expired(14, AT + 40 * SECOND)


def test_a_number_that_expires_again_after_a_restore_is_another_checkpoint() -> None:
    said = restored_and_expired_again().late(3, after=43 * SECOND, tm=OTHER_TM).transitions(AT + 2 * MINUTE)
    assert {t.incident for t in said} == {said[0].incident}
    before, after = said[0].findings[0], said[-1].findings[0]
    assert after.summary.startswith("3 subtasks acknowledged checkpoint 14 up to 3 s after it expired, all on tm-1")
    assert "; 2 checkpoints affected so far" in after.summary
    assert after.severity == "critical"
    assert after.since == before.since == START + AT
    assert {e.time for e in after.evidence} == {START + AT + 40 * SECOND, START + AT + 43 * SECOND}


def test_until_a_number_that_expired_again_has_late_acknowledgements_the_proven_one_is_shown() -> None:
    once = job().late(4)
    assert [t.summary for t in restored_and_expired_again().transitions(AT + 2 * MINUTE)] == [
        t.summary for t in once.transitions(AT + 2 * MINUTE)
    ]
    ended = restored_and_expired_again().state("CANCELED", at=AT + MINUTE).transitions(AT + 4 * MINUTE)
    assert (ended[-1].transition, ended[-1].summary) == ("resolved", ended[0].summary.replace("3 sub", "4 sub"))


@pytest.mark.parametrize("again", [30 * SECOND, 45 * SECOND])
def test_late_acknowledgements_of_before_a_restore_are_not_those_of_after_it(again: int) -> None:
    told = restored_and_expired_again()
    told.late(2, after=42 * SECOND, tm=OTHER_TM)
    once = told.transitions(AT + 2 * MINUTE)
    told.sent_again(again, only=lambda e: e.local_time < START + AT + 20 * SECOND)
    assert encoded(told.transitions(AT + 2 * MINUTE)) == encoded(once)


@pytest.mark.parametrize("again", [30 * SECOND, 50 * SECOND])
def test_an_abort_notice_of_before_a_restore_is_not_of_the_checkpoint_after_it(again: int) -> None:
    told = job().by("tm-2").line("tm_started", 0, tm=TM).line("checkpoint_abort_noticed", AT + 1, checkpoint="14")
    told.sent_again(again, only=lambda e: e.event_type == "checkpoint_abort_noticed")
    told.by("jm").line("job_restored", AT + 20 * SECOND, job=JOB).expired(14, AT + 40 * SECOND)
    assert [t.transition for t in told.transitions(AT + 2 * MINUTE)] == ["opened"]


def test_what_is_sent_again_after_the_end_of_the_job_opens_nothing() -> None:
    told = job().late(3).state("CANCELED", at=AT + MINUTE)
    assert [t.transition for t in told.sent_again(2 * MINUTE).transitions()] == ["opened", "resolved"]


def test_the_end_of_an_earlier_run_that_is_sent_again_does_not_end_the_finding() -> None:
    """Without high availability all application clusters use the same job id."""
    told = Job("late_barrier_acks").state("CANCELED", at=AT - 10 * SECOND).sent_again(20 * SECOND)
    told.runs(AT - 8 * SECOND).expired(14, AT).late(3)
    assert [t.transition for t in told.transitions(AT + 4 * MINUTE)] == ["opened"]


def test_key_skew_is_not_answered_with_a_restart() -> None:
    finding = job().reads(**{tm_label(TM): 550, tm_label(OTHER_TM): 50}).late(4).finding()
    assert "reads 92% of the job's input (fair share 50%)" in finding.summary
    assert "skewed" in finding.advice
    assert TM in finding.advice
    assert "restart" not in finding.advice
    assert first_danger(finding.advice) == ""


def even(version: str = "1.10.3") -> Job:
    """Both TaskManagers read as much."""
    old = version.startswith(("1.4", "1.10"))
    told = Job("late_barrier_acks", old=old).line("process_version", 0, what="TaskManager", version=version)
    return told.runs(0).expired(14, AT).reads(**{tm_label(TM): 50, tm_label(OTHER_TM): 50})


def test_a_slow_host_is_left_only_after_the_state_is_safe() -> None:
    finding = even().holds("work", TM).late(4).finding()
    assert finding.advice.startswith(KEEP_STATE)
    assert f"/jobs/{JOB}/checkpoints/config" in finding.advice
    assert "move the job" in finding.advice
    assert "skewed" not in finding.advice
    assert finding.summary.endswith("all on tm-2:6122-bbbbbb; barriers wait for work, which is busy all the time")


@pytest.mark.parametrize("apart", [0, 5 * SECOND])
def test_since_1_11_a_late_acknowledgement_is_a_slow_upload(apart: int) -> None:
    """Where the barrier has not come through, such a task is told of the abort and acknowledges nothing."""
    for version in ("1.11.0", "1.20.5", "2.2.1"):
        finding = even(version).holds("work", TM).late(4, apart=apart).finding()
        assert "state upload is slow" in finding.summary
        assert "checkpoint storage" in finding.advice
        assert "move the job" not in finding.advice
        assert "skewed" not in finding.advice


@pytest.mark.parametrize("key", ["execution.checkpointing.unaligned", "execution.checkpointing.unaligned.enabled"])
def test_barriers_that_may_overtake_data_do_not_wait_behind_it(key: str) -> None:
    def told(value: str) -> Job:
        return even("").line("configured", 1, key=key, value=value)

    assert told("true").late(4).finding().summary.endswith("; state upload is slow")
    assert told("false").late(4).finding().summary.endswith("all on tm-2:6122-bbbbbb")
    noticed = told("true").noticed(TM).finding()
    assert noticed.summary.endswith("; the subtasks do not react to barriers")


@pytest.mark.parametrize("apart", [0, 5 * SECOND])
def test_an_old_acknowledgement_alone_proves_no_mechanism(apart: int) -> None:
    for version in ("1.4.2", "1.10.3", "SNAPSHOT"):
        finding = even(version).late(4, apart=apart).finding()
        assert finding.summary.endswith("all on tm-2:6122-bbbbbb")
        assert "alignment and asynchronous duration" in finding.advice
        assert first_danger(finding.advice) == ""


def test_subtasks_that_had_not_begun_a_checkpoint_have_not_acknowledged_it() -> None:
    assert job().noticed(TM, TM).finding().summary == (
        "2 subtasks had not begun checkpoint 14 when it expired, all on tm-2:6122-bbbbbb; barriers wait behind data"
    )
    assert "3 subtasks were late for checkpoint 14" in job().noticed(TM).late(2).finding().summary


def test_the_first_notice_does_not_name_one_of_the_taskmanagers_that_are_all_late() -> None:
    history = even("1.20.5").noticed(TM, OTHER_TM)
    said = history.transitions(AT + 2 * MINUTE)
    assert len(said) == 1
    assert (said[0].findings[0].entity["tm_id"], said[0].findings[0].entity["host"]) == ("", "")
    assert "2 subtasks had not begun checkpoint 14 when it expired, on all 2 TaskManagers" in said[0].summary


def test_a_taskmanager_with_most_of_the_late_subtasks_is_not_named_if_every_one_is_late() -> None:
    assert even("1.20.5").noticed(*[TM] * 9, OTHER_TM).finding().entity["tm_id"] == ""
    assert even("1.20.5").noticed(*[TM] * 9).finding().entity["tm_id"] == TM
    skewed = Job("late_barrier_acks").runs(0).expired(14, AT).reads(**{tm_label(TM): 90, tm_label(OTHER_TM): 10})
    assert skewed.noticed(*[TM] * 9, OTHER_TM).finding().entity["tm_id"] == TM


def test_what_all_sinks_wait_for_is_named_and_no_host() -> None:
    outage = even("1.20.5").holds("sink", TM, OTHER_TM, connections=0).noticed(TM, OTHER_TM)
    finding = outage.finding()
    assert finding.summary.endswith(
        "; barriers wait for sink, which is busy all the time and has no connection to Kafka"
    )
    assert (finding.entity["tm_id"], finding.entity["task"]) == ("", "sink")
    assert "Kafka brokers" in finding.advice
    assert first_danger(finding.advice) == ""
    connected = even("1.20.5").holds("sink", TM, OTHER_TM, connections=2).noticed(TM, OTHER_TM).finding()
    assert connected.summary.endswith("; barriers wait for sink, which is busy all the time")
    assert "the external system that it calls" in connected.advice


def test_a_job_with_few_subtasks_needs_no_more_than_it_has() -> None:
    assert job().late(2).opened() == []
    assert job().holds("work", TM, OTHER_TM).late(2).opened() == ["late_barrier_acks"]
    assert job().holds("work", TM, OTHER_TM).late(1).opened() == []
    assert job().holds("work", *[TM] * 12).late(2).opened() == []


@pytest.mark.parametrize("late", [5 * SECOND, 90 * SECOND, 5 * MINUTE])
def test_a_jobmanagers_log_that_arrives_later_loses_nothing(late: int) -> None:
    """Each TaskManager has many subtasks and notices several checkpoints before the first expiry is read."""
    history = Job("late_barrier_acks").runs(0)
    for number in range(14, 20):
        at = (number - 14) * 10 * SECOND
        history.noticed(*[TM] * 60, OTHER_TM, number=number, after=at + SECOND)
        history.by("jm").line("checkpoint_expired", AT + at, lag=late, checkpoint=str(number), job=JOB)
    said = history.transitions(AT + 10 * MINUTE)
    assert [t.transition for t in said][:1] == ["opened"]
    checkpoints = {t.findings[0].entity["checkpoint"] for t in said}
    assert "19" in checkpoints
    assert said[0].findings[0].since == START + AT
    assert {f.entity["tm_id"] for t in said for f in t.findings} <= {TM}


def test_late_subtasks_are_judged_together_a_moment_after_the_first() -> None:
    at = job().late(3).transitions(AT + MINUTE)[0].at - START
    assert AT + 3 * SECOND <= at <= AT + 4 * SECOND + 200


def test_a_stuck_task_that_takes_all_barriers_at_once_is_over_with_them() -> None:
    """Its notices are written when it works again, just before the first checkpoint that completes."""

    def expired(apart: int) -> Job:
        history = job(14).expired(15, AT + 20 * SECOND)
        return history.noticed(TM, after=30 * SECOND).noticed(TM, number=15, after=30 * SECOND + apart)

    assert expired(5).opened() == ["late_barrier_acks"]
    assert expired(5).completed(16, AT + 30 * SECOND + 10).opened() == []
    assert expired(1_500).completed(16, AT + 32 * SECOND).opened() == ["late_barrier_acks"]
