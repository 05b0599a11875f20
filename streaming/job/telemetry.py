"""Metrics of the job, from the progress that Spark reports."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from sinks.prometheus.catalogue import build_info, info, lasting
from streaming.job.checkpoint.offsets import parsed

_DURATION_S = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
# Spark also reports progress while idle; only a batch has this duration.
_BATCH = "addBatch"

Progress = Mapping[str, Any]


class Telemetry(Collector):
    """Collects from the progress of one query. Safe to use from several threads."""

    def __init__(self, config_hash: str, trigger_ms: int) -> None:
        self._hash = config_hash
        self._trigger = lasting(Gauge, "trigger_seconds")
        self._trigger.set(trigger_ms / 1000)
        self._batch = -1
        self._duration = lasting(Histogram, "batch_duration_seconds", buckets=_DURATION_S)
        self._records = lasting(Counter, "input_records_total")
        self._restarts = lasting(Counter, "query_restarts_total")
        self._always = self._trigger, self._duration, self._records, self._restarts
        self._last = lasting(Gauge, "batch_last_timestamp_seconds")
        self._came = lasting(Gauge, "input_records_per_second")
        self._done = lasting(Gauge, "processed_records_per_second")
        self._behind = lasting(Gauge, "consumer_lag_records")
        self._memory = lasting(Gauge, "state_memory_bytes")
        self._disk = lasting(Gauge, "state_disk_bytes")
        self._commit = lasting(Gauge, "state_commit_seconds")
        self._of_last_batch = self._last, self._came, self._done, self._behind, self._memory, self._disk, self._commit

    def configured(self, config_hash: str) -> None:
        self._hash = config_hash

    def restarted(self) -> None:
        self._restarts.inc()

    def progressed(self, latest: Progress, recent: Callable[[], Sequence[Progress]] = list) -> None:
        """Take the newest progress. `recent` is called for the others if batches were missed in between."""
        number = latest["batchId"]
        missed = recent() if self._batch >= 0 and number > self._batch + 1 else []
        for progress in [*missed, latest]:
            if progress["batchId"] > self._batch and _BATCH in progress["durationMs"]:
                self._finished(progress)
                self._batch = progress["batchId"]
        self._behind_now(latest)

    def collect(self) -> Iterator[Metric]:
        # Metrics of the last batch are exported only after the first one.
        for metric in (*self._always, *(self._of_last_batch if self._batch >= 0 else ())):
            yield from metric.collect()
        yield info("config_info", self._hash)

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registration does not collect."""
        return iter(())

    def _finished(self, progress: Progress) -> None:
        whole = progress["durationMs"].get("triggerExecution", 0) / 1000
        self._duration.observe(whole)
        self._records.inc(progress["numInputRows"])
        self._came.set(progress["inputRowsPerSecond"])
        self._done.set(progress["processedRowsPerSecond"])
        self._last.set(datetime.fromisoformat(progress["timestamp"]).timestamp() + whole)
        for state in progress["stateOperators"]:
            self._memory.set(state["memoryUsedBytes"])
            self._disk.set(state["customMetrics"].get("rocksdbSstFileSize", 0))
            self._commit.set(state["commitTimeMs"] / 1000)

    def _behind_now(self, progress: Progress) -> None:
        for source in progress["sources"]:
            read, there = parsed(source["endOffset"]), parsed(source["latestOffset"])
            for topic, partitions in there.items():
                done = read.get(topic, {})
                self._behind.labels(topic).set(sum(max(0, end - done.get(p, end)) for p, end in partitions.items()))


class Build(Collector):
    """The version of flinkwatch, for a page without delivery's metrics."""

    def collect(self) -> Iterator[Metric]:
        yield build_info()
