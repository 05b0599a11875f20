"""An installation of flinkwatch under test: its topics, its job, what it was given and what it said."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from detectors.events.event import Record
from detectors.incident import Transition, decode_transition
from tests.embedded.job_process import JobProcess

SCENARIOS = Path(__file__).parents[1] / "scenarios"
_TOGETHER_MS = 500


class Installation:
    """Topics under a prefix of their own, and a job that is not started yet. The test sends the heartbeat."""

    def __init__(self, bootstrap: str, folder: Path, prefix: str, streaming: dict[str, object]) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.logs, self.metrics = f"{prefix}.in.logs", f"{prefix}.in.metrics"
        self.configuration: dict[str, Any] = {
            "kafka": {
                "access": {"bootstrap_servers": bootstrap},
                "logs": [self.logs],
                "metrics": [self.metrics],
                "topics": {"prefix": prefix},
            },
            "streaming": {
                "checkpoint": str(folder / "checkpoint"),
                "starting_offsets": "earliest",
                "heartbeat": False,
                "buckets": 2,
                "trigger": "500ms",
                **streaming,
            },
        }
        self.folder = folder
        self.job = JobProcess(folder, self.configuration, "--no-deliver")

    def create_inputs(self, partitions: int = 2) -> None:
        """The topics that a shipper would have made, and the heartbeat, which in a test is as old as its recording."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        for topic, count in {self.logs: partitions, self.metrics: partitions, f"{self.prefix}.heartbeat": 1}.items():
            admin.create_topics(
                {
                    topic: {
                        "num_partitions": count,
                        "replication_factor": 1,
                        # Recordings may be older than a broker keeps records.
                        "configs": {"max.message.bytes": "20000000", "retention.ms": "-1"},
                    }
                }
            )
        admin.close()

    def send(self, records: Iterable[Record]) -> list[Record]:
        """Records as they are, to this installation's topics; as they stand in Kafka afterwards (topic and offset).

        Kafka has what is older before what is younger is sent: a partition that came later would be one that lags.
        """
        topics = {"flink.logs": self.logs, "flink.metrics": self.metrics}
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, max_request_size=20_000_000)
        sent, newest = [], 0
        for r in records:
            if r.timestamp > newest + _TOGETHER_MS:
                newest = r.timestamp
                producer.flush(timeout=120)
            future = producer.send(
                topics.get(r.topic, r.topic),
                key=r.key,
                value=r.value,
                headers=list(r.headers),
                partition=r.partition,
                timestamp_ms=r.timestamp,
            )
            sent.append((r, future))
        producer.flush(timeout=120)
        producer.close()
        return [_as_stored(r, future.get(timeout=120)) for r, future in sent]

    def heartbeat(self, *timestamps: int) -> None:
        """Pulses with these Kafka timestamps, epoch ms."""
        self.send(Record(f"{self.prefix}.heartbeat", 0, 0, t, None, b"") for t in timestamps)

    def transitions(self) -> list[Transition]:
        """Everything said of incidents so far, in order of each incident; records written twice count once."""
        values = self.values("incidents")
        said = {(t.incident, t.seq): t for t in map(decode_transition, values)}
        return sorted(said.values(), key=lambda t: (t.at, t.incident, t.seq))

    def rejected(self) -> list[dict[str, Any]]:
        """The dead letters so far."""
        return [json.loads(v) for v in self.values("rejected")]

    def readings(self) -> dict[str, float]:
        """The newest value of each reading, by name and labels."""
        newest = [json.loads(v) for v in self.values("readings")]
        return {f"{r['name']} {sorted(r['labels'].items())}": r["value"] for r in newest}

    def values(self, name: str) -> list[bytes]:
        """All values of one of flinkwatch's topics, without tombstones."""
        topic = f"{self.prefix}.{name}"
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False)
        try:
            partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
            if not partitions:
                return []
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            found: list[bytes] = []
            while any(consumer.position(p) < ends[p] for p in partitions):
                for records in consumer.poll(timeout_ms=1_000).values():
                    found += [r.value for r in records if r.value is not None]
            return found
        finally:
            consumer.close()

    def wait_for(self, met: Callable[[], bool], within: float = 600.0) -> None:
        """Until `met`; fails with the end of the job's log when the job ends or time runs out."""
        self.job.await_condition(lambda: met() or bool(time.sleep(0.2)), within)


def _as_stored(record: Record, where: Any) -> Record:
    return Record(
        where.topic, where.partition, where.offset, record.timestamp, record.key, record.value, record.headers
    )
