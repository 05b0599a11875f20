"""What arrives from each cluster, from records as the job reads them."""

from hypothesis import given
from hypothesis import strategies as st

from detectors.events.event import Record
from detectors.events.identity import Identity
from detectors.incident import Reading
from streaming.inspection.cluster_inputs import ClusterInputs, InputSurvey
from streaming.recordings.recording import records_of
from tests.recorded import recording

LOGS, METRICS = "flink.logs", "flink.metrics"
AT = 1_795_227_290_000  # 2026-11-21 02:14:50 UTC
HEAD = "2026-11-21 04:14:50,000 INFO  o.a.f.r.c.Some [] - "
TRIGGERED = HEAD + "Triggering checkpoint 7 (type=CHECKPOINT) @ {} for job {}."
STARTED = HEAD + "Job x ({}) switched from state CREATED to RUNNING."


def surveyed(*records: Record) -> InputSurvey:
    survey = InputSurvey(Identity(), frozenset({METRICS}))
    for record in records:
        survey.take(record)
    return survey


def line(text: str, cluster: str = "prod", host: str = "jm-1", at: int = AT) -> Record:
    headers = (("cluster", cluster.encode()), ("host", host.encode()))
    return Record(LOGS, 0, 0, at, None, text.encode(), headers)


def quiet(cluster: str = "prod", host: str = "tm-1", at: int = AT) -> Record:
    """A line that no detector uses."""
    return line("2026-11-21 04:14:51,000 INFO  org.apache.flink.Some [] - nothing of interest", cluster, host, at)


def test_lines_without_an_event_show_that_a_cluster_is_there() -> None:
    (found,) = surveyed(quiet(at=AT), quiet(host="tm-2", at=AT + 5)).clusters.values()
    assert (found.logs.records, found.last_line, found.logs.hosts) == (2, AT + 5, {"tm-1", "tm-2"})
    assert dict(found.logs.formats) == {"raw lines": 2, "text layout in local time": 2}
    assert found.last_sample == 0


def test_the_zone_is_learned_from_a_checkpoint_line_and_else_guessed() -> None:
    job = "0" * 32
    learned = surveyed(line(TRIGGERED.format(AT, job))).clusters["prod"]
    assert learned.offsets() == ([2 * 3_600_000], True)
    guessed = surveyed(line(STARTED.format(job))).clusters["prod"]
    assert guessed.offsets() == ([2 * 3_600_000], False)
    assert ClusterInputs().offsets() == ([], False)


def test_a_scrape_names_its_metrics_and_its_process() -> None:
    page = b'flink_taskmanager_Status_JVM_Memory_Heap_Used{host="tm-1",tm_id="a"} 1\n'
    headers = (("cluster", b"prod"), ("host", b"tm-1"))
    found = surveyed(Record(METRICS, 0, 0, AT, None, page, headers)).clusters["prod"]
    assert found.names == {"heap_used"}
    assert (found.metrics.records, found.last_sample, found.metrics.hosts) == (1, AT, {"tm-1"})
    assert dict(found.metrics.formats) == {"Prometheus text": 1}


def test_a_rejected_record_is_counted_by_its_reason_and_belongs_to_no_cluster() -> None:
    survey = surveyed(line("\0"), quiet())
    assert dict(survey.topics[LOGS].rejected) == {"nul_byte": 1}
    assert survey.clusters["prod"].logs.records == 1


def test_a_line_of_flink_in_an_unknown_layout_is_counted_and_others_are_not_flinks() -> None:
    survey = surveyed(line("Nov 21 Flink says hello", host="a"), line("GET /index.html", cluster="web"))
    assert survey.clusters["prod"].logs.not_understood == 1
    assert "web" not in survey.clusters


def test_readings_show_what_came_before_the_newest_records() -> None:
    survey = surveyed(quiet())
    for name, labels, value in (
        ("last_sample_timestamp_seconds", {"cluster": "other", "process": "tm-1"}, AT / 1_000),
        ("last_log_line_timestamp_seconds", {"cluster": "prod", "job": "orders"}, AT / 1_000 + 60),
        ("records_read_total", {"bucket": "1"}, 1),
    ):
        survey.measured(Reading(name=name, labels=labels, value=value, at=AT))
    assert survey.clusters["other"].last_sample == AT
    assert survey.clusters["prod"].last_line == AT + 60_000


def test_a_recording_shows_its_hosts_and_formats() -> None:
    survey = surveyed(*records_of(recording("otlp-events-job-failed")))
    found = survey.clusters["orders"]
    assert found.logs.hosts == {"orders-7d9f"}
    assert dict(found.logs.formats) == {"OpenTelemetry protobuf": 44, "JSON layout": 44}
    assert survey.topics[LOGS].first <= survey.topics[LOGS].last


@given(st.lists(st.tuples(st.sampled_from([LOGS, METRICS]), st.none() | st.binary()), max_size=5))
def test_no_record_stops_the_survey(records: list[tuple[str, bytes | None]]) -> None:
    survey = surveyed(*(Record(topic, 0, n, AT, None, value) for n, (topic, value) in enumerate(records)))
    assert sum(span.records for span in survey.topics.values()) == len(records)
