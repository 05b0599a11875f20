"""Input topics that are deleted, made again or cut by retention: nothing that is there is skipped, and it is said."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import TopicAlreadyExistsError

from detectors.events.event import Record
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.e2e.test_job import essence, replayed
from tests.embedded.job_process import JobProcess
from tests.reliability.job_chain import portions

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_500)]

Make = Callable[..., Installation]

# A start on a busy machine, and a batch or two.
_WITHIN_S = 400.0


def make_again(here: Installation, *topics: str) -> None:
    """Delete topics and make them at once under the same names."""
    configs = {"max.message.bytes": "20000000", "retention.ms": "-1"}
    with closing(KafkaAdminClient(bootstrap_servers=here.bootstrap)) as admin:
        partitions = {one["name"]: len(one["partitions"]) for one in admin.describe_topics(list(topics))}
        admin.delete_topics(list(topics))
        for topic in topics:
            request = {
                topic: {"num_partitions": partitions[topic], "replication_factor": 1, "configs": configs},
            }
            deadline = time.monotonic() + 60
            while True:
                try:
                    admin.create_topics(request)
                    break
                except TopicAlreadyExistsError:
                    # Not gone yet.
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
        admin.wait_for_topics(list(topics))


def ends(here: Installation, topic: str) -> dict[int, int]:
    with closing(KafkaConsumer(bootstrap_servers=here.bootstrap)) as consumer:
        places = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        return {place.partition: end for place, end in consumer.end_offsets(places).items()}


def filler(records: list[Record], counts: dict[int, int]) -> Iterable[Record]:
    """So many lines that mean nothing, as old as the first of `records`."""
    first = next(r for r in records if r.topic == "flink.logs")
    line = b"2025-11-21 08:00:00,000 INFO  org.example.Nothing [] - nothing happens"
    for partition, count in counts.items():
        yield from [msgspec.structs.replace(first, partition=partition, value=line)] * count


def say_everything(here: Installation, stored: list[Record]) -> None:
    """Start the job, wait until it has said what a replay says, and end it in order."""
    expected = replayed(stored, here.metrics)
    here.job.start()
    here.wait_for(lambda: len(here.transitions()) >= len(expected), _WITHIN_S)
    assert here.job.terminate() == 0
    assert essence(here.transitions()) == essence(expected)


def test_topics_made_again_while_the_job_is_down_are_read_from_their_beginning(installation: Make) -> None:
    """Once with less in them than the job had read, once with more; the configuration's topic as well."""
    here = installation()
    here.create_inputs()
    opens, changes, ends_it = portions()
    stored = here.send(opens)
    say_everything(here, stored)

    before = ends(here, here.logs)
    make_again(here, here.logs, here.metrics, f"{here.prefix}.config")
    here.configuration["detectors"] = {"backpressure": {"enabled": False}}
    here.job = JobProcess(here.folder, here.configuration, "--no-deliver")
    stored += here.send(changes)
    assert any(end < before[p] for p, end in ends(here, here.logs).items())
    say_everything(here, stored)
    first, newest = here.transitions()[0], here.transitions()[-1]
    assert first.config != newest.config

    before = ends(here, here.logs)
    make_again(here, here.logs)
    # Only where the records are: lines of another partition would hold the clock back.
    stored += here.send([*filler(ends_it, {p: end + 5 for p, end in before.items() if end}), *ends_it])
    assert all(end > before[p] for p, end in ends(here, here.logs).items() if before[p])
    say_everything(here, stored)
    log = here.job.log.read_text()
    assert log.count("topic was deleted and made again, it is read from its beginning") == 4


def test_a_topic_made_again_under_the_running_job_is_read_whole(installation: Make) -> None:
    """The query is started again, by the job itself or, where Spark has found the topic gone, by an orchestrator."""
    here = installation()
    here.create_inputs()
    opens, *rest = portions()
    stored = here.send(opens)
    here.job.start()
    here.wait_for(lambda: len(here.transitions()) >= len(replayed(stored, here.metrics)), _WITHIN_S)
    make_again(here, here.logs)

    def noticed() -> bool:
        return "was deleted and made again" in here.job.log.read_text() or here.job.exit_status() is not None

    deadline = time.monotonic() + _WITHIN_S
    while not noticed():
        assert time.monotonic() < deadline, here.job.log_tail()
        time.sleep(0.2)
    stored += here.send([record for portion in rest for record in portion])
    if here.job.exit_status() is not None:
        assert here.job.exit_status() == 1
        assert here.logs in here.job.log_tail(1)
        here.job.start()
    here.wait_for(lambda: len(here.transitions()) >= len(replayed(stored, here.metrics)), _WITHIN_S)
    assert here.job.terminate() == 0
    assert essence(here.transitions()) == essence(replayed(stored, here.metrics))


def test_what_retention_removed_while_the_job_was_down_is_counted_and_said(installation: Make) -> None:
    here = installation(heartbeat=True)
    here.create_inputs(partitions=1)
    opens, changes, ends_it = portions()
    here.send(opens)
    here.job.start()
    here.wait_for(lambda: bool(here.transitions()), _WITHIN_S)
    assert here.job.terminate() == 0

    first = ends(here, here.logs)[0]
    here.send(changes)
    here.send(filler(ends_it, {0: 40}))
    kept_from = ends(here, here.logs)[0]
    here.send(ends_it)
    with closing(KafkaAdminClient(bootstrap_servers=here.bootstrap)) as admin:
        # As retention does: the first offset moves.
        admin.delete_records({TopicPartition(here.logs, 0): kept_from})
    here.job.start()

    def said() -> list[Any]:
        return [t for t in here.transitions() if t.cause == "unread_records_lost"]

    here.wait_for(lambda: [t.transition for t in said()][-1:] == ["resolved"], _WITHIN_S)
    assert f"Kafka's retention deleted {kept_from - first} unread records of {here.logs}/0" in said()[-1].summary
    assert here.job.terminate() == 0
