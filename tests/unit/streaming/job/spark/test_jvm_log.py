"""What the JVM writes to stderr becomes lines of flinkwatch's own log."""

import contextlib
import io
import json
import logging
import sys

import pytest
import structlog

from streaming.job.spark.jvm_log import JvmLog
from streaming.logs import JsonStderr, configure_logs, write_line

LINES = (
    "WARNING: Using incubator modules: jdk.incubator.vector",
    'Setting default log level to "WARN".',
    "Starting Streaming TransformWithStateInPandas Python worker.",
    "",
    '{"event": "from log4j", "level": "ERROR"}',
    "{not json",
    "line of text",
)


def test_every_line_is_json_where_the_log_is(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    log = JvmLog()
    for line in LINES:
        log.take(line)
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line.get("line", line["event"]) for line in logged] == ["from log4j", *LINES[5:]]
    assert log.last == LINES[-1]


def test_a_person_sees_lines_as_they_are_and_nothing_of_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    log = JvmLog()
    log.take(LINES[5])
    log.quiet = True
    log.take(LINES[6])
    assert capsys.readouterr().err == LINES[5] + "\n"


def test_of_a_traceback_of_a_python_worker_the_exception_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """A worker whose JVM was killed writes one."""
    configure_logs("text")
    log = JvmLog()
    trace = ["Traceback (most recent call last):", '  File "daemon.py", line 95, in worker', "    outfile.flush()"]
    between = "During handling of the above exception, another exception occurred:"
    for line in [*trace, "BrokenPipeError: [Errno 32] Broken pipe", "", between, *trace, "OSError: x", "  indented"]:
        log.take(line)
    assert capsys.readouterr().err.splitlines() == [
        "BrokenPipeError: [Errno 32] Broken pipe",
        "OSError: x",
        "  indented",
    ]


def test_a_full_disk_under_the_log_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 - a device
        monkeypatch.setattr("sys.stderr", full)
        write_line("lost")
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()


def test_what_anything_prints_is_an_event_in_a_process_that_logs_json(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", JsonStderr(out))
    configure_logs("json")
    structlog.get_logger().info("own")
    logging.getLogger("other").warning("library")
    sys.stderr.write("Traceback\n  of a th")
    sys.stderr.write("read\n")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == [
        *("own", "library", "Traceback", "  of a thread"),
    ]
