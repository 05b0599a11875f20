"""The clock of the job's host is wrong: it is set under the running driver, JVM and Python workers.

The broker and whatever writes the records have the right time. The monotonic clock goes on as it does on a real host.
"""

import logging
import mmap
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.incident import Transition
from detectors.settings.live import LiveSettings, publish
from sinks.kafka.topics import TopicNames, ensure_topics, wanted_topics
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.embedded.job_process import JobProcess
from tests.recorded import replay
from tests.reliability.checkpoint_lines import EVERY_MS, checkpoint, hung

log = logging.getLogger(__name__)

_SOURCE = Path(__file__).with_name("wrong_clock.c")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(2_400),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: apt-get install gcc"),
]

_WITHIN_S = 400.0
_TOLD = struct.Struct("qqq")
_HOUR, _DAY = 3_600, 86_400
_HEALTHY = "healthy"
# A busy machine's batch takes seconds; the clock is that of the newest batch.
_APART_S = 60.0


class Host:
    """The clock that the job's processes are shown; changes at once in all of them."""

    def __init__(self, folder: Path) -> None:
        self._library, self._told = folder / "wrong_clock.so", folder / "clock"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE)], check=True)
        self._told.write_bytes(bytes(_TOLD.size))

    def set(self, ahead_s: int, gained_ppm: int = 0) -> None:
        """So many seconds ahead, and from now on so many parts per million faster."""
        with self._told.open("r+b") as file, mmap.mmap(file.fileno(), _TOLD.size) as told:
            _TOLD.pack_into(told, 0, ahead_s * 1_000_000_000, gained_ppm, time.monotonic_ns())

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "WRONG_CLOCK_FILE": str(self._told)}


def create_topics(here: Installation, *without: str) -> None:
    """All topics, with the default of Kafka 4 but for some: a record dated more than an hour ahead is refused."""
    here.create_inputs()
    topics = TopicNames(prefix=here.prefix)
    with closing(KafkaAdminClient(bootstrap_servers=here.bootstrap)) as admin:
        ensure_topics(admin, topics, create=True)
        bound = {"message.timestamp.after.max.ms": "3600000"}
        names = {here.logs, *(topic.name for topic in wanted_topics(topics))}.difference(without)
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, bound) for name in sorted(names)])


@contextmanager
def healthy_cluster(here: Installation) -> Iterator[None]:
    """A cluster that makes a checkpoint every few seconds meanwhile: nothing is to be reported of it."""
    end, failed = threading.Event(), []

    def run() -> None:
        number = 0
        with closing(KafkaProducer(bootstrap_servers=here.bootstrap)) as producer:
            while not end.wait(0 if not number else EVERY_MS / 1000):
                number += 1
                try:
                    for r in checkpoint(_HEALTHY, int(time.time() * 1000) - 500, number):
                        at = {"partition": 1, "timestamp_ms": r.timestamp, "headers": list(r.headers)}
                        producer.send(here.logs, key=r.key, value=r.value, **at)
                    producer.flush(timeout=60)
                except BaseException as error:
                    failed.append(error)
                    raise

    thread = threading.Thread(target=run, name=_HEALTHY)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(120)
    assert not failed


def reading(here: Installation, name: str) -> float:
    return next((value for key, value in here.readings().items() if key.startswith(f"{name} ")), 0.0)


def told(here: Installation, cluster: str) -> list[Transition]:
    return [t for t in here.transitions() if t.cluster == cluster]


def an_incident_is_reported(here: Installation, cluster: str) -> None:
    """A checkpoint hangs: reported as a replay does, at the second at which it is due, although no record says so."""
    stored = here.send(hung(cluster, int(time.time() * 1000)))
    begun = time.monotonic()
    here.wait_for(lambda: bool(told(here, cluster)), _WITHIN_S)
    took = time.monotonic() - begun
    reader = Reader(Identity(), frozenset({here.metrics}))
    expected = next(iter(replay(stored, reader, publish(LiveSettings(), at=0, by="test"), after_ms=60_000)))
    first = told(here, cluster)[0]
    ahead = time.time() - reading(here, "stream_time_timestamp_seconds")
    host = reading(here, "clock_host_ahead_seconds")
    log.info("%s: reported after %.0f s; the clock is %.1f s back, the host %.1f s ahead", cluster, took, ahead, host)
    assert (first.incident, first.seq, first.transition) == (expected.incident, 1, "opened")
    assert (first.cause, first.severity, first.summary) == (expected.cause, expected.severity, expected.summary)
    assert [e.offset for e in first.evidence] == [e.offset for e in expected.evidence]
    assert first.at == expected.at


def the_clock_goes_on(here: Installation, host_ahead: float, apart: float = 30.0) -> None:
    """The stream's clock is right, and the reading says how wrong the host's is."""
    here.wait_for(lambda: abs(reading(here, "clock_host_ahead_seconds") - host_ahead) < apart, _WITHIN_S)
    assert abs(time.time() - reading(here, "stream_time_timestamp_seconds")) < _APART_S


def test_a_host_whose_clock_is_set_reports_what_is_so_and_nothing_else(
    installation: Callable[..., Installation], tmp_path: Path
) -> None:
    """Right, an hour ahead for some seconds, an hour behind, 1 % fast, a day ahead: one job lives through it all."""
    here, host = installation(heartbeat=True), Host(tmp_path)
    create_topics(here)
    here.job = JobProcess(here.folder, here.configuration, "--no-deliver", environment=host.environment())
    with healthy_cluster(here):
        here.job.start()
        here.job.await_ready(_WITHIN_S)
        pid = here.job.pid
        an_incident_is_reported(here, "right")
        the_clock_goes_on(here, 0)

        host.set(_HOUR)
        the_clock_goes_on(here, _HOUR)
        host.set(0)
        the_clock_goes_on(here, 0)
        an_incident_is_reported(here, "an-hour-ahead-for-seconds")

        host.set(-_HOUR)
        an_incident_is_reported(here, "an-hour-behind")
        the_clock_goes_on(here, -_HOUR)

        host.set(_DAY)
        an_incident_is_reported(here, "a-day-ahead")
        the_clock_goes_on(here, _DAY)

        host.set(0, 10_000)
        an_incident_is_reported(here, "one-percent-fast")
        the_clock_goes_on(here, 0)
        assert here.job.pid == pid
        assert here.job.terminate() == 0, here.job.log_tail()
    assert not told(here, _HEALTHY)
    assert not [t for t in here.transitions() if t.cause != "checkpoint_overdue"]
    said = here.job.log.read_text()
    assert "the clock of this host was changed" in said
    # Of Spark, when it takes its own executor for dead.
    assert "Ignoring error" not in said


def test_a_host_that_is_a_day_ahead_from_the_start_is_found_out(
    installation: Callable[..., Installation], tmp_path: Path
) -> None:
    """The clock is that of the records two minutes later at the latest; nothing was reported that is not so."""
    here, host = installation(heartbeat=True), Host(tmp_path)
    # No beat is written where the broker refuses it, and the clock is that of the records from the first one on.
    create_topics(here, f"{here.prefix}.heartbeat")
    host.set(_DAY)
    here.job = JobProcess(here.folder, here.configuration, "--no-deliver", environment=host.environment())
    with healthy_cluster(here):
        here.job.start()
        here.wait_for(lambda: abs(reading(here, "clock_host_ahead_seconds") - _DAY) < 30, _WITHIN_S)
        the_clock_goes_on(here, _DAY)
        an_incident_is_reported(here, "a-day-ahead-from-the-start")
        assert here.job.terminate() == 0, here.job.log_tail()
    assert not told(here, _HEALTHY)
