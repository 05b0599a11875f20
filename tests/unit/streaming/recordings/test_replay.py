"""A replay ends as a job would that hears no more."""

from detectors.events.event import Record
from tests.recorded import said


def test_a_fatal_error_at_the_end_of_a_jobmanager_log_is_reported() -> None:
    text = (
        "2026-11-21 00:06:25,154 ERROR org.apache.flink.runtime.entrypoint.ClusterEntrypoint [] - "
        "Fatal error occurred in the cluster entrypoint.\n"
        "java.lang.IllegalStateException: too old resource version"
    )
    (opened,) = said([Record("flink.logs", 0, 0, 1_795_219_585_154, b"c/jm", text.encode())])
    assert (opened.transition, opened.cause) == ("opened", "jobmanager_lost")
    assert "too old resource version" in opened.summary
