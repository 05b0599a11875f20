"""What Spark says of the query's progress, as metrics."""

from typing import Any

from prometheus_client import CollectorRegistry

from streaming.job.telemetry import Telemetry


def progress(batch: int, *, busy: bool = True, **more: Any) -> dict[str, Any]:
    """As Spark 4.2 gives it; `busy` is false while it waits for records."""
    return {
        "batchId": batch,
        "timestamp": "2026-11-21T08:00:00.000Z",
        "numInputRows": 10,
        "inputRowsPerSecond": 5.0,
        "processedRowsPerSecond": 20.0,
        "durationMs": {"triggerExecution": 500, **({"addBatch": 400} if busy else {})},
        "stateOperators": [
            {"memoryUsedBytes": 1000, "commitTimeMs": 250, "customMetrics": {"rocksdbSstFileSize": 2000}}
        ],
        "sources": [
            {
                "endOffset": '{"logs":{"0":40,"1":9},"flinkwatch.heartbeat":{"0":3}}',
                "latestOffset": '{"logs":{"0":50,"1":11},"flinkwatch.heartbeat":{"0":3}}',
            }
        ],
        **more,
    }


def samples(telemetry: Telemetry) -> dict[str, float]:
    """Samples by name and label values."""
    registry = CollectorRegistry()
    registry.register(telemetry)
    found = [s for metric in registry.collect() for s in metric.samples]
    return {" ".join([s.name.removeprefix("flinkwatch_"), *s.labels.values()]): s.value for s in found}


def test_before_the_first_batch_there_are_no_metrics_of_the_last_batch() -> None:
    """A gauge of 0 would say that it finished in 1970."""
    assert samples(Telemetry("abc", 500))["config_info abc"] == 1
    assert samples(Telemetry("abc", 500))["trigger_seconds"] == 0.5
    assert "batch_last_timestamp_seconds" not in samples(Telemetry("abc", 500))


def test_a_batch_is_counted_once_and_waiting_not_at_all() -> None:
    telemetry = Telemetry("abc", 500)
    for one in (progress(0), progress(0), progress(1, busy=False), progress(1, busy=False), progress(1)):
        telemetry.progressed(one)
    found = samples(telemetry)
    assert found["batch_duration_seconds_count"] == 2
    assert found["batch_duration_seconds_sum"] == 1.0
    assert found["batch_duration_seconds_bucket 0.5"] == 2
    assert found["input_records_total"] == 20
    assert found["batch_last_timestamp_seconds"] == 1_795_248_000.5


def test_batches_between_two_looks_are_not_missed() -> None:
    """A trigger shorter than the time between looks."""
    telemetry = Telemetry("abc", 500)
    telemetry.progressed(progress(0))
    telemetry.progressed(progress(3), lambda: [progress(number) for number in range(4)])
    assert samples(telemetry)["batch_duration_seconds_count"] == 4


def test_consumer_lag_is_exported_by_topic_also_while_idle() -> None:
    telemetry = Telemetry("abc", 500)
    telemetry.progressed(progress(0))
    assert samples(telemetry)["consumer_lag_records logs"] == 12
    assert samples(telemetry)["consumer_lag_records flinkwatch.heartbeat"] == 0
    source = progress(0)["sources"][0]
    telemetry.progressed(progress(1, busy=False, sources=[{**source, "endOffset": source["latestOffset"]}]))
    assert samples(telemetry)["consumer_lag_records logs"] == 0


def test_offsets_that_cannot_be_read_are_none() -> None:
    telemetry = Telemetry("abc", 500)
    telemetry.progressed(progress(0, sources=[{"endOffset": None, "latestOffset": "what"}]))
    assert not [name for name in samples(telemetry) if name.startswith("consumer_lag_records")]


def test_state_and_configuration() -> None:
    telemetry = Telemetry("abc", 500)
    telemetry.progressed(progress(0))
    telemetry.configured("def")
    found = samples(telemetry)
    assert (found["state_memory_bytes"], found["state_disk_bytes"], found["state_commit_seconds"]) == (1000, 2000, 0.25)
    assert [name for name in found if name.startswith("config_info")] == ["config_info def"]
