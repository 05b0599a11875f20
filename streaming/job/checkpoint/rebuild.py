"""`flinkwatch rebuild`: a new checkpoint that the job fills from Kafka, without repeating notifications.

The job reads from the given time and finds the same incidents with the same ids. Transitions up to the point that the
old job had reached are in Kafka already and are not written again (`rebuild_plan.py`). Open incidents that began before
the available records can no longer be tracked; they become stale, so that no message stays open.
"""

import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from kafka import TopicPartition

from detectors.incident import Transition, decode_transition
from detectors.values.decoding import UndecodableError
from sinks.kafka import clients
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import partitions_of, read_to_end
from streaming.configuration.settings import Kafka, Settings
from streaming.errors import UserError
from streaming.job.checkpoint.files import local_path
from streaming.job.checkpoint.lock import CheckpointLock
from streaming.job.checkpoint.offsets import by_topic
from streaming.job.checkpoint.rebuild_plan import EARLIEST, RebuildPlan, write_plan

_WRITE_S = 30.0
_RECENT_MS = 3_600_000
_LOST = "flinkwatch was rebuilt without the records with which this incident began: unknown whether it is resolved"

Offsets = dict[TopicPartition, int]


class RebuildError(UserError):
    """The checkpoint cannot be rebuilt; the message says why and what to do."""


class RebuildResult(NamedTuple):
    """The result: where the old checkpoint is now, until when it had reported, and which incidents became stale."""

    kept: Path | None
    until: int
    stale: list[str]


class Known(NamedTuple):
    partition: int
    transition: Transition


def rebuild(settings: Settings, since: int | None, now: int) -> RebuildResult:
    """Create the new checkpoint. The job will read records from `since` (epoch ms), by default from the oldest.

    Raises RebuildError, or PreflightError while a job uses the checkpoint.
    """
    folder = local_path(settings.streaming.checkpoint)
    if folder is None:
        raise RebuildError(
            f"streaming.checkpoint: {settings.streaming.checkpoint} is not on this host. Move it away with the tools "
            "of its storage, then start the job with streaming.starting_offsets: earliest"
        )
    with (
        CheckpointLock(folder).held(within=0),
        explained(settings.kafka.access, RebuildError),
        closing(clients.consumer(settings.kafka.access)) as consumer,
        closing(clients.producer(settings.kafka.access)) as producer,
    ):
        known = _known(consumer, settings.kafka.topics.incidents)
        read = read_before(folder)
        # Records that the old job has not read are read in any case.
        begins = {p: min(at, read.get(p, at)) for p, at in _begins(consumer, settings.kafka, since).items()}
        until = _until(consumer, read, settings.kafka, known)
        stale = end_lost(producer, settings.kafka, known, _first_time(consumer, settings.kafka, begins, since), now)
        offsets = {settings.kafka.topics.config: {"0": EARLIEST}, **by_topic(begins)}
        new = RebuildPlan(until, by_topic(read), may_change(known, stale, until), offsets)
        kept = replace(folder, new, now)
    return RebuildResult(kept, until, sorted(stale))


def _partitions(consumer: Any, topics: tuple[str, ...]) -> list[TopicPartition]:
    there = consumer.topics()
    if missing := [topic for topic in topics if topic not in there]:
        raise RebuildError(f"Kafka has no topic {', '.join(missing)}")
    return partitions_of(consumer, *topics)


def _begins(consumer: Any, kafka: Kafka, since: int | None) -> Offsets:
    partitions = _partitions(consumer, (*kafka.logs, *kafka.metrics, kafka.topics.heartbeat))
    if since is None:
        return consumer.beginning_offsets(partitions)  # type: ignore[no-any-return]
    found, ends = consumer.offsets_for_times(dict.fromkeys(partitions, since)), consumer.end_offsets(partitions)
    return {p: found[p].offset if found.get(p) is not None else ends[p] for p in partitions}


def _until(consumer: Any, read: Offsets, kafka: Kafka, known: dict[str, Known]) -> int:
    """The time up to which the old job had reported: its newest record, but not after the first unread record."""
    if not read:
        return max((each.transition.at for each in known.values()), default=-1) + 1
    inputs = {*kafka.logs, *kafka.metrics}
    ends = consumer.end_offsets(list(read))
    done = [
        _time_at(consumer, p, offset - 1) for p, offset in read.items() if p.topic != kafka.topics.config and offset
    ]
    left = [_time_at(consumer, p, offset) for p, offset in read.items() if p.topic in inputs and offset < ends[p]]
    return min([max((time for time in done if time is not None), default=0) + 1, *(t for t in left if t is not None)])


def read_before(folder: Path) -> Offsets:
    """The end offsets of the newest committed batch whose file can be read."""
    commits = {f.name for f in (folder / "commits").glob("[0-9]*")}
    files = sorted((folder / "offsets").glob("[0-9]*"), key=lambda file: -int(file.name))
    for file in files:
        if file.name not in commits:
            continue
        try:
            topics = msgspec.json.decode(file.read_bytes().splitlines()[-1], type=dict[str, dict[str, int]])
        except (msgspec.DecodeError, IndexError, OSError):
            continue
        return {TopicPartition(t, int(p)): offset for t, offsets in topics.items() for p, offset in offsets.items()}
    return {}


def _time_at(consumer: Any, partition: TopicPartition, offset: int) -> int | None:
    """The Kafka timestamp of the first record from `offset` on."""
    begin = consumer.beginning_offsets([partition])[partition]
    found = next(read_to_end(consumer, [partition], {partition: max(offset, begin)}), None)
    return None if found is None else int(found.timestamp)


def _known(consumer: Any, topic: str) -> dict[str, Known]:
    known: dict[str, Known] = {}
    for record in read_to_end(consumer, _partitions(consumer, (topic,))):
        try:
            transition = decode_transition(record.value) if record.value else None
        except UndecodableError:
            continue
        if transition is None:
            known.pop((record.key or b"").decode(errors="replace"), None)
        elif transition.incident not in known or known[transition.incident].transition.seq <= transition.seq:
            known[transition.incident] = Known(record.partition, transition)
    return known


def _first_time(consumer: Any, kafka: Kafka, begins: Offsets, since: int | None) -> int:
    """The time from which all records are read; 0 if Kafka has deleted none."""
    times = [since or 0]
    for partition, offset in begins.items():
        if since is None and offset > 0 and partition.topic in {*kafka.logs, *kafka.metrics}:
            times.append(_time_at(consumer, partition, offset) or 0)
    return max(times)


def end_lost(producer: Any, kafka: Kafka, known: dict[str, Known], first: int, now: int) -> set[str]:
    """Make open incidents that began before `first` stale, since they can no longer be tracked."""
    lost = set()
    for partition, last in known.values():
        began = min((finding.since for finding in last.findings), default=last.opened_at)
        if last.transition in {"resolved", "stale"} or began >= first:
            continue
        stale = msgspec.structs.replace(last, seq=last.seq + 1, transition="stale", at=now, reason=_LOST, forecast=None)
        key, value = last.incident.encode(), msgspec.json.encode(stale)
        producer.send(kafka.topics.incidents, key=key, value=value, partition=partition).get(timeout=_WRITE_S)
        known[last.incident] = Known(partition, stale)
        lost.add(last.incident)
    return lost


def may_change(known: dict[str, Known], stale: set[str], until: int) -> dict[str, int]:
    """Incidents that are open, or were resolved so recently that they may continue."""
    return {
        incident: last.seq
        for incident, (_, last) in known.items()
        if last.transition != "resolved" or incident in stale or last.at >= until - _RECENT_MS
    }


def replace(folder: Path, new: RebuildPlan, now: int) -> Path | None:
    """Move the old checkpoint aside and put the new one in its place; returns where the old one is."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now / 1000))
    stay = (CheckpointLock.NAME, "before-rebuild-")
    old = [each for each in folder.iterdir() if not each.name.startswith(stay)]
    kept = folder / f"before-rebuild-{stamp}"
    try:
        if old:
            kept.mkdir()
            for each in old:
                each.rename(kept / each.name)
        write_plan(folder, new)
    except OSError as error:
        raise RebuildError(
            f"{error.filename or folder}: {error.strerror or error}. Files that were moved are in {kept}"
        ) from error
    return kept if old else None
