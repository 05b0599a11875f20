"""Recomputes an incident from the records in Kafka: do the same records lead to the same cause?

The records of all clusters around it are written to a recording in a temporary folder, because a replay reads its input
twice: first to find out which sources' clocks can be trusted. Only the events of the incident's cluster are folded.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from detectors.events.event import Rejected
from detectors.events.reader import Reader
from detectors.events.vocabulary import flinkwatch_itself
from detectors.incident import Transition
from detectors.settings.live import publish
from sinks.contract.wording import moment
from streaming.configuration.known_issues import in_force, read_files
from streaming.configuration.settings import Settings
from streaming.errors import RecordingError
from streaming.recordings.capture import CaptureError, capture
from streaming.recordings.inputs import InputFiles
from streaming.recordings.replay import Arrived, run

AFTER_MS = 60_000
_SAME_TIME_MS = 60_000

Verdict = Literal["yes", "no", "not possible"]


class Recomputed(NamedTuple):
    """Whether an incident could be reproduced, and why in one sentence."""

    reproduced: Verdict
    why: str


class TimeSpan(NamedTuple):
    """From and to (epoch ms)."""

    begin: int
    end: int


def span_of(stored: list[Transition], history_ms: int, longest_ms: int) -> TimeSpan:
    """The time whose records show the incident: from `history_ms` before its first symptom, for at most `longest_ms`
    after it was opened.
    """
    opened = stored[0].opened_at or stored[0].at
    since = min((f.since for t in stored for f in t.findings), default=opened)
    evidence = min((e.time for t in stored for e in t.evidence), default=opened)
    return TimeSpan(min(since, evidence, opened) - history_ms, min(stored[-1].at, opened + longest_ms) + AFTER_MS)


def recompute(
    settings: Settings, stored: list[Transition], span: TimeSpan, most: int, say: Callable[[str], None]
) -> Recomputed:
    """Replay the records of the incident's time and compare. Raises nothing that the records or Kafka may cause."""
    with tempfile.TemporaryDirectory(prefix="flinkwatch-") as folder:
        file = Path(folder) / "records.jsonl.gz"
        try:
            capture(
                settings.kafka,
                span.begin,
                file,
                lambda done, of: say(f"{done:,} of {of:,} records"),
                until=span.end,
                most=most,
            )
            replayed = replay_cluster(settings, file, stored[0].cluster)
        except (CaptureError, RecordingError) as error:
            return Recomputed("not possible", str(error))
    return compared([t for t in stored if t.at <= span.end], replayed)


def replay_cluster(settings: Settings, file: Path, cluster: str) -> list[Transition]:
    """The transitions of one cluster in a recording. Raises RecordingError."""
    topics = settings.kafka.topics
    # What flinkwatch reports of itself follows from the incidents of all clusters.
    of_all = cluster == flinkwatch_itself.CLUSTER
    reader = Reader(settings.identity, frozenset(settings.kafka.metrics))
    inputs = InputFiles([file], reader, settings.kafka.for_files, config_topic=topics.config)

    def arrived() -> Iterator[Arrived]:
        for clock, _, record in inputs.arrivals():
            read = [] if record is None or record.topic == topics.config else reader.read(record)
            events = [] if isinstance(read, Rejected) else [e for e in read if of_all or e.cluster == cluster]
            yield clock, record, events

    published = publish(settings.live, at=0, by="explain")
    issues = in_force(read_files(settings.known_issues.files))
    return [t for t in run(arrived(), published, topics.config, issues=issues) if t.cluster == cluster]


def compared(stored: list[Transition], replayed: list[Transition]) -> Recomputed:
    """Compare the cause and the first transition of an incident with those of a replay.

    The same records give an incident the same ID, but what was learned before them may have decided when it opened.
    """
    last = stored[-1]
    opened = last.opened_at or stored[0].at
    same = [t for t in replayed if t.incident == last.incident]
    if not same:
        near = [t for t in replayed if t.seq == 1 and abs(t.opened_at - opened) <= _SAME_TIME_MS]
        same = [t for one in near if one.cause == stored[0].cause for t in replayed if t.incident == one.incident]
    if not same:
        others = ", ".join(sorted({t.cause for t in replayed})) or "no incident"
        return Recomputed("no", f"the replay reports {others}")
    first, end = same[0], same[-1]
    if end.cause != last.cause:
        return Recomputed("no", f"the cause is {end.cause} in the replay, {last.cause} in the topic")
    if abs(first.at - opened) > _SAME_TIME_MS:
        return Recomputed("no", f"the replay opens it at {moment(first.at)}, the topic has {moment(opened)}")
    return Recomputed("yes", f"the replay opens it at {moment(first.at)} with the cause {first.cause}")
