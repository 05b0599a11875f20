"""A file of exported state is taken as a whole, or refused with the line that is wrong and without a change."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from detectors.engine import bucket
from detectors.engine.bucket import BucketIndex, decode_index, encode_index
from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.incident import decode_transition
from streaming.configuration.settings import Settings
from streaming.job.checkpoint.import_state import import_state
from streaming.job.checkpoint.imported_state import read_bucket
from streaming.job.checkpoint.rebuild_plan import NO_PLAN, RebuildPlan, read_plan
from streaming.job.checkpoint.state_file import (
    ExportHeader,
    ExportLine,
    StateFileError,
    UnfinishedBatch,
    cluster_line,
    index_line,
    read_export,
    write_export,
)
from streaming.job.rows import Packed, bucket_of, encode_packed
from streaming.job.watch import BucketProcessor, OutputTopics
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED, events
from tests.unit.detectors.streams import in_order

STREAM = in_order(events("late-barrier-acks"))
MIDDLE = len(STREAM) * 3 // 4  # an incident is open
CLUSTER = "clickstream"
OFFSETS = {"logs": {"0": 7, "1": 9}, "config": {"0": 1}}
HEADER = ExportHeader(written_by="0.1.0", buckets=1, shuffle_partitions=2, batch=4, offsets=OFFSETS)
METADATA = '{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"2","other":"1"}}'
FAR = 4_000_000_000_000


def stepped() -> tuple[BucketIndex, bytes]:
    """The index and the state of the cluster after the first part of the scenario."""
    index, store = BucketIndex(published=PUBLISHED), MemoryStore()
    bucket.step(index, store, STREAM[:MIDDLE], max(e.timestamp for e in STREAM[:MIDDLE]))
    return index, store.get(CLUSTER) or b""


INDEX, STATE = stepped()


def written(file: Path, header: ExportHeader = HEADER, *more: ExportLine) -> Path:
    with file.open("w") as out:
        assert write_export(out, header, [index_line(0, encode_index(INDEX)), cluster_line(0, CLUSTER, STATE), *more])
    return file


def settings(place: Path, buckets: int = 3) -> Settings:
    return Settings.model_validate(
        {"streaming": {"checkpoint": str(place), "buckets": buckets, "shuffle_partitions": 5}}
    )


def test_the_file_holds_the_state_exactly_and_shows_it_with_names(tmp_path: Path) -> None:
    export = read_export(written(tmp_path / "state.jsonl"))
    assert (export.header, export.indexes) == (HEADER, {0: INDEX})
    assert export.clusters == {CLUSTER: STATE}
    lines: list[dict[str, Any]] = [json.loads(line) for line in (tmp_path / "state.jsonl").read_text().splitlines()]
    state = lines[2]["state"]
    assert (lines[2]["bucket"], lines[2]["cluster"], state["clock"]) == (0, CLUSTER, decode_state(STATE).clock)
    assert state["incidents"][0]["findings"][0]["kind"] == "checkpoint_overdue"
    assert set(state["detectors"]) == set(decode_state(STATE).detectors)
    assert isinstance(state["detectors"]["checkpoint_overdue"], dict)


def test_the_new_checkpoint_has_the_state_in_its_buckets_and_starts_at_the_offsets(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    done = import_state(settings(place), written(tmp_path / "state.jsonl"), now=0)
    assert (done.clusters, done.kept) == (1, None)
    plan = read_plan(str(place))
    assert plan.starting_offsets({"logs": {"0": -1, "1": -1, "2": -1}, "new": {"0": -1}}) == {
        # A partition that was added since is read from its beginning.
        "logs": {"0": 7, "1": 9, "2": -2},
        "config": {"0": 1},
        "new": {"0": -1},
    }
    for number in range(3):
        imported = read_bucket(plan.state, number)
        assert imported is not None
        own = {CLUSTER: STATE} if number == bucket_of(CLUSTER, 3) else {}
        assert imported.clusters == own
        assert [*decode_index(imported.index).deadlines] == [*own]
    assert not (place / "offsets").exists()


def test_an_unfinished_batch_is_planned_with_the_same_ends_and_the_new_partitions(tmp_path: Path) -> None:
    ends = {"logs": {"0": 10, "1": 9}}
    header = msgspec.structs.replace(HEADER, unfinished=UnfinishedBatch(["v1", METADATA], ends))
    import_state(settings(tmp_path / "new"), written(tmp_path / "state.jsonl", header), now=0)
    version, metadata, planned = (tmp_path / "new" / "offsets" / "0").read_text().splitlines()
    assert (version, json.loads(planned)) == ("v1", ends)
    # Spark refuses planned batches without the id of their query.
    assert UUID(json.loads((tmp_path / "new" / "metadata").read_text())["id"])
    assert json.loads(metadata)["conf"] == {"spark.sql.shuffle.partitions": "5", "other": "1"}


def test_an_old_checkpoint_is_moved_aside(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    (place / "commits").mkdir(parents=True)
    done = import_state(settings(place), written(tmp_path / "state.jsonl"), now=0)
    assert done.kept is not None
    assert (done.kept / "commits").is_dir()
    assert not (place / "commits").exists()


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda lines: [], r"line 1: the record has no value"),
        (lambda lines: ["{}", *lines[1:]], r"line 1: Object missing required field"),
        (
            lambda lines: [lines[0].replace('"version":1', '"version":8'), *lines[1:]],
            r"line 1: the export has version 8",
        ),
        (lambda lines: [*lines[:2], lines[2][:-20]], r"line 3: "),
        (
            lambda lines: [*lines[:2], lines[2].replace('"data":"e', '"data":"Z')],
            r"line 3: the state of",
        ),
        (lambda lines: lines[:2], r"not whole: the state of cluster clickstream is missing"),
        (lambda lines: [lines[0], lines[2]], r"not whole: the index of bucket 0 is missing"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_and_the_checkpoint_stays(edit: Any, problem: str, tmp_path: Path) -> None:
    file, place = written(tmp_path / "state.jsonl"), tmp_path / "checkpoint"
    place.mkdir()
    (place / "metadata").write_text("kept")
    file.write_text("".join(line + "\n" for line in edit(file.read_text().splitlines())))
    with pytest.raises(StateFileError, match=problem):
        import_state(settings(place), file, now=0)
    assert [each.name for each in place.iterdir()] == ["metadata"]


def test_a_checkpoint_elsewhere_is_refused(tmp_path: Path) -> None:
    elsewhere = Settings.model_validate({"streaming": {"checkpoint": "s3a://bucket/checkpoint"}})
    with pytest.raises(StateFileError, match="is not on this host"):
        import_state(elsewhere, written(tmp_path / "state.jsonl"), now=0)


def feed(tester: TwsTester, number: int) -> list[tuple[str, int]]:
    """The incidents and numbers of the transitions of the rest of the scenario, in one batch of one bucket."""
    rest = STREAM[MIDDLE:]
    packed = Packed(clocks={"logs/0": max(e.timestamp for e in rest)}, wall=FAR, events=list(rest))
    rows = tester.test(number, [Row(packed=encode_packed(packed))])
    found = [decode_transition(row.value) for row in rows if row.topic == "incidents"]
    return [(t.incident, t.seq) for t in found]


def test_the_first_batch_of_a_bucket_takes_its_imported_state_and_later_ones_their_own(tmp_path: Path) -> None:
    import_state(settings(tmp_path / "new"), written(tmp_path / "state.jsonl"), now=0)
    topics = OutputTopics("incidents", "readings", "rejected")
    plan, number = read_plan(str(tmp_path / "new")), bucket_of(CLUSTER, 3)
    tester = TwsTester(BucketProcessor(topics, plan))
    open_before = decode_state(STATE).incidents[0]
    found = feed(tester, number)
    assert found[0] == (open_before.id, open_before.seq + 1)
    (Path(plan.state) / str(number)).unlink()
    # The file is not needed again, and the records that came again change nothing.
    assert feed(tester, number) == []


def test_a_bucket_whose_imported_state_cannot_be_read_does_not_begin_without_it(tmp_path: Path) -> None:
    lost = RebuildPlan(state=str(tmp_path / "nowhere"))
    with pytest.raises(Exception, match="No such file"):
        feed(TwsTester(BucketProcessor(OutputTopics("incidents", "readings", "rejected"), lost)), 0)
    assert read_bucket(NO_PLAN.state, 0) is None


def test_state_of_a_detector_that_no_longer_exists_is_shown_as_it_is() -> None:
    state = ClusterState(detectors={"a_former_kind": msgspec.Raw(msgspec.msgpack.encode([1, b"x"]))})
    assert cluster_line(0, "c", encode_state(state)).state["detectors"] == {"a_former_kind": [1, "eA=="]}
