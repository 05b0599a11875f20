"""Kafka's retention deleted records before flinkwatch read them, so events in them were missed.

Opens on the line that the driver writes into the heartbeat topic when a batch started to read a partition at an offset
below the first one that still existed. Spark skips such a gap without a message (`failOnDataLoss=false`, so that the
watcher does not stop for it). Also opens when an input topic was deleted and created again: the job reads the new topic
from its beginning, and only unread records of the old one are lost. Resolved when every affected partition has been
read up to its end, so that no more records are at risk. Gaps between offsets alone prove nothing, because compaction
and transactions cause them too; a partition's first offset moves only when records are deleted.

Why it matters: an incident in the gap was not detected, an open one may have ended in it, and durations and counts
around it are wrong. Retention is too short for an outage of flinkwatch, or flinkwatch is too slow for its input.
`telemetry_lost` covers records that never reached Kafka. Reference: Spark, "Structured Streaming + Kafka Integration
Guide", `failOnDataLoss`.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on
from detectors.flink.facts import InputLost, InputReadUp
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded

_MAX_PARTITIONS = 1000
_MAX_RECORDS = 4

_View: TypeAlias = "View[UnreadRecordsLost.Config, UnreadRecordsLost.State]"


class LostRecords(msgspec.Struct, array_like=True):
    """The number of records lost from one partition, and the offset before which they were deleted."""

    count: int
    until: int
    done: bool = False
    recreated: bool = False
    """The topic was created again. It is not known how many unread records of the old one were lost."""


class UnreadRecordsLost(Detector):
    """Detects records that Kafka deleted before they were read."""

    kind = "unread_records_lost"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `unread_records_lost`. It has no thresholds: every lost record is reported."""

    class State(msgspec.Struct, array_like=True):
        """Gaps by topic/partition since the finding opened. `since` is its event time."""

        gaps: dict[str, LostRecords] = {}
        since: int = 0
        records: list[Evidence] = []

    @on(InputLost)
    def lost(self, view: _View, fact: InputLost) -> None:
        state, where = view.state, f"{fact.topic}/{fact.partition}"
        gap, recreated = state.gaps.get(where), fact.lost == "recreated"
        until = 0 if recreated else fact.until
        if not fact.count and not recreated:
            return
        if gap is not None and (gap.recreated and not gap.done if recreated else until <= gap.until):
            return
        state.since = state.since or view.time
        state.records = [*state.records, view.record()][-_MAX_RECORDS:]
        before = gap or LostRecords(0, 0)
        gap = LostRecords(fact.count + before.count, until, recreated=recreated or before.recreated)
        put_bounded(state.gaps, where, gap, _MAX_PARTITIONS)
        view.report(self._finding(view))

    @on(InputReadUp)
    def read_up(self, view: _View, fact: InputReadUp) -> None:
        state = view.state
        gap = state.gaps.get(f"{fact.topic}/{fact.partition}")
        if gap is None or not state.since:
            return
        gap.done = True
        if all(g.done for g in state.gaps.values()):
            view.close(self._finding(view), "every affected partition has been read up to its end")
            state.since, state.records = 0, []
            # Keep the offsets: the same line again must not open a new finding.
            state.gaps = {w: LostRecords(0, g.until, True) for w, g in state.gaps.items()}

    def _finding(self, view: _View) -> Finding:
        lost = {w: g for w, g in view.state.gaps.items() if g.count}
        recreated = {w: g for w, g in view.state.gaps.items() if g.recreated}
        topics = sorted({w.rpartition("/")[0] for w in (*lost, *recreated)})
        return view.finding(
            "input",
            {"topic": ", ".join(topics)[:300]},
            since=view.state.since,
            severity="critical" if lost else "warning",
            summary="; ".join(self._sentences(lost, recreated)),
            evidence=view.state.records,
            advice="Check whether flinkwatch was down or is behind (flinkwatch_records_read_total, the duration of its "
            "batches). Look in Flink's UI for incidents that it may have missed. To prevent it: keep these topics "
            "longer than the longest outage (retention.ms, retention.bytes), or give flinkwatch more cores.",
        )

    def _sentences(self, lost: dict[str, LostRecords], recreated: dict[str, LostRecords]) -> Iterator[str]:
        if lost:
            total, where = sum(g.count for g in lost.values()), _places(lost)
            yield f"Kafka's retention deleted {total} unread records of {where}; events in them were missed"
        if recreated:
            topics = ", ".join(sorted({w.rpartition("/")[0] for w in recreated}))
            yield (
                f"{topics} was deleted and created again; unread records of the old topic are lost, the new one is "
                "read from its beginning"
            )


def _places(gaps: dict[str, LostRecords]) -> str:
    topics = sorted({where.rpartition("/")[0] for where in gaps})
    return next(iter(gaps)) if len(gaps) == 1 else f"{len(gaps)} partitions of {', '.join(topics)}"
