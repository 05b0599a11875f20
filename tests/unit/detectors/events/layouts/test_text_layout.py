"""The same line gives the same events in every layout, in every envelope, and on a page that damaged it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from detectors.engine.time_zones import TimeZoneOffsets
from detectors.events.event import LogEvent, Record, Rejected
from detectors.events.identity import Identity
from detectors.events.layouts import text_layout as layout
from detectors.events.layouts import times
from detectors.events.reader import Reader
from detectors.flink.stack_traces import StackTraces

READER = Reader(Identity(envelope="always"), frozenset({"flink.metrics"}))
HOUR = 3_600_000
AT = 1_795_219_585_154
MESSAGE = (
    "work -> discard: Writer (2/2) (58bfb911d3ca27a3305901d11a6f4d8c_90bea66de1c231edf33913ecd54406c1_1_0)"
    " switched from RUNNING to FAILED on localhost:35101-d35f54 @ localhost (dataPort=42545)."
)
STACK = (
    "java.lang.RuntimeException: Simulated failure at record 20000\n"
    "\tat IncidentJob$2.processElement(IncidentJob.java:28)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
)
OWN_FRAME = "IncidentJob$2.processElement(IncidentJob.java:28)"
ISO = "2026-11-21T00:06:25.154"


def doc(**fields: Any) -> str:
    return json.dumps({"level": "INFO", "message": MESSAGE, **fields})


REAL: dict[str, str] = {
    row["layout"]: row["line"]
    for row in map(json.loads, Path(__file__).with_name("layouts.jsonl").read_text(encoding="utf-8").splitlines())
}
THROWN = {
    "name": "java.lang.RuntimeException",
    "message": "Simulated failure at record 20000",
    "extendedStackTrace": [
        {"class": "IncidentJob$2", "method": "processElement", "file": "IncidentJob.java", "line": 28}
    ],
}
LAYOUTS = {
    **REAL,
    "gcp": json.dumps(
        {
            "timestamp": ISO + "Z",
            "severity": "INFO",
            "message": MESSAGE,
            "logging.googleapis.com/labels": {},
            "_exception": {"exceptionClass": "java.lang.RuntimeException", "stackTrace": STACK},
            "_logger": "org.apache.flink.runtime.executiongraph.ExecutionGraph",
        }
    ),
    "gcp-newer": json.dumps(
        {"timestamp": ISO + "Z", "severity": "INFO", "message": MESSAGE, "exception": {"stackTrace": STACK}}
    ),
    "log4j1": doc(**{"@timestamp": ISO + "Z", "exception": {"stacktrace": STACK}, "mdc": {}}),
    "logback": doc(**{"@timestamp": "2026-11-21T01:06:25.154+01:00", "@version": "1", "stack_trace": STACK}),
    "logback-nanos": doc(**{"@timestamp": ISO + "123456Z", "stack_trace": STACK}),
    "ecs-nested": json.dumps(
        {
            "@timestamp": ISO + "Z",
            "log": {"level": "INFO", "logger": "x"},
            "message": MESSAGE,
            "error": {"stack_trace": STACK},
        }
    ),
    "ecs-array": doc(**{"@timestamp": ISO + "Z", "error.stack_trace": STACK.splitlines()}),
    "log4j-2.8": doc(timeMillis=AT, thrown={**THROWN, "extendedStackTrace": STACK}),
    "pattern": doc(timestamp="2026-11-21 00:06:25,154", thread="main", file="Execution.java") + "\n" + STACK,
    "text": f"2026-11-21 00:06:25,154 INFO  org.apache.flink.X [] - {MESSAGE}\n{STACK}",
    "text-zone": f"2026-11-21 01:06:25,154+0100 INFO  org.apache.flink.X [] - {MESSAGE}\n{STACK}",
    **{
        f"own-{number}": f"{head}{MESSAGE}\n{STACK}"
        for number, head in enumerate(
            (
                "[2026-11-21 00:06:25,154] INFO ",
                "[2026-11-21 00:06:25,154] INFO [org.apache.flink.X] ",
                "2026-11-21 00:06:25,154 [INFO] o.a.f.X - ",
                "INFO  2026-11-21 00:06:25.154 [main] o.a.f.X - ",
                "2026-11-21 00:06:25.154 | WARN | o.a.f.X | ",
            )
        )
    },
}
ZONED = {name for name in LAYOUTS.keys() - {"pattern", "text"} if not name.startswith("own-")}


def otlp(line: str, **more: Any) -> str:
    host = {"key": "host.name", "value": {"stringValue": "h"}}
    record = {"timeUnixNano": "1", "body": {"stringValue": line}, **more}
    return json.dumps(
        {"resourceLogs": [{"resource": {"attributes": [host]}, "scopeLogs": [{"logRecords": [record, record]}]}]}
    )


ENVELOPES = {
    "raw": lambda line: line,
    "filebeat": lambda line: json.dumps(
        {"@timestamp": ISO + "Z", "log": {"file": {"path": "/a.log"}}, "message": line, "host": {"name": "h"}}
    ),
    "fluentbit": lambda line: json.dumps({"@timestamp": 1.5, "log": line + "\n", "kubernetes": {"pod_name": "p"}}),
    "fluentd": lambda line: json.dumps({"log": line, "time": ISO, "docker": {}, "kubernetes": {"pod_name": "p"}}),
    "vector": lambda line: json.dumps({"file": "/a.log", "kubernetes": {"pod_name": "p"}, "message": line}),
    "logstash": lambda line: json.dumps({"@version": "1", "message": line, "host": "h", "path": "/a.log"}),
    "otlp": otlp,
    "docker": lambda line: json.dumps({"log": line + "\n", "stream": "stdout", "time": f"{ISO}Z"}),
    "journald": lambda line: json.dumps(
        {"_HOSTNAME": "h", "PRIORITY": "6", "MESSAGE": line, "CONTAINER_NAME": "flink"}
    ),
    "cri": lambda line: before_each("2026-11-21T02:13:01.000000001Z stdout F ", line),
    "kubectl --prefix": lambda line: before_each("[pod/tm-1/flink-main-container] ", line),
    "kubectl --timestamps": lambda line: before_each("2026-11-21T02:13:01.000000001Z ", line),
    "kubectl --prefix --timestamps": lambda line: before_each("[pod/tm-1/flink] 2026-11-21T02:13:01.1+08:00 ", line),
}


def before_each(prefix: str, text: str) -> str:
    return "\n".join(prefix + line for line in text.splitlines())


def read(value: str, timestamp: int = AT + 5 * HOUR, **more: Any) -> list[LogEvent]:
    found = READER.read(Record("flink.logs", 0, 0, timestamp, b"c/h", value.encode(), **more))
    assert not isinstance(found, Rejected), found
    return [e for e in found if isinstance(e, LogEvent)]


def test_journald_writes_a_text_with_odd_bytes_as_numbers() -> None:
    text = f"{LAYOUTS['text']}\a"
    document = {"_HOSTNAME": "h", "MESSAGE": [*text.encode()]}
    assert [(e.event_type, e.host) for e in read(json.dumps(document))][:2] == [("task_state", "h"), ("thrown", "h")]
    for odd in ([1, -1], [256], ["a"], 5):
        found = READER.read(Record("flink.logs", 0, 0, AT, b"c/h", json.dumps({"MESSAGE": odd}).encode()))
        assert isinstance(found, Rejected)
        assert found.reason == "wrong_shape"


def test_a_line_that_the_runtime_has_cut_is_joined_and_its_pod_is_known() -> None:
    line = LAYOUTS["text"].splitlines()[0]
    parts = [line[:50], line[50:90], line[90:]]
    text = "\n".join(f"{ISO}Z stdout {'PPF'[n]} {part}" for n, part in enumerate(parts))
    assert [e.event_type for e in read(text)] == ["task_state"]
    two = f"[pod/tm-1/flink] {line}\n[pod/tm-2/flink] {line}"
    assert [e.source for e in read(two)] == ["tm-1:flink", "tm-2:flink"]


def test_a_time_in_front_that_is_the_line_s_own_stays() -> None:
    (event,) = read(f"{ISO}Z INFO  org.apache.flink.X [] - Checkpoint 6 expired before completing.")
    assert (event.local_time, event.zoned) == (times.of_text(f"{ISO}Z")[0], True)


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_failing_line_and_its_stack_are_the_same_in_every_layout_and_envelope(layout: str, envelope: str) -> None:
    events = read(ENVELOPES[envelope](LAYOUTS[layout]))
    if envelope == "otlp":
        assert len(events) % 2 == 0
        events = events[: len(events) // 2]
    assert [e.event_type for e in events][:3] == ["task_state", "thrown", "frame"]
    state, thrown, frame = events[:3]
    assert (state.fields["state"], state.fields["tm"], state.text) == ("FAILED", "localhost:35101-d35f54", MESSAGE)
    assert thrown.fields == {"class": "java.lang.RuntimeException", "message": "Simulated failure at record 20000"}
    assert frame.fields == {"frame": OWN_FRAME}
    assert {e.local_time for e in events} == {AT}
    assert {e.zoned for e in events} == {layout in ZONED}
    zones = TimeZoneOffsets()
    assert zones.event_time(state) == (AT if layout in ZONED else AT + 5 * HOUR)
    throwables = StackTraces()
    failure = [f for e in events if (f := throwables.join(e)) is not None][1]
    assert (failure.fields["of"], failure.fields["frame"]) == ("task_state", OWN_FRAME)


@pytest.mark.parametrize(
    ("head", "at"),
    [
        ("00:06:25.154 [main] INFO  o.a.f.X - ", -1),
        ("26/11/21 00:06:25 INFO o.a.f.X: ", -1),
        ("2026-11-21 00:06:25 INFO  o.a.f.X [] - ", AT - 154),
    ],
)
def test_a_time_is_as_exact_as_the_layout_prints_it(head: str, at: int) -> None:
    (event,) = read(head + MESSAGE)
    assert (event.event_type, event.local_time) == ("task_state", at)


@pytest.mark.parametrize("line", ["2026-11-21 00:06:25 pods are INFO now: x", "00:06:25 [main] x", "INFO a.b - x"])
def test_a_line_without_a_time_and_a_level_in_front_has_no_head(line: str) -> None:
    assert layout.split(line) is None


def test_causes_of_a_thrown_object_are_read_to_the_deepest() -> None:
    cause = {"name": "java.io.IOException", "message": "disk full", "extendedStackTrace": []}
    events = read(doc(timeMillis=AT, thrown={**THROWN, "cause": cause}))
    assert events[-1].fields == {"class": "java.io.IOException", "message": "disk full", "caused": "yes"}


EMR = '{"level":"INFO","timestamp":"2020-08-25 04:58:24,509","thread":"t-1","file":"X.java","line":"1","message":"%s"}'


@pytest.mark.parametrize(
    "value",
    [
        EMR % 'Job "my "best" job" (e04f0bd47405a7a169914793d27ced1f) switched from state RUNNING to FAILING.',
        EMR % r"Job C:\data (e04f0bd47405a7a169914793d27ced1f) switched from state RUNNING to FAILING.",
        (EMR % "Job x (e04f0bd47405a7a169914793d27ced1f) switched from state RUNNING to FAILING. The rest is").replace(
            '"}', ""
        ),
    ],
    ids=["quotes", "backslash", "broken off"],
)
def test_json_that_nobody_escaped_is_read(value: str) -> None:
    for line in (value, ENVELOPES["filebeat"](value), value + "\njava.lang.Exception: x"):
        first = read(line)[0]
        assert (first.event_type, first.fields["state"], first.zoned) == ("job_state", "FAILING", False)
        assert first.local_time == 1_598_331_504_509
        assert first.text.startswith("Job ")


@pytest.mark.parametrize("value", ['{"level":"INFO","message":"x', '{"message":"x', '{"timestamp":"2020-08-25"'])
def test_json_broken_off_that_no_layout_begins_like_is_rejected(value: str) -> None:
    found = READER.read(Record("flink.logs", 0, 0, 0, None, value.encode()))
    assert isinstance(found, Rejected)
    assert found.reason == "not_json"


def test_events_joined_on_one_line_have_each_its_own_time() -> None:
    """Seed 004 as its page prints it."""
    events = read(
        "2022-05-18 11:30:39,662 INFO  util.AbstractLivelinessMonitor (AbstractLivelinessMonitor.java:run(148)) - "
        "Expired:hdfs08.example:45454 Timed out after 600 secs 2022-05-18 11:30:39,666 INFO  rmnode.RMNodeImpl "
        "(RMNodeImpl.java:deactivateNode(1077)) - Deactivating Node hdfs08.example:45454 as it is now LOST "
        "2022-05-18 11:30:39,667 INFO  rmnode.RMNodeImpl (RMNodeImpl.java:handle(671)) - hdfs08.example:45454 Node "
        "Transitioned from RUNNING to LOST"
    )
    assert [(e.event_type, e.local_time % 1000) for e in events] == [("node_lost", ms) for ms in (662, 666, 667)]
    assert events[0].text == "Expired:hdfs08.example:45454 Timed out after 600 secs"


def test_a_throwable_and_its_cause_joined_to_their_line_are_found() -> None:
    events = read(
        "2022-05-18 11:37:25,014 INFO  o.a.f.r.taskexecutor.TaskExecutor [] - Cannot find task to fail for execution "
        "fc95 with exception: java.util.concurrent.TimeoutException: Invocation timed out.  ...  Caused by: "
        "akka.pattern.AskTimeoutException: no reply.  ...  2022-05-18 11:42:15,096 ERROR o.a.f.r.t.TaskManagerRunner "
        "[] - Fatal error occurred while executing the TaskManager. Shutting it down... "
        "org.apache.flink.runtime.taskexecutor.exceptions.RegistrationTimeoutException: Terminating now. "
    )
    thrown = [
        (e.fields["class"].rpartition(".")[2], e.fields["message"].rstrip()) for e in events if "class" in e.fields
    ]
    assert thrown == [
        ("TimeoutException", "Invocation timed out."),
        ("AskTimeoutException", "no reply."),
        ("RegistrationTimeoutException", "Terminating now."),
    ]


@pytest.mark.parametrize("before", ["1048 ", "  12 "])
def test_an_editors_line_number_before_a_line_changes_nothing(before: str) -> None:
    assert read("\n".join(before + line for line in LAYOUTS["text"].splitlines())) == read(LAYOUTS["text"])


def test_a_blank_before_the_date_changes_nothing() -> None:
    assert read(" " + LAYOUTS["text"]) == read(LAYOUTS["text"])


@pytest.mark.parametrize(
    "head",
    [
        "INFO  rmnode.RMNodeImpl (RMNodeImpl.java:handle(671)) - ",
        "INFO org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeImpl (AsyncDispatcher event handler): ",
        "INFO org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeImpl: ",
        "INFO  [AsyncDispatcher event handler] rmnode.RMNodeImpl - ",
    ],
)
def test_every_shape_of_a_yarn_log_is_read(head: str) -> None:
    (event,) = read(f"2022-05-18 11:30:39,667 {head}hdfs08.example:45454 Node Transitioned from RUNNING to LOST")
    assert (event.event_type, event.local_time % 1000) == ("node_lost", 667)


def test_a_line_that_begins_with_a_bracket_is_text() -> None:
    assert read("[2022-05-18 11:30:39.667]Container exited with a non-zero exit code 143.") is not None


def test_the_yarn_container_of_a_json_line_is_its_source_and_gives_its_cluster() -> None:
    container = "container_e01_1571051884501_0001_01_000002"
    value = doc(**{"@timestamp": ISO + "Z", "yarnContainerId": container, "source_host": "node-7"})
    for given in (value, json.dumps({"message": value})):
        found = READER.read(Record("flink.logs", 0, 0, AT, None, given.encode()))
        assert isinstance(found, list)
        event = found[0]
        assert (event.source, event.host) == (f"node-7:{container}", "node-7")
        assert event.cluster == "application_1571051884501_0001"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (
            {
                "file": "/var/log/pods/x.log",
                "kubernetes": {
                    "pod_name": "p",
                    "pod_namespace": "ns",
                    "pod_labels": {"app": "orders"},
                    "container_name": "main",
                    "pod_node_name": "node-1",
                },
            },
            ("orders", "p:main", "node-1"),
        ),
        ({"host": "tm-1", "path": "/opt/tm.log", "cluster": "orders"}, ("orders", "tm-1:/opt/tm.log", "tm-1")),
        ({"host": "tm-1", "file": "/opt/tm.log"}, ("c", "tm-1:/opt/tm.log", "tm-1")),
    ],
    ids=["vector-kubernetes", "logstash", "vector-file"],
)
def test_an_envelope_shows_where_its_line_comes_from(value: dict[str, Any], place: tuple[str, str, str]) -> None:
    event = read(json.dumps({**value, "message": LAYOUTS["text"].partition("\n")[0]}))[0]
    assert (event.cluster, event.source, event.host) == place


def test_each_log_record_of_opentelemetry_has_its_own_attributes_and_time() -> None:
    attributes = [
        {"key": k, "value": {"stringValue": v}} for k, v in (("cluster", "orders"), ("log.file.name", "jm.log"))
    ]
    appended = otlp(MESSAGE, severityText="INFO", timeUnixNano=str(AT * 1_000_000), attributes=attributes)
    event = read(appended)[0]
    assert (event.cluster, event.source, event.local_time, event.zoned) == ("orders", "h:jm.log", AT, True)


@pytest.mark.parametrize(
    "text",
    [
        "2022-05-18 11:30:39,662 INFO a.B - x 2022-05-18 " + " " * 400_000 + "y",
        '{"level":"INFO","timestamp":"2022-05-18 11:30:39,662","message":"' + '" , "' * 60_000,
        '{"level":"INFO","timestamp":"2022-05-18 11:30:39,662","message":"' + " " * 400_000,
        "1234567 " * 50_000,
        "2022-05-18 11:30:39,662 INFO " + "[" * 400_000,
        " " * 400_000 + "2022",
    ],
    ids=["joined", "quotes", "blanks", "numbers", "brackets", "leading blanks"],
)
def test_no_line_takes_long(text: str) -> None:
    start = time.process_time()
    READER.read(Record("flink.logs", 0, 0, 0, None, text.encode()))
    assert time.process_time() - start < 0.5
