"""Kafka removed records before flinkwatch had read them: what they told is lost.

Fires on the line that the driver writes into the heartbeat topic when a batch began to read a partition at an offset
below the first one that was still there. Spark skips such a gap without a word (`failOnDataLoss=false`, so that the
watcher does not stop for it). Ends when every partition with a gap has been read up to its end: then no more is at
risk. Fires, too, when an input topic was deleted and made again: the job then reads it from its beginning, and only
what was left of the old one is lost. Gaps between offsets alone prove nothing, compaction and transactions make them,
too; a partition's first offset moves only when records are deleted.

Why an operator cares: an incident in the gap was never seen, one that was open may have ended in it, and durations and
counts around it are wrong. Retention is too short for an outage of flinkwatch, or flinkwatch too slow for its input.
`telemetry_lost` is the better choice when records never reached Kafka. Reference: Spark, "Structured Streaming + Kafka
Integration Guide", `failOnDataLoss`.
"""

from collections.abc import Iterator

import msgspec

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded

_MAX_PARTITIONS = 1000
_MAX_RECORDS = 4


class LostRecords(msgspec.Struct, array_like=True):
    """Records lost from one partition, and the offset before which all of them are gone."""

    count: int
    until: int
    over: bool = False
    again: bool = False
    """The topic was made again: what was not read of the old one is lost, and nobody knows how much that was."""


class UnreadRecordsLost(Detector):
    """See the module."""

    kind = "unread_records_lost"
    belongs_to = "cluster"
    event_types = frozenset(["input_lost", "input_began_again", "input_read_up"])

    class Config(DetectorConfig):
        """unread_records_lost has no thresholds: one lost record is one too many."""

    class State(msgspec.Struct, array_like=True):
        """Gaps by topic/partition since the finding opened; `since` is its event time."""

        gaps: dict[str, LostRecords] = {}
        since: int = 0
        records: list[Evidence] = []

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:  # noqa: ARG002
        """Fold a line about one partition."""
        where = f"{event.fields.get('topic', '')}/{event.fields.get('partition', '')}"
        gap = state.gaps.get(where)
        if event.event_type != "input_read_up":
            again = event.event_type == "input_began_again"
            count, until = int(event.fields.get("count", 0)), 0 if again else int(event.fields.get("until", 0))
            if not count and not again:
                return
            if gap is not None and (gap.again and not gap.over if again else until <= gap.until):
                return
            state.since = state.since or now.time
            state.records = [*state.records, evidence(event, now.time)][-_MAX_RECORDS:]
            before = gap or LostRecords(0, 0)
            put_bounded(
                state.gaps,
                where,
                LostRecords(count + before.count, until, again=again or before.again),
                _MAX_PARTITIONS,
            )
            yield self._finding(state, now)
        elif gap is not None and state.since:
            gap.over = True
            if all(g.over for g in state.gaps.values()):
                finding = self._finding(state, now)
                finding.closed_at, finding.closed_because = now.clock, "everything that is there has been read"
                state.since, state.records = 0, []
                # The offsets stay: a line that comes again must not open it again.
                state.gaps = {w: LostRecords(0, g.until, True) for w, g in state.gaps.items()}
                yield finding

    def _finding(self, state: State, now: Now) -> Finding:
        lost = {w: g for w, g in state.gaps.items() if g.count}
        again = {w: g for w, g in state.gaps.items() if g.again}
        summary = "; ".join(self._sentences(lost, again))
        topics = sorted({w.rpartition("/")[0] for w in (*lost, *again)})
        return Finding(
            kind=self.kind,
            subject="input",
            entity={"topic": ", ".join(topics)[:300]},
            since=state.since,
            at=now.clock,
            severity="critical" if lost else "warning",
            summary=summary,
            confidence="sure",
            evidence=list(state.records),
            advice="See whether flinkwatch was down or is behind (flinkwatch_records_read_total, the time its batches "
            "take). Look at Flink's UI for what it may have missed. For good: keep these topics longer than the "
            "longest outage (retention.ms, retention.bytes), or give flinkwatch more cores.",
        )

    def _sentences(self, lost: dict[str, LostRecords], again: dict[str, LostRecords]) -> Iterator[str]:
        if lost:
            total, where = sum(g.count for g in lost.values()), _places(lost)
            yield f"Kafka removed {total} records of {where} before flinkwatch had read them: what they told is lost"
        if again:
            topics = ", ".join(sorted({w.rpartition("/")[0] for w in again}))
            yield (
                f"{topics} was deleted and made again: flinkwatch reads it from its beginning; what it had not read of "
                "the old one is lost"
            )


def _places(gaps: dict[str, LostRecords]) -> str:
    topics = sorted({where.rpartition("/")[0] for where in gaps})
    return next(iter(gaps)) if len(gaps) == 1 else f"{len(gaps)} partitions of {', '.join(topics)}"
