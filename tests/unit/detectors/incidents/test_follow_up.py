"""What is reported of settings of Flink that change during an incident or within a day after it."""

from typing import Any

import msgspec
import pytest

from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.flink.checkpointing.checkpoints import JobCheckpoints
from detectors.flink.facts import Configured, ProcessStarted
from detectors.flink.flink_settings import FlinkSettings
from detectors.incident import ChangedSetting, Evidence, Forecast, Series, Transition, decode_transition
from detectors.incidents.adjustments import MAX_ADJUSTMENTS, FollowUp, Tally, effect
from detectors.incidents.follow_up import MAX_ENDED, keep
from detectors.incidents.transitions import Incident
from detectors.values.durations import LONG_AGO
from tests.unit.detectors.incidents.test_lifecycle import finding
from tests.unit.detectors.story import HOUR, MINUTE, NO_SLOTS, OTHER, USER, Story

OLD, NEW, NEWEST = "1.17.1", "1.17.2", "1.18.0"
RECORD = Evidence("flink.logs", 0, 7, 0, "Loading configuration property: heartbeat.timeout, 60 s")
TIMEOUT = ChangedSetting("execution.checkpointing.timeout", "10 min", "20 min")


class Deployed(Story):
    """A cluster that prints its version and its configuration at each start."""

    def start(self, timeout: str = "", version: str = OLD, *, heartbeat: str = "50 s") -> "Deployed":
        self.line("process_version", what="StandaloneSessionClusterEntrypoint", version=version)
        if timeout:
            self.line("checkpoint_timeout_set", value=timeout)
        self.line("configured", key="heartbeat.timeout", value=heartbeat)
        return self.gap("10 s")

    def begin(self, **deployment: Any) -> "Deployed":
        """A healthy job, started long enough before what follows."""
        self.start(**deployment).job("orders").runs()
        return self.checkpoints(12, every="1 min", lasting="20 s")

    def expire(self, number: int = 3) -> "Deployed":
        for _ in range(number):
            self.triggered().gap("10 min").expired().gap("1 s")
        return self

    def crash(self, number: int, every: str) -> "Deployed":
        for _ in range(number):
            self.restart(USER).gap(every)
        return self


def deployed(*kinds: str) -> Deployed:
    return Deployed(*kinds)


def adjusted(transitions: list[Transition]) -> list[tuple[str, str]]:
    """The transitions that report a change or what became of it, of any incident."""
    return [(t.transition, t.reason) for t in transitions if "→" in t.reason]


def test_a_raised_timeout_that_helped_is_reported_with_the_checkpoints_before_and_since() -> None:
    history = deployed("checkpoint_overdue", "checkpoint_failing").begin(timeout="10 min").expire()
    history.start(timeout="20 min").runs().checkpoints(3, every="13 min", lasting="12 min")
    found = history.transitions(after="5 min")
    assert adjusted(found) == [("updated", "changed: execution.checkpointing.timeout 10 min → 20 min")]
    (last,) = found[-1].adjustments
    assert found[-1].transition == "resolved"
    assert last.changed == [TIMEOUT]
    assert last.effect == "1 of 1 checkpoints completed since (0 of 3 before); the incident ended 12 min 10 s later"
    assert last.evidence.topic == "flink.logs"


def test_a_change_that_did_not_help_is_reported_with_what_failed_since() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire()
    found = history.start(timeout="20 min").runs().expire(4).expire(4).transitions(after="5 min")
    assert adjusted(found) == [
        ("updated", "changed: execution.checkpointing.timeout 10 min → 20 min"),
        (
            "updated",
            "execution.checkpointing.timeout 10 min → 20 min: 0 of 5 checkpoints completed since (0 of 3 before)",
        ),
    ]
    assert [a.judged for a in found[-1].adjustments] == [True]


@pytest.mark.parametrize(("learned", "then"), [(600_020, 1_200_000), (300_000, 300_000), (0, 0)])
def test_a_timeout_learned_from_an_expiry_follows_the_configuration_unless_the_job_sets_its_own(
    learned: int, then: int
) -> None:
    """Else the limit of the forecast would be that of the deployment before."""
    checkpoints = JobCheckpoints(timeout=learned)
    checkpoints.timeout_set(0, 1_200_000)
    assert checkpoints.timeout == then
    checkpoints.timeout_set(600_000, 0)
    assert checkpoints.timeout == then


def test_restarts_are_compared_over_their_periods() -> None:
    history = deployed("restart_loop").begin().crash(6, "1 min")
    found = history.start(version=NEW).crash(8, "10 min").transitions(after="5 min")
    assert adjusted(found) == [
        ("updated", f"changed: Flink {OLD} → {NEW}"),
        ("updated", f"Flink {OLD} → {NEW}: 6 restarts in 1 h (3 in the 4 min before)"),
    ]


def test_an_unrelated_change_is_reported_without_numbers_that_no_one_has() -> None:
    history = deployed("slots_unavailable").start().job("orders").gap("20 min")
    history.task_failed(NO_SLOTS).state("RESTARTING").gap("1 min").task_failed(NO_SLOTS).gap("1 min")
    found = history.start(heartbeat="60 s").transitions(after="3 h")
    assert {reason for _, reason in adjusted(found)} == {"changed: heartbeat.timeout 50 s → 60 s"}


def test_if_nothing_changed_not_a_word_is_reported() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire().start(timeout="10 min").runs()
    found = history.expire(8).transitions(after="30 h")
    assert adjusted(found) == []
    assert [t for t in found if t.adjustments] == []


def test_a_healthy_cluster_that_is_upgraded_reports_nothing() -> None:
    assert deployed("checkpoint_overdue").begin().start(timeout="1 h", version=NEW).transitions() == []


def test_settings_of_one_deployment_are_one_change_however_its_processes_start() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire()
    history.start(timeout="20 min", version=NEW, heartbeat="60 s").by("tm").start(timeout="10 min", version=OLD)
    history.by("tm-2").start(timeout="20 min", version=NEW).by("jm").expire(2)
    found = history.transitions(after="5 min")
    (reason, *_) = [reason for _, reason in adjusted(found)]
    assert reason == f"changed: Flink {OLD} → {NEW}, execution.checkpointing.timeout 10 min → 20 min"
    assert len(found[-1].adjustments) == 1


def test_what_is_changed_and_changed_back_at_once_is_no_change() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire()
    history.start(timeout="20 min").start(timeout="10 min").expire(9)
    assert adjusted(history.transitions(after="5 min")) == []


def test_two_changes_have_their_own_numbers() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire()
    history.start(timeout="20 min").expire(3).start(timeout="30 min").expire(2)
    first, second = history.transitions(after="5 min")[-1].adjustments
    assert first.effect == "0 of 3 checkpoints completed since (0 of 3 before)"
    assert second.effect == "0 of 2 checkpoints completed since (0 of 3 before)"


def test_a_setting_that_an_earlier_start_did_not_print_was_not_set() -> None:
    history = deployed("checkpoint_overdue").begin().expire().start(timeout="20 min").expire(1)
    reasons = [reason for _, reason in adjusted(history.transitions(after="5 min"))]
    assert reasons == ["changed: execution.checkpointing.timeout (not set) → 20 min"]


def test_the_first_start_that_is_seen_changes_nothing() -> None:
    """What was set before is not known."""
    history = deployed("checkpoint_overdue").job("orders").runs().checkpoints(12, every="1 min", lasting="20 s")
    assert adjusted(history.expire().start(timeout="20 min").expire(2).transitions(after="5 min")) == []


def test_a_change_within_a_day_after_the_end_is_reported_and_a_day_later_whether_it_recurred() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire(2)
    history.checkpoints(3, every="1 min", lasting="20 s").gap("5 h").start(timeout="20 min")
    found = history.transitions(after="49 h")
    ended = [t for t in found if t.transition == "resolved"]
    assert [t.reason.partition("; ")[2] for t in ended] == [
        "",
        "changed: execution.checkpointing.timeout 10 min → 20 min",
        "execution.checkpointing.timeout 10 min → 20 min: no recurrence in 24 h",
    ]
    assert len({t.ended_at for t in ended}) == 1
    assert [t.seq for t in found] == list(range(1, len(found) + 1))


def test_an_incident_that_recurs_after_a_change_is_counted() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire(2)
    history.checkpoints(3, every="1 min", lasting="20 s").gap("5 h").start(timeout="20 min").runs()
    history.checkpoints(12, every="1 min", lasting="20 s").expire(2).checkpoints(3, every="1 min", lasting="20 s")
    found = history.transitions(after="49 h")
    assert any("recurred 1 time in 24 h, first 13 min" in reason for _, reason in adjusted(found))


def test_a_change_more_than_a_day_after_the_end_is_not_reported() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire(2)
    history.checkpoints(3, every="1 min", lasting="20 s").gap("25 h").start(timeout="20 min")
    assert adjusted(history.transitions(after="49 h")) == []


def test_checkpoints_of_other_jobs_do_not_count() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire(2).start(timeout="20 min")
    history.job("payments", OTHER).runs().checkpoints(5, every="1 min", lasting="20 s")
    assert [a.effect for a in history.transitions(after="5 min")[-1].adjustments] == ["the incident ended 90 s later"]


def test_the_same_is_reported_however_the_stream_is_cut() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire(2).start(timeout="20 min").expire(4)
    history.checkpoints(3, every="1 min", lasting="20 s").gap("3 h").start(version=NEW)
    whole = history.transitions(after="30 h")
    assert whole[-1].adjustments
    assert history.transitions(after="30 h", cuts=tuple(range(0, 120, 7))) == whole


def test_changes_of_one_incident_are_bounded_however_often_something_changes() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire(2)
    for minutes in range(20, 20 + 3 * MAX_ADJUSTMENTS):
        history.start(timeout=f"{minutes} min").expire(1)
    found = history.transitions(after="5 min")
    assert len(found[-1].adjustments) == MAX_ADJUSTMENTS
    assert len(adjusted(found)) <= 2 * MAX_ADJUSTMENTS


def test_a_deployment_that_is_rolled_back_and_forth_is_reported_once_each_way() -> None:
    follow_up = FollowUp()
    for clock in range(0, 20 * HOUR, HOUR):
        back = ChangedSetting(TIMEOUT.key, TIMEOUT.after, TIMEOUT.before)
        follow_up.change(TIMEOUT if clock % (2 * HOUR) else back, RECORD, clock, 0, "")
        follow_up.news(clock + MINUTE)
    assert len(follow_up.adjustments) == 2


def test_a_job_that_moved_to_another_id_is_known_by_its_name() -> None:
    history = deployed("checkpoint_overdue").begin(timeout="10 min").expire(2).start(timeout="20 min")
    history.job("orders", OTHER).runs().checkpoints(5, every="1 min", lasting="20 s")
    (last,) = history.transitions(after="2 h")[-1].adjustments
    assert last.effect.startswith("3 of 3 checkpoints completed since (0 of 2 before)")


def judged(since: Tally, *, issue: str = "", changed: ChangedSetting = TIMEOUT, **found: Any) -> str:
    """The effect of a change at 0 h 10 min, an hour later, in an incident with one finding."""
    follow_up = FollowUp()
    follow_up.since = Tally(0, 3, 6, 2, [580_000, 590_000, 600_000])
    follow_up.change(changed, msgspec.structs.replace(RECORD, time=10 * MINUTE), 10 * MINUTE, 0, "FLINK-1")
    since.since = 10 * MINUTE
    follow_up.since = since
    return effect(follow_up, [finding(**{"at": 20 * MINUTE, **found})], issue or "FLINK-1", 0, None, 70 * MINUTE)


def test_durations_and_the_next_time_at_the_limit_show_a_growth_that_continues() -> None:
    ahead = Forecast("checkpoint duration reaches the timeout of 20 min", 10 * HOUR + 10 * MINUTE, 9 * HOUR, 11 * HOUR)
    assert judged(Tally(0, 12, 0, 0, [610_000, 620_000, 630_000]), forecast=ahead) == (
        "12 of 12 checkpoints completed since (3 of 9 before); median checkpoint duration 9 min 50 s → 10 min 20 s; "
        "no restart in 1 h (2 in the 10 min before); "
        "checkpoint duration reaches the timeout of 20 min in about 9 h"
    )


def test_a_forecast_from_before_the_change_is_not_repeated() -> None:
    ahead = Forecast("the heap is full", 10 * HOUR, 9 * HOUR, 11 * HOUR)
    assert "the heap is full" not in judged(Tally(), at=5 * MINUTE, forecast=ahead)


def test_the_numbers_of_the_finding_itself_are_compared() -> None:
    points = [(n * MINUTE, float((900 if n < 10 else 500) << 20)) for n in range(20)]
    words = judged(Tally(), series=Series("heap floor", "bytes", points))
    assert "median heap floor 900 MiB → 500 MiB" in words


def test_a_known_issue_that_the_new_version_does_not_have_is_named() -> None:
    version = ChangedSetting("version", OLD, NEW)
    assert "FLINK-1 does not affect this version" in judged(Tally(), issue="-", changed=version)
    assert "FLINK-1" not in judged(Tally(), issue="FLINK-1", changed=version)
    assert "FLINK-1" not in judged(Tally(), issue="-")


def test_a_value_from_before_flinkwatch_read_is_no_change() -> None:
    settings = FlinkSettings()
    assert settings.changed_by(Configured("heartbeat.timeout", "60 s"), "", 10 * HOUR) is None
    assert settings.changed_by(ProcessStarted("TaskManager", NEW), "", 10 * HOUR) is None
    found = settings.changed_by(ProcessStarted("TaskManager", "9" * 500), OLD, 10 * HOUR)
    assert found is not None
    assert len(found.after) == 100


def test_a_transition_of_an_older_version_has_no_changes() -> None:
    found = deployed("checkpoint_overdue").begin().expire(1).transitions(after="1 min")[-1]
    old = msgspec.to_builtins(found)
    del old["adjustments"]
    assert decode_transition(msgspec.json.encode(old)) == found


def test_state_of_an_older_version_is_read_and_new_state_survives_its_bytes() -> None:
    incident = Incident("i", 0, [finding()])
    incident.follow_up.change(TIMEOUT, RECORD, 5, 0, "FLINK-1")
    state = ClusterState(incidents=[incident], followed=[Incident("e", 0, [finding()])])
    assert decode_state(encode_state(state)) == state
    old = {k: v for k, v in msgspec.to_builtins(incident).items() if k != "follow_up"}
    assert msgspec.convert(old, Incident).follow_up == FollowUp(restarted=LONG_AGO)


@pytest.mark.parametrize("number", [1, 3 * MAX_ENDED])
def test_ended_incidents_that_are_followed_up_are_bounded(number: int) -> None:
    ended: list[Incident] = []
    for i in range(number):
        keep(ended, Incident(str(i), 0, [finding()], resolved_at=i))
    assert len(ended) == min(number, MAX_ENDED)
    assert ended[-1].id == str(number - 1)
