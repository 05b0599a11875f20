"""Names without end: state, series and transitions are bounded, and refused clusters are reported."""

import msgspec
import pytest

from detectors.engine import bucket
from detectors.engine.entries_cut import EntriesCut
from detectors.events.event import LogEvent, MetricEvent, Record, Sample
from detectors.incident import Reading, Transition
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED, READER
from tests.unit.detectors.streams import LABELS, METRICS, START, in_order, log, page


@pytest.mark.parametrize("parts", [5, pytest.param(200, id="100,000 clusters", marks=pytest.mark.slow)])
def test_clusters_beyond_what_a_bucket_keeps_are_refused_and_the_known_ones_stay(parts: int) -> None:
    index, store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
    own = msgspec.structs.replace(log("tm_registered", 0, tm="t"), cluster="own")
    bucket.step(index, store, [own], own.timestamp)
    refused = 0
    for part in range(parts):
        many = [
            msgspec.structs.replace(log("tm_registered", 1_000 * part, n, tm="t"), cluster=f"c{part}-{n}")
            for n in range(bucket.MAX_CLUSTERS // 2)
        ]
        output = bucket.step(index, store, many, many[0].timestamp)
        refused += sum(count for count, _ in output.refused.values())
        assert all(event.cluster == cluster for cluster, (_, event) in output.refused.items())
    assert len(index.deadlines) == bucket.MAX_CLUSTERS
    assert refused == parts * (bucket.MAX_CLUSTERS // 2) - bucket.MAX_CLUSTERS + 1
    assert len(bucket.encode_index(index)) < 100_000
    later = msgspec.structs.replace(log("tm_unreachable", 1_000 * parts + 60_000, tm="t"), cluster="own")
    assert bucket.step(index, store, [later], later.timestamp + 30_000).refused == {}


def test_a_cluster_without_a_deadline_that_is_known_is_not_refused() -> None:
    """One that lost all its events to a defect is asked again only when its next event comes."""
    index, store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
    many = [
        msgspec.structs.replace(log("tm_registered", 0, n, tm="t"), cluster=f"c{n}") for n in range(bucket.MAX_CLUSTERS)
    ]
    bucket.step(index, store, many, many[0].timestamp)
    del index.deadlines["c7"]
    new = msgspec.structs.replace(log("tm_registered", 1_000, tm="t"), cluster="new")
    bucket.step(index, store, [new], new.timestamp)
    back = msgspec.structs.replace(log("tm_registered", 2_000, tm="t"), cluster="c7")
    assert bucket.step(index, store, [back], back.timestamp).refused == {}


@pytest.mark.parametrize("event_type", ["tm_unreachable", "tm_closed"])
@pytest.mark.parametrize("gap", [1, 3_000])
def test_taskmanagers_that_come_and_go_without_end_are_not_reported_one_by_one(event_type: str, gap: int) -> None:
    """19,999 transitions for 20,000 TaskManagers of one cluster, before."""
    fields = {"reason": "The heartbeat of TaskManager with id x timed out.", "cause": "x"}
    counts = []
    for count in (150, 300):
        stream = []
        for n in range(count):
            stream.append(log("tm_registered", n * gap, 2 * n, tm=f"tm-{n}:1-ab"))
            stream.append(log(event_type, 1_000 + n * gap, 2 * n + 1, tm=f"tm-{n}:1-ab", address=f"tm-{n}:1", **fields))
        transitions, readings, size = _output_of(in_order(stream))
        counts.append(len(transitions))
        assert len(readings) < 3_000
        assert size < 200_000
    assert counts[0] < 60
    # Then one every half an hour.
    assert counts[1] - counts[0] <= 10


@pytest.mark.slow
def test_a_hundred_thousand_taskmanagers_of_one_cluster_are_bounded() -> None:
    """All are lost within minutes."""
    stream = []
    for n in range(100_000):
        stream.append(log("tm_registered", n, 2 * n, tm=f"tm-{n}:1-ab"))
        stream.append(log("tm_unreachable", 1_000 + n, 2 * n + 1, tm=f"tm-{n}:1-ab", address=f"tm-{n}:1"))
    transitions, readings, size = _output_of(in_order(stream))
    assert len(transitions) < 100
    assert len({r.key() for r in readings}) < 3_000
    assert size < 500_000


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_page_of_more_jobs_and_taskmanagers_than_are_kept_is_read_and_bounded(name: str) -> None:
    """Two detectors failed on it, so that the whole page, of all jobs, went to the dead letters."""
    sizes = []
    for count in (1_000, 2_000):
        ids = [dict.fromkeys(LABELS, f"{n:032x}") for n in range(count)]
        samples = [Sample(name, {**one, "subtask_index": "0", "partition": "0"}, 1.0) for one in ids]
        transitions, readings, size = _output_of([page(at * 15_000, samples, at) for at in range(4)])
        assert len({r.key() for r in readings}) < 3_000
        assert len(transitions) < 100
        sizes.append(size)
    assert sizes[1] < 1.25 * sizes[0] + 5_000
    assert sizes[1] < 500_000


def test_names_of_metrics_without_end_are_passed_over() -> None:
    page_ = "\n".join(f'flink_taskmanager_made_up_{n}{{tm_id="t"}} 1' for n in range(10_000))
    assert READER.read(Record("flink.metrics", 0, 0, 0, None, page_.encode())) == []


def _output_of(stream: list) -> tuple[list[Transition], list[Reading], int]:  # type: ignore[type-arg]
    index, store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
    transitions: list[Transition] = []
    readings: list[Reading] = []
    for start in range(0, len(stream), 2_000):
        batch = stream[start : start + 2_000]
        output = bucket.step(index, store, batch, batch[-1].timestamp)
        assert output.defects == []
        transitions += output.transitions
        readings += output.readings
    transitions += bucket.step(index, store, [], stream[-1].timestamp + 60_000).transitions
    return transitions, readings, len(store.get("c") or b"")


def failing(jobs: int, gap: int) -> list[LogEvent]:
    """Jobs of one cluster that run, and then fail one after the other."""
    stream = []
    for n in range(jobs):
        fields = {"job": f"{n:032x}", "name": f"job-{n}"}
        stream.append(log("job_state", n * gap, 2 * n, state="RUNNING", before="CREATED", **fields))
        stream.append(
            log("job_state", (jobs + n) * gap + 60_000, 2 * n + 1, state="FAILED", before="FAILING", **fields)
        )
    return in_order(stream)


@pytest.mark.parametrize(("jobs", "gap"), [pytest.param(10_000, 1, marks=pytest.mark.slow), (1_000, 400)])
def test_jobs_without_end_that_fail_are_a_hundred_incidents_that_count_them(jobs: int, gap: int) -> None:
    """Once, a hundred were reported and the others never, or each opened and ended another one without limit."""
    transitions, _, size = _output_of(failing(jobs, gap))
    assert sum(t.transition == "opened" for t in transitions) == 100
    assert len(transitions) <= 160
    assert sum(len(msgspec.json.encode(t)) for t in transitions) < 2_000_000
    assert not [t for t in transitions if t.transition == "stale"]
    assert size < 50_000
    last = transitions[-1]
    assert len(last.findings) == 20
    assert 400 <= last.more <= 500


def test_other_causes_are_reported_although_a_hundred_incidents_are_open() -> None:
    stream = failing(300, 100)
    end = stream[-1].timestamp - START
    stream.append(log("tm_registered", end + 1_000, 10_000, tm="tm-1:1-ab"))
    fields = {"tm": "tm-1:1-ab", "address": "tm-1:1", "reason": "The heartbeat of TaskManager with id x timed out."}
    stream.append(log("tm_unreachable", end + 2_000, 10_001, cause="x", **fields))
    transitions, _, _ = _output_of(stream)
    assert [t.cause for t in transitions if t.transition == "opened"].count("job_failed") == 100
    assert "taskmanager_lost" in {t.cause for t in transitions}


def cuts(stream: list[LogEvent] | list[MetricEvent]) -> tuple[dict[str, float], list[EntriesCut]]:
    """What the readings and the log say of a cluster that is too large."""
    index, store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
    reported, counted = [], {}
    for start in range(0, len(stream), 500):
        batch = stream[start : start + 500]
        output = bucket.step(index, store, batch, batch[-1].timestamp)
        reported += output.cut
        counted |= {r.labels["what"]: r.value for r in output.readings if r.name == "cluster_entries_cut_total"}
    return counted, reported


def test_a_cluster_with_more_jobs_than_are_kept_is_named_and_counted() -> None:
    """Once, nothing reported that the oldest jobs were dropped."""
    counted, reported = cuts(failing(1_200, 100))
    assert counted["jobs"] >= 1_000
    assert {one.cluster for one in reported} == {"c"}
    # At the first, and at each further power of ten.
    assert 1 <= len(reported) <= 5


def test_a_cluster_with_more_taskmanagers_than_are_kept_is_named_and_counted() -> None:
    stream = [log("tm_registered", n * 100, n, tm=f"tm-{n}:1-ab") for n in range(1_000)]
    counted, reported = cuts(stream)
    assert counted["taskmanagers"] >= 500
    assert {one.what for one in reported} == {"taskmanagers"}


def test_a_page_of_more_jobs_than_are_kept_is_counted() -> None:
    samples = [Sample("records_in", {"job_id": f"{n:032x}", "tm_id": "t"}, 1.0) for n in range(300)]
    counted, _ = cuts([page(at * 15_000, samples, at) for at in range(4)])
    assert counted["jobs"] >= 100


def test_a_cluster_whose_jobs_and_taskmanagers_come_and_go_is_not_reported_to_be_cut() -> None:
    """A session cluster runs thousands of short jobs, and pods are replaced: old entries make room for new ones."""
    stream = []
    for n in range(1_000):
        fields = {"job": f"{n:032x}", "name": "report"}
        stream.append(log("tm_registered", n * 60_000, 3 * n, tm=f"tm-{n}:1-ab"))
        stream.append(log("job_state", n * 60_000 + 1, 3 * n + 1, state="RUNNING", before="CREATED", **fields))
        stream.append(log("job_state", n * 60_000 + 2, 3 * n + 2, state="FINISHED", before="RUNNING", **fields))
    assert cuts(stream) == ({}, [])


def test_the_counters_of_a_cluster_that_is_forgotten_end() -> None:
    index, store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
    stream = [log("tm_registered", n * 10, n, tm=f"tm-{n}:1-ab") for n in range(1_000)]
    keys = {r.key() for r in bucket.step(index, store, stream, stream[-1].timestamp + 10_000).readings}
    output = bucket.step(index, store, [], stream[-1].timestamp + 700_000_000)
    assert {k for k in keys if k.startswith("cluster_entries_cut_total")} <= set(output.removed) != set()


def test_ten_thousand_taskmanagers_that_are_lost_at_once_are_one_incident() -> None:
    fields = {"reason": "The heartbeat of TaskManager with id x timed out.", "cause": "x"}
    stream = [log("tm_registered", n, 2 * n, tm=f"tm-{n}:1-ab") for n in range(10_000)]
    for n, tm in ((n, f"tm-{n}:1") for n in range(10_000)):
        stream += [log("tm_unreachable", 20_000 + n, 2 * n + 1, tm=f"{tm}-ab", address=tm, **fields)]
    transitions, _, size = _output_of(stream)
    assert [t.transition for t in transitions][:1] == ["opened"]
    assert len({t.incident for t in transitions}) == 1
    assert len(transitions) < 10
    assert size < 50_000
