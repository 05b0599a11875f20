"""Which failure a line is about, what of it is kept, and when two failures are the same."""

from typing import Any

import pytest

from detectors.events.event import LogEvent
from detectors.flink.facts import Failure, fact_of
from detectors.flink.root_causes import RootCause, RootCauses, role_of, same
from tests.unit.detectors.streams import START, log

LOST = "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException"


def failure(number: int = 1, at: int = 0, source: str = "jm", **fields: Any) -> LogEvent:
    about = {
        "of": "task_state",
        "id": f"{number}",
        "class": "java.lang.Error",
        "message": "x",
        "frame": "",
        "first": "y",
    }
    return log("failure", at, number, source, **{**about, **fields})


def fact(event: LogEvent) -> Failure:
    found = fact_of(event)
    assert isinstance(found, Failure)
    return found


def taken(*failures: LogEvent) -> RootCauses:
    causes = RootCauses()
    for one in failures:
        causes.take(one.source, fact(one), one.local_time - START)
    return causes


def test_only_failures_of_tasks_and_jobs_end_a_job() -> None:
    for fields, ends in (({}, True), ({"of": "process_failed"}, False), ({"state": "CANCELING"}, False)):
        causes = taken(failure(**fields))
        assert causes.sources["jm"][0].ends_job is ends
        assert (causes.before("jm", 0) is not None) is ends


def test_the_last_eight_failures_of_fifty_sources_are_kept() -> None:
    causes = taken(*(failure(n) for n in range(10)))
    assert [f.id for f in causes.sources["jm"]] == [str(n) for n in range(2, 10)]
    assert len(taken(*(failure(source=f"s{n}") for n in range(60))).sources) == 50


@pytest.mark.parametrize(("at", "found"), [(-60_001, ""), (-60_000, "1"), (60_000, "1"), (60_001, "")])
def test_a_line_is_about_a_failure_within_a_minute(at: int, found: str) -> None:
    causes = taken(failure(job="j"))
    for one in (causes.before("jm", at), causes.of_job("jm", "j", at)):
        assert (one.id if one is not None else "") == found


def test_a_line_is_about_the_attempt_or_the_job_that_it_names() -> None:
    causes = taken(failure(1, attempt="a", job="j"), failure(2, attempt="b", job="k"), failure(3))
    found = [causes.before("jm", 0, attempt) for attempt in ("a", "b", "", "c")]
    assert [f.id for f in found if f is not None] == ["1", "2", "3", "3"]
    of_jobs = [causes.of_job("jm", job, 0) for job in ("j", "k", "other")]
    assert [f.id if f is not None else "" for f in of_jobs] == ["1", "2", ""]
    assert causes.before("another", 0) is None


def test_the_role_is_the_first_of_those_anywhere_in_the_chain() -> None:
    slots, planned = "NoResourceAvailableException", "FlinkExpectedException"
    assert [role_of(name) for name in (planned, LOST, slots, "java.lang.Error")] == ["planned", "process", "slots", ""]
    for chain, role in (
        (("java.lang.Error", LOST), "process"),
        ((LOST, "java.lang.Error"), "process"),
        ((slots, LOST), "process"),
        ((LOST, slots), "process"),
        ((LOST, planned), "planned"),
    ):
        causes = taken(*(failure(**{"class": name}) for name in chain))
        (one,) = causes.sources["jm"]
        assert (one.role, one.name) == (role, chain[-1])


def test_long_messages_are_cut() -> None:
    (one,) = taken(failure(message="m" * 900, first="f" * 900)).sources["jm"]
    assert (len(one.message), len(one.first)) == (400, 200)
    assert RootCause("1", 0, "E", "m" * 200).description() == f"E: {'m' * 200}"
    assert RootCause("1", 0, "E", "m" * 201, "F.java").description() == f"E: {'m' * 200}… at F.java"
    assert RootCause("1", 0, "E", "").description() == "E"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (("E", "f", "m"), ("E", "f", "n"), True),
        (("E", "f", "m"), ("E", "g", "m"), True),
        (("E", "", "m"), ("E", "", "n"), False),
        (("E", "f", "m"), ("E", "g", "n"), False),
        (("E", "f", "m"), ("F", "f", "m"), False),
    ],
)
def test_two_failures_are_the_same_by_their_frame_or_their_message(
    one: tuple[str, str, str], other: tuple[str, str, str], is_same: bool
) -> None:
    assert same(one, other) is is_same
