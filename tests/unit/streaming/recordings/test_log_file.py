"""`flinkwatch replay` of log files: what it understands, in which zone, and no all-clear for unread text."""

import gzip
import json
import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result

from streaming.cli.main import cli
from streaming.errors import RecordingError
from tests.recorded import recording
from tests.unit.streaming.log_files import JOBMANAGER, TASKMANAGER, WRAPPED, Lines, plain, write

_TIME = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
NOISE = ["hello world", "nothing of Flink"]


def replay(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *map(str, arguments)], catch_exceptions=False)


def transitions(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in replay("--json", *arguments).stdout.splitlines()]


def shifted(lines: list[str], hours: float) -> list[str]:
    """The same lines by a clock in another zone: the epochs in them stay."""

    def later(found: re.Match[str]) -> str:
        return f"{datetime.fromisoformat(found[1]) + timedelta(hours=hours):%Y-%m-%d %H:%M:%S}"

    return [_TIME.sub(later, line) for line in lines]


@pytest.mark.parametrize("name", WRAPPED)
def test_what_tools_put_around_the_lines_is_taken_off_and_named(name: str, tmp_path: Path) -> None:
    (file,) = write(tmp_path, {"all.txt": WRAPPED[name]()})
    done = replay(file)
    assert done.exit_code == 0
    assert done.stdout.startswith("CRITICAL: Late barrier acks · job clickstream-sessions")
    assert "all on tm-2:46793-5f48b6" in done.stdout
    assert f"looks like {name}" in done.stdout
    assert "2026-11-21 02:14:59Z  Checkpoint 12 of job" in done.stdout


def test_a_wrapping_names_pod_and_node(tmp_path: Path) -> None:
    prefixed, aggregate = write(
        tmp_path, {"k.txt": WRAPPED["`kubectl logs --prefix`"](), "y.txt": WRAPPED["`yarn logs`"]()}
    )
    assert {t["cluster"] for t in transitions(aggregate)} == {"application_1543309871234_0057"}
    assert {t["cluster"] for t in transitions(prefixed)} == {"default"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"hello world\nfoo\n", "2 lines, 0 in a Flink log layout; looks like text that is not a Flink log"),
        (b"PK\x03\x04rest", "an archive; unpack it first"),
        ("2026-11-21 02:14:59,000 INFO  a.B [] - x\n".encode("utf-16"), "UTF-16 text"),
        (bytes(range(256)) * 40, "not text, since it contains NUL bytes"),
        (b"[pod/a/b] hello\n[pod/a/b] world\n", "2 lines, 0 in a Flink log layout; looks like `kubectl logs --prefix`"),
    ],
)
def test_what_is_not_understood_is_no_all_clear(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "some.log"
    file.write_bytes(content)
    done = replay(file)
    assert done.exit_code == 2
    assert f"{file}: {message}" in done.stdout
    assert "incidents in it may be missed" in done.stderr
    assert "no incidents" not in done.output.lower()
    assert replay("--json", file).exit_code == 2


def test_one_file_that_is_not_understood_among_others_is_an_error_and_the_rest_is_replayed(tmp_path: Path) -> None:
    files = write(tmp_path, {**plain("late-barrier-acks"), "notes.log": NOISE})
    done = replay(*files)
    assert done.exit_code == 2
    assert "Late barrier acks" in done.stdout
    assert f"nothing in {tmp_path / 'notes.log'} was understood" in done.stderr


def test_what_was_understood_is_counted_by_file(tmp_path: Path) -> None:
    lines = plain("healthy-steady")[JOBMANAGER]
    (file,) = write(tmp_path, {JOBMANAGER: [*lines, *NOISE]})
    done = replay(file)
    assert done.exit_code == 0
    known = len([line for line in lines if line.strip()])
    assert f"{known + 2:,} lines of 1 file" in done.stdout
    assert "no incidents found." in done.stdout
    counted = re.search(r"(\d+) in a Flink log layout", done.stdout)
    assert counted is not None
    assert known - 10 <= int(counted[1]) <= known, "a few lines are Java's own"


def test_a_log_without_any_line_of_flink_is_reported(tmp_path: Path) -> None:
    (file,) = write(tmp_path, {"broker.log": ["2026-11-21 02:14:59,000 INFO  kafka.server.Broker - started"] * 3})
    done = replay(file)
    assert done.exit_code == 0
    assert "contain no line that flinkwatch looks for" in done.stdout


def test_a_directory_is_walked_and_what_is_no_log_in_it_is_no_error(tmp_path: Path) -> None:
    files = plain("late-barrier-acks")
    write(tmp_path / "bundle" / "jm", {f"{JOBMANAGER}.gz": files[JOBMANAGER]})
    write(tmp_path / "bundle" / "tm", {TASKMANAGER: files[TASKMANAGER], "gc.log": NOISE, "flink-conf.yaml": NOISE})
    done = replay(tmp_path / "bundle")
    assert done.exit_code == 0
    assert "all on tm-2:46793-5f48b6" in done.stdout
    assert "gc.log: 2 lines, 0 in a Flink log layout; looks like a garbage collection log" in done.stdout
    write(tmp_path / "empty", {"flink-conf.yaml": NOISE})
    with pytest.raises(RecordingError, match="the folder contains no log files"):
        replay(tmp_path / "empty")
    write(tmp_path / "nothing", {"gc.log": NOISE})
    assert replay(tmp_path / "nothing").exit_code == 2


def test_evidence_names_file_and_line(tmp_path: Path) -> None:
    (file,) = write(tmp_path, {JOBMANAGER: plain("late-barrier-acks")[JOBMANAGER]})
    (evidence,) = [e for e in transitions(file)[-1]["evidence"] if e["text"].startswith("Checkpoint 12 of job")]
    assert evidence["topic"] == str(file)
    assert evidence["text"] in file.read_text().splitlines()[evidence["offset"] - 1]
    assert f"{file}:{evidence['offset']}  2026-11-21 02:14:59Z  Checkpoint 12" in replay(file).stdout


@pytest.mark.parametrize("hours", [-5, 5.5, 8])
def test_the_zone_is_learned_once_for_all_files(hours: float, tmp_path: Path) -> None:
    files = plain("late-barrier-acks")
    utc = transitions(*write(tmp_path / "utc", files))
    local = write(tmp_path / "local", {name: shifted(lines, hours) for name, lines in files.items()})
    assert [(t["at"], t["summary"]) for t in transitions(*local)] == [(t["at"], t["summary"]) for t in utc]
    message = replay(*local).stdout
    zone = f"{'-' if hours < 0 else '+'}{int(abs(hours)):02}:{int(abs(hours) % 1 * 60):02}"
    assert f"The logs' local time is {zone}" in message
    assert f":59 {zone}  Checkpoint 12 of job" in message


def test_a_zone_that_is_given_wins(tmp_path: Path) -> None:
    (file,) = write(tmp_path, {TASKMANAGER: shifted(plain("late-barrier-acks")[JOBMANAGER], 1)})
    (utc,) = write(tmp_path / "utc", {TASKMANAGER: plain("late-barrier-acks")[JOBMANAGER]})
    for zone in ("Europe/Berlin", "+01:00"):
        found = transitions("--time-zone", zone, file)
        assert [t["at"] for t in found] == [t["at"] for t in transitions(utc)]
        assert f"read as {zone}" in replay("--time-zone", zone, file).stdout
    done = replay("--time-zone", "Mars/Olympus", file)
    assert done.exit_code == 2
    assert "unknown time zone 'Mars/Olympus'" in done.stderr


def metaspace() -> Lines:
    """A scenario's logs, and its standard output without any time."""
    files = {
        name: [x for line in lines for x in line.split("\n")] for name, lines in plain("metaspace-exhausted").items()
    }
    return {
        name: [line for line in lines if not (name.endswith(".out") and line.startswith("20"))]
        for name, lines in files.items()
    }


def test_output_without_times_is_placed_where_its_process_ends_and_never_in_1970(tmp_path: Path) -> None:
    files = write(tmp_path, metaspace())
    done = replay(*files)
    assert done.exit_code == 0
    assert "Metaspace" in done.stdout
    assert "1970-" not in done.stdout
    assert all(t["at"] > 1_700_000_000_000 for t in transitions(*files))


def test_output_without_times_is_placed_at_its_files_time_if_that_is_within_the_run(tmp_path: Path) -> None:
    paths = write(tmp_path, metaspace())
    first = 1_795_231_230
    for path in paths:
        os.utime(path, (first, first))
    (opened,) = [t for t in transitions(*paths) if t["seq"] == 1]
    assert abs(opened["at"] - first * 1000) < 10_000


def test_a_version_printed_anywhere_rules_a_known_issue_out(tmp_path: Path) -> None:
    files = plain("metaspace-exhausted")
    without = {name: [line for line in lines if "(Version: " not in line] for name, lines in metaspace().items()}
    unknown = transitions(*write(tmp_path / "a", without))
    assert any((t.get("known_issue") or {}).get("id") == "FLINK-16406" for t in unknown)
    (printed,) = [line for line in files[JOBMANAGER] if "(Version: " in line]
    last = without[JOBMANAGER][-1][:23]
    late = {**without, JOBMANAGER: [*without[JOBMANAGER], last + printed[23:]]}
    found = transitions(*write(tmp_path / "b", late))
    assert found
    assert not any(t.get("known_issue") for t in found)


def test_the_main_fact_of_a_dead_job_comes_first(tmp_path: Path) -> None:
    lines = [json.loads(line)["log"].rstrip("\n") for line in plain("job-failed")["x.log"] if line.startswith("{")]
    done = replay(*write(tmp_path, {"jobmanager.log": lines}))
    what, cause = (next(line for line in done.stdout.splitlines() if line.startswith(f"  {key} ")) for key in KEYS)
    assert "has failed for good after 3 restarts" in what
    assert "Restart loop: job orders-pricing has restarted 3 times" in cause
    assert re.search(r"^  to do .*Nothing restarts this job", done.stdout, re.MULTILINE)
    assert "docs/runbooks/restart_loop.md" in done.stdout


KEYS = ("what", "cause")


def test_the_timeline_prints_the_reason_of_each_change(tmp_path: Path) -> None:
    files = write(tmp_path, plain("late-barrier-acks"))
    assert "#2" not in replay(*files).stdout
    changes = [line for line in replay("--timeline", *files).stdout.splitlines() if re.search(r"#\d+  ", line)]
    assert len(changes) == len({re.split(r"#\d+ ", line)[1] for line in changes}) == 8, "no two say the same"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_packed_log_and_a_packed_recording_are_read(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (unpacked,) = write(tmp_path, {JOBMANAGER: plain("late-barrier-acks")[JOBMANAGER]})
    expected = [t["cause"] for t in transitions(unpacked)]
    log, records = unpacked, tmp_path / "input.jsonl"
    log.write_bytes(pack(unpacked.read_bytes()))
    stored = recording("late-barrier-acks")
    records.write_bytes(pack(gzip.decompress(stored.read_bytes()) if stored.suffix == ".gz" else stored.read_bytes()))
    assert [t["cause"] for t in transitions(log)] == expected != []
    assert transitions(records) == transitions(stored)


def test_what_is_piped_is_neither_cut_nor_padded(tmp_path: Path) -> None:
    lines = replay(*write(tmp_path, plain("late-barrier-acks"))).stdout.splitlines()
    assert any(len(line) > 120 for line in lines)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_a_packed_file_of_several_logs_says_the_same_as_the_logs(
    suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    files = plain("late-barrier-acks")
    one = tmp_path / f"all.log.{suffix}"
    one.write_bytes(pack("".join(f"{x}\n" for lines in files.values() for x in lines).encode()))
    assert [t["at"] for t in transitions(one)] == [t["at"] for t in transitions(*write(tmp_path / "each", files))]
