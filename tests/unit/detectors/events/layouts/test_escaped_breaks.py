"""A stack trace that rsyslog joins to its line is read as if it had line breaks; no other text is split."""

import json
import time
from typing import Any

import msgspec
import pytest

from detectors.events.event import LogEvent, Record
from detectors.events.layouts import escaped_breaks, wrappers
from detectors.events.reader import prefilter
from tests.recorded import READER, records, said, summary

HEAD = "2026-11-21 00:06:25,154 WARN  org.apache.flink.runtime.taskmanager.Task [] - "
STATE = "work (2/2)#0 (58bfb911d3ca27a3305901d11a6f4d8c_90bea66de1c231edf33913ecd54406c1_1_0) switched from RUNNING to "
STACK = (
    "java.lang.RuntimeException: Cannot open C:\\new\\table.csv\n"
    "\tat org.example.Parse.map(Parse.java:28) ~[job.jar:?]\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    "Caused by: java.io.IOException\n"
    "\tat org.example.Disk$Reader.<init>(Disk.java:7)\n"
    "\t... 12 more"
)
TEXT = f"{HEAD}{STATE}FAILED with failure cause:\n{STACK}"


def read(value: str) -> list[tuple[str, dict[str, str], int]]:
    found = READER.read(Record("flink.logs", 0, 0, 0, b"c/h", value.encode()))
    assert isinstance(found, list), found
    return [(e.event_type, e.fields, e.local_time) for e in found if isinstance(e, LogEvent)]


@pytest.mark.parametrize(
    "line_break", [r"\n", "#012", r"\r\n", "#015#012"], ids=["escapeLF", "legacy", "crlf", "legacy crlf"]
)
@pytest.mark.parametrize("tab", ["\t", "#011", r"\t", "    "], ids=["tab", "legacy", "escaped", "blanks"])
def test_a_joined_stack_trace_is_read_like_one_with_line_breaks(line_break: str, tab: str) -> None:
    assert [e[0] for e in read(TEXT)] == ["task_state", "thrown", "frame", "thrown", "frame"]
    joined = TEXT.replace("\n", line_break).replace("\t", tab)
    for value in (joined, json.dumps({"message": joined, "host": "tm-1"}), json.dumps({"message": " " + joined})):
        assert read(value) == read(TEXT)
        assert any(literal in value for literal in prefilter(topic_is_metrics=False))


def test_frames_alone_pass_the_prefilter_too() -> None:
    value = json.dumps({"message": "more frames:#012#011at org.example.Parse.map(Parse.java:28)"})
    assert [e[0] for e in read(value)] == ["frame"]
    assert any(literal in value for literal in prefilter(topic_is_metrics=False))


def test_a_joined_stack_trace_after_a_json_line_is_read() -> None:
    line = {"level": "WARN", "timestamp": "2026-11-21 00:06:25,154", "message": f"{STATE}FAILED."}
    joined = json.dumps(line) + r"\n" + STACK.replace("\n", r"\n")
    assert [e[0] for e in read(joined)] == ["task_state", "thrown", "frame", "thrown", "frame"]


@pytest.mark.parametrize("keys", [{}, {"stack_trace": STACK}], ids=["in the message", "in a field of its own"])
def test_escapes_inside_json_in_a_shippers_document_belong_to_the_json(keys: dict[str, Any]) -> None:
    message = f"{STATE}FAILED." + ("" if keys else f"\n{STACK}")
    inner = json.dumps({"level": "WARN", "@timestamp": "2026-11-21T00:06:25.154Z", "message": message, **keys})
    assert read(json.dumps({"message": inner})) == read(inner)
    assert [e[0] for e in read(inner)] == ["task_state", "thrown", "frame", "thrown", "frame"]


@pytest.mark.parametrize(
    "text",
    [
        r"Cannot read C:\new\orders.csv",
        r"Cannot load C:\new.org.example.MyException: it is a file",
        r"Cannot load D:\data\net.example.MyException",
        r"Pattern is [\n\t], replaced by \n at most (twice)",
        r"Value was 'a\nb\nCaused by nothing'",
        r"Colour #012345 and #012 are not known",
        r"usage: \njava -jar job.jar",
        r"Sent {\"error\": \"x\"}\nOK",
    ],
)
def test_other_texts_with_the_same_characters_are_not_split(text: str) -> None:
    assert escaped_breaks.lines(HEAD + text) == [HEAD + text]


def test_a_path_at_the_end_of_a_line_keeps_no_frame() -> None:
    assert escaped_breaks.lines("java.io.IOException: C:\\new\\n\tat a.B.c(B.java:1)\\nCaused by: a.B") == [
        r"java.io.IOException: C:\new",
        "\tat a.B.c(B.java:1)",
        "Caused by: a.B",
    ]


def joined_like_rsyslog(given: tuple[Record, ...]) -> list[Record]:
    """The records of Filebeat, with each line of a stack joined to the line of its source before it."""
    joined: list[tuple[Record, dict[str, Any]]] = []
    last: dict[object, int] = {}
    for record in given:
        document = json.loads(record.value or b"") if record.topic == "flink.logs" else {}
        source = str((record.key, document.get("log")))
        if document and source in last and wrappers.continues(document["message"]):
            joined[last[source]][1]["message"] += rf"\n{document['message']}"
            continue
        last[source] = len(joined)
        joined.append((record, document))
    return [msgspec.structs.replace(r, value=json.dumps(d).encode()) if d else r for r, d in joined]


def test_a_loop_is_found_in_a_recording_that_rsyslog_has_joined() -> None:
    recorded = records("restart-loop")
    joined = joined_like_rsyslog(recorded)
    assert len(joined) < len(recorded) - 200
    assert summary(said(joined)) == summary(said(recorded))


@pytest.mark.parametrize(
    "text",
    [
        r"\n" * 200_000,
        r"\n\t" * 100_000,
        r"x\n" + " " * 400_000 + "at a.b(",
        r"\na." * 100_000,
        r"\n" + "a." * 200_000 + "Exception",
        r"C:\n" * 100_000,
        r"\nat " + "a" * 400_000,
        "{" + r"}\n" * 100_000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    start = time.process_time()
    escaped_breaks.lines(text)
    assert time.process_time() - start < 0.5
