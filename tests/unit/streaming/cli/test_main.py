"""The command line: what a person sees, and with which exit status."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recorded import recording

PROJECT = Path(__file__).parents[4]
RECORDING = recording("late-barrier-acks")


def flinkwatch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streaming", *map(str, arguments)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=600, check=False)


def test_replay_prints_one_transition_a_line() -> None:
    done = flinkwatch("replay", RECORDING, "--json")
    transitions = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [t["seq"] for t in transitions] == list(range(1, len(transitions) + 1))
    last = transitions[-1]
    assert last["cause"] == "late_barrier_acks"
    assert {"incident", "transition", "at", "cluster", "job_id", "job_name", "severity", "summary"} <= last.keys()
    assert {"kind", "entity", "since", "at"} <= last["findings"][0].keys()
    assert {"topic", "partition", "offset", "time", "text"} == last["evidence"][0].keys()


def test_replay_for_a_person_names_the_cause_and_the_taskmanager() -> None:
    done = flinkwatch("replay", RECORDING)
    assert done.returncode == 0
    assert done.stdout.startswith("CRITICAL: Late barrier acks · job clickstream-sessions")
    assert "tm-2:46793-5f48b6" in done.stdout
    assert done.stdout.endswith("1 incident (late barrier acks), still open at the end.\n")


def test_replay_never_loads_spark() -> None:
    """It starts in a blink, also where there is no Java."""
    code = (
        "import sys; from streaming.cli.main import cli; cli(sys.argv[1:], standalone_mode=False); "
        "assert 'pyspark' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "replay", str(RECORDING)],
        cwd=PROJECT,
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_plain_log_file_is_replayed(tmp_path: Path) -> None:
    log = tmp_path / "flink-jobmanager.log"
    log.write_text(
        "2026-11-20 23:37:20,001 INFO  o.a.f.r.r.StandaloneResourceManager [] - Registering TaskManager with "
        "ResourceID a:1-b (pekko.tcp://flink@a:1/user/rpc/taskmanager_0) at ResourceManager\n"
        "2026-11-20 23:37:21,001 INFO  o.a.f.r.r.StandaloneResourceManager [] - TaskManager with id a:1-b "
        "is no longer reachable.\n"
        "2026-11-20 23:37:25,001 INFO  o.a.f.r.j.JobMaster [] - nothing of interest\n"
    )
    done = flinkwatch("replay", log)
    assert "TaskManager a:1-b is lost: it is no longer reachable" in " ".join(done.stdout.split())


@pytest.mark.parametrize("content", [b'{"topic": "a"}\n', b'{"topic": 1}\n', b"\x1f\x8b not gzip"])
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_bytes(content)
    done = flinkwatch("replay", file)
    assert done.returncode == 2
    assert done.stderr.startswith(f"flinkwatch: {file}")
    assert "Traceback" not in done.stderr


def test_a_recording_without_a_record_cannot_be_played_also_where_no_metrics_are_read(tmp_path: Path) -> None:
    config, empty = tmp_path / "my.yaml", tmp_path / "empty.jsonl"
    config.write_text("kafka: {metrics: []}\n")
    empty.touch()
    done = flinkwatch("play", empty, "--config", config)
    assert done.returncode == 2
    assert done.stderr.endswith(f"flinkwatch: {empty}: contains no records\n")


def test_config_check_says_ok_or_what_is_wrong(tmp_path: Path) -> None:
    assert flinkwatch("config", "check", "conf/flinkwatch.yaml").returncode == 0
    bad = tmp_path / "bad.yaml"
    bad.write_text("streaming: {bucket: 3}")
    done = flinkwatch("config", "check", bad)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"flinkwatch: {bad}:1: streaming.bucket: unknown key; did you mean buckets? allowed: buckets, canary, "
        "checkpoint, driver_memory, heartbeat, master, max_offsets_per_trigger, metrics_port, shuffle_partitions, "
        "spark, starting_offsets, trigger, wait_for_brokers"
    )


def test_known_issues_of_a_site_are_checked_and_named(tmp_path: Path) -> None:
    config, own = tmp_path / "my.yaml", tmp_path / "own.yaml"
    config.write_text(f"known_issues: {{files: [{own}]}}\n")
    entry = "signature: [{kinds: [odd]}], fixed_in: acme 2, workaround: Use acme 2., link: 'https://example.org/1'"
    own.write_text("known_issues: [{id: ACME-1, title: The acme connector fails, certainty: sure, " + entry + "}]\n")
    done = flinkwatch("config", "check", config)
    assert done.returncode == 2
    assert f"{own}:1: known_issues[0].signature[0].kinds[0]: odd is not a kind of finding" in done.stderr
    own.write_text(own.read_text().replace("odd", "late_barrier_acks"))
    assert flinkwatch("config", "check", config).returncode == 0
    done = flinkwatch("replay", RECORDING, "--json", "--config", config)
    assert '"ACME-1"' in done.stdout


def test_every_error_line_names_the_program_and_the_wrong_value(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("streaming: {buckets: five}\ndetectors: {restart_loop: {count: 2.5, enabled: maybe}}\n")
    done = flinkwatch("config", "check", bad)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"flinkwatch: {bad}:") for line in lines)
    assert "streaming.buckets: must be a whole number, not 'five'" in lines[0]
    assert "restart_loop.count: must be a whole number, not 2.5" in done.stderr
    assert "restart_loop.enabled: must be true or false, not 'maybe'" in done.stderr


@pytest.mark.parametrize("command", [("play", "nosuch"), ("replay", "missing.log"), ("nosuch",)])
def test_bad_input_has_one_exit_status(command: tuple[str, ...]) -> None:
    assert flinkwatch(*command).returncode == 2


def test_a_start_loads_no_more_than_the_command_needs() -> None:
    """Each import is a part of what a person waits for."""
    code = (
        "import sys; from streaming.cli.main import cli; cli(['--version'], standalone_mode=False); "
        "sys.exit(', '.join({'pydantic', 'kafka', 'yaml', 'detectors'} & sys.modules.keys()) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    listed = flinkwatch("--help").stdout
    assert all(f"  {name} " in listed for name in ("capture", "config", "play", "replay", "run", "silence", "tune"))
