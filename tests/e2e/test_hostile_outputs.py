"""What hostile records would make the job write, and hostile records of its own topics, on a real broker."""

import time
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from detectors.events.event import Record
from sinks.kafka.access import KafkaAccess
from streaming.configuration.topic import ConfigTopic
from streaming.recordings.replay import load
from tests.e2e.harness import Installation
from tests.e2e.test_job import essence, replayed
from tests.embedded.job_process import JobProcess
from tests.recorded import recording

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(480)]

PROJECT = Path(__file__).parents[2]
# Python runs it in every process of the job: a detector that fails on one event, a read stage that fails on one record.
FAULT = """
from detectors.engine import fold
from streaming.job import read

_step = fold.step


def step(engine, cluster, state, events, *rest):
    if any(len(getattr(event, "samples", ())) > 7_000 for event in events):
        raise ValueError("too many samples")
    return _step(engine, cluster, state, events, *rest)


def may_matter(values, metrics):
    if b"no room" in values.to_pylist():
        raise MemoryError("no room")
    return _before(values, metrics)


fold.step = step
_before = read.may_matter
read.may_matter = may_matter
"""
SAMPLE = 'flink_taskmanager_Status_JVM_Memory_Heap_Used{tm_id="container_1700000000000_0001_01_%06d",host="h%d"} 1\n'
HEADERS = (('"\\\x00\u2028', b"\xff\x00"), ("", b""), ("large", b"\x01" * 100_000))
POISON = [
    b'{"hash":"x","at":1,"by":"b","detectors":' + b'{"a":' * 2_000 + b"1" + b"}" * 2_000 + b"}",
    b'{"hash":"x","at":36893488147419103232,"by":"b","detectors":{}}',
]


def test_neither_large_outputs_nor_poison_end_the_job(
    installation: Callable[..., Installation],
) -> None:
    """One log record of 300,000 NUL bytes, an event of 7,900 samples on which a detector fails, and two records of the
    configuration, before the first start and while the job runs: all are letters that can be read, and counted. What
    ends the query after all is named in one line.
    """
    here = installation()
    (here.folder / "sitecustomize.py").write_text(FAULT)
    environment = {"PYTHONPATH": f"{here.folder}:{PROJECT}"}
    here.job = JobProcess(here.folder, here.configuration, "--no-deliver", environment=environment)
    here.create_inputs()
    config = f"{here.prefix}.config"
    admin = KafkaAdminClient(bootstrap_servers=here.bootstrap)
    configs = {"cleanup.policy": "delete", "retention.ms": "-1"}
    admin.create_topics({config: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})
    admin.close()
    records = load([recording("late-barrier-acks")], "flink.logs", "flink.metrics")
    start = records[0].timestamp
    page = "".join(SAMPLE % (n, n % 9) for n in range(7_900)).encode()
    large = [
        Record("flink.logs", 0, 0, start, b"\xff" * 300_000, b"\x00" * 300_000, HEADERS),
        Record("flink.metrics", 0, 0, start, b"prod/tm-1", page),
    ]
    poison = [Record(config, 0, 0, start, b"detectors", value) for value in POISON]
    stored = here.send([*poison, *large, *records])
    expected = replayed([r for r in stored if r.topic != config and r.value != page], here.metrics)
    here.job.start()
    here.wait_for(lambda: len(here.transitions()) >= len(expected) and len(here.rejected()) >= 4, within=240)
    here.send(poison)
    here.wait_for(lambda: len(here.rejected()) >= 6, within=120)
    letters = {(r["reason"], r.get("offset")): r for r in here.rejected()}
    assert sorted(reason for reason, _ in letters) == ["bad_config"] * 4 + ["defect", "nul_byte"]
    nul = next(r for r in letters.values() if r["reason"] == "nul_byte")
    assert (nul["size"], nul["truncated"], set(b64decode(nul["value_b64"]))) == (300_000, True, {0})
    defect = next(r for r in letters.values() if r["reason"] == "defect")
    assert (defect["detail"], defect["truncated"]) == ("ValueError: too many samples", True)
    assert essence(here.transitions()) == essence(expected)
    counted = {k: v for k, v in here.readings().items() if k.startswith("records_rejected_total")}
    assert sum(counted.values()) == 6
    (last,) = here.send([Record("flink.logs", 1, 0, start, b"prod/jm-1", b"no room")])
    line = f"read stage failed at {here.logs}/1 offset {last.offset}: MemoryError: no room"
    deadline = time.monotonic() + 120
    while not any(line in said and "StageError" not in said for said in here.job.log.read_text().splitlines()):
        assert time.monotonic() < deadline, here.job.log_tail()
        time.sleep(0.2)
    history = ConfigTopic(KafkaAccess(bootstrap_servers=here.bootstrap), config).history()
    assert history.in_force is not None
    assert [line.partition(": ")[2][:12] for line in history.unreadable] == ["too_deep: th", "out_of_range"] * 2
