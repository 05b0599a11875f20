"""Settings of Flink and its version that changed during an incident, and what became of the incident since, in numbers.

Changes within a minute are one adjustment: a new deployment prints all of them at its start. An adjustment is reported
once, its effect once more after enough checkpoints or an hour, and both with every later change of the incident.
"""

from statistics import median

import msgspec

from detectors.flink.facts import CheckpointCompleted, CheckpointFailed, Fact, JobRestarting, JobStateChanged
from detectors.flink.flink_settings import VERSION
from detectors.incident import Adjustment, ChangedSetting, Evidence, Finding, Series
from detectors.values.durations import LONG_AGO, humanize, roughly
from detectors.values.sizes import mib

MAX_ADJUSTMENTS = 4
"""Adjustments of one incident; later ones are not noted."""

_MAX_CHANGED = 8
_MAX_DURATIONS = 12
_TOGETHER_MS = 60_000
_EFFECT_MS = 3_600_000
_LEAST_EFFECT_MS = 600_000
_ENOUGH_CHECKPOINTS = 10
_LEAST_POINTS = 3
# Several lines about one restart have nearly the same time.
_SAME_RESTART_MS = 1_000


class Tally(msgspec.Struct, array_like=True):
    """Checkpoints and restarts since a clock time (0: since the incident opened), and the last durations in ms."""

    since: int = 0
    completed: int = 0
    failed: int = 0
    restarts: int = 0
    durations: list[int] = []

    @property
    def checkpoints(self) -> int:
        return self.completed + self.failed


class FollowUp(msgspec.Struct, array_like=True):
    """The adjustments of one incident. `report_at` and `judge_at` are the clock times at which the last one, and what
    became of it, is to be reported (0: not).

    Only the effect of the last one may still change. `before` and `since` count what happened before and since it;
    `issue` is the known issue that the incident matched before it. `restarted` is the event time of the last restart.
    """

    adjustments: list[Adjustment] = []
    before: Tally = msgspec.field(default_factory=Tally)
    since: Tally = msgspec.field(default_factory=Tally)
    restarted: int = LONG_AGO
    report_at: int = 0
    judge_at: int = 0
    issue: str = ""

    @property
    def due(self) -> int:
        """The clock time at which there is something to report, 0 for never."""
        return min((at for at in (self.report_at, self.judge_at) if at), default=0)

    def count(self, fact: Fact, clock: int, time: int) -> None:
        """Count a checkpoint or a restart of the incident's job."""
        since = self.since
        match fact:
            case CheckpointCompleted(savepoint=False):
                since.completed += 1
                if fact.duration >= 0:
                    since.durations = [*since.durations, fact.duration][-_MAX_DURATIONS:]
            case CheckpointFailed(savepoint=False, again=False):
                since.failed += 1
            case JobRestarting() | JobStateChanged(state="RESTARTING") if time - self.restarted >= _SAME_RESTART_MS:
                self.restarted = time
                since.restarts += 1
        if self.judge_at and since.checkpoints >= _ENOUGH_CHECKPOINTS:
            self.judge_at = min(self.judge_at, max(since.since + _LEAST_EFFECT_MS, clock + 1))

    def change(self, changed: ChangedSetting, record: Evidence, clock: int, judge_after: int, issue: str) -> None:
        """Note a changed setting. It joins an adjustment that is not reported yet; the same change is noted once."""
        if self.report_at:
            self._join(changed)
            return
        known = [one for adjustment in self.adjustments for one in adjustment.changed]
        if len(self.adjustments) >= MAX_ADJUSTMENTS or changed in known:
            return
        self.adjustments = [*self.adjustments, Adjustment(record.time, [changed], record)]
        self.before, self.since, self.issue = self.since, Tally(clock), issue
        self.report_at, self.judge_at = clock + _TOGETHER_MS, clock + (judge_after or _EFFECT_MS)

    def _join(self, changed: ChangedSetting) -> None:
        """Processes of an old and of a new deployment may start in any order: the last value counts."""
        last = self.adjustments[-1]
        earlier = next((one for one in last.changed if one.key == changed.key), changed)
        others = [one for one in last.changed if one.key != changed.key]
        if earlier.before != changed.after:
            others = [*others, ChangedSetting(changed.key, earlier.before, changed.after)]
        self.adjustments = self.adjustments[:-1]
        if others:
            self.adjustments.append(msgspec.structs.replace(last, changed=others[:_MAX_CHANGED]))
            return
        self.before, self.since = Tally(), self.before
        self.report_at = self.judge_at = 0

    def news(self, now: int) -> str:
        """What is to be reported at `now`, as the reason of a transition; empty if nothing is."""
        last = self.adjustments[-1] if self.adjustments else None
        if last is None or not self.due or now < self.due:
            return ""
        if self.report_at:
            self.report_at = 0
            return f"changed: {in_words(last)}"
        self.judge_at = 0
        if not last.effect:
            return ""
        self.adjustments = [*self.adjustments[:-1], msgspec.structs.replace(last, judged=True)]
        return f"{in_words(last)}: {last.effect}"

    def judge(self, effect: str) -> None:
        """Set the effect of the last adjustment."""
        last = self.adjustments[-1]
        self.adjustments = [*self.adjustments[:-1], msgspec.structs.replace(last, effect=effect)]

    def end(self) -> None:
        """The incident was resolved, and its effects were reported with that."""
        self.report_at = self.judge_at = 0

    def go_back(self, now: int) -> None:
        """The clock goes back to `now`."""
        self.report_at, self.judge_at = min(self.report_at, now), min(self.judge_at, now)
        self.before.since, self.since.since = min(self.before.since, now), min(self.since.since, now)


def in_words(adjustment: Adjustment) -> str:
    """What was changed: "execution.checkpointing.timeout 10 min → 20 min"."""
    return ", ".join(_changed(one) for one in adjustment.changed)


def _changed(one: ChangedSetting) -> str:
    name = "Flink" if one.key == VERSION else one.key
    return f"{name} {one.before or '(not set)'} → {one.after}"


def effect(
    follow_up: FollowUp, findings: list[Finding], issue: str, opened_at: int, closed_at: int | None, now: int
) -> str:
    """What became of an incident since its last adjustment, in numbers; empty if nothing can be compared.

    `findings` are those of the incident, its cause first; `issue` is the known issue that it matches now.
    """
    last, before, since = follow_up.adjustments[-1], follow_up.before, follow_up.since
    parts = [*_checkpoints(before, since), *_restarts(before, since, opened_at, closed_at or now)]
    series = next((f.series for f in findings if f.series is not None), None)
    if series is not None and not (series.name == "checkpoint duration" and since.durations):
        parts += _numbers(series, last.at)
    parts += [words for f in findings for words in _ahead(f, since.since, now)][:1]
    if follow_up.issue not in ("", issue) and any(one.key == VERSION for one in last.changed):
        parts.append(f"{follow_up.issue} does not affect this version")
    if closed_at is not None:
        parts.append(f"the incident ended {humanize(max(closed_at - last.at, 0))} later")
    return "; ".join(parts)


def _checkpoints(before: Tally, since: Tally) -> list[str]:
    if not since.checkpoints:
        return []
    earlier = f" ({before.completed} of {before.checkpoints} before)" if before.checkpoints else ""
    parts = [f"{since.completed} of {since.checkpoints} checkpoints completed since{earlier}"]
    if min(len(before.durations), len(since.durations)) >= _LEAST_POINTS:
        old, new = median(before.durations), median(since.durations)
        parts.append(f"median checkpoint duration {humanize(old)} → {humanize(new)}")
    return parts


def _restarts(before: Tally, since: Tally, opened_at: int, until: int) -> list[str]:
    if not before.restarts and not since.restarts:
        return []
    number = f"{since.restarts or 'no'} restart{'s' * (since.restarts > 1)}"
    period, earlier = humanize(until - since.since), humanize(since.since - (before.since or opened_at))
    return [f"{number} in {period} ({before.restarts} in the {earlier} before)"]


def _numbers(series: Series, at: int) -> list[str]:
    """The median of a finding's own numbers before and since."""
    old, new = ([value for time, value in series.points if (time >= at) is since] for since in (False, True))
    if min(len(old), len(new)) < _LEAST_POINTS:
        return []
    return [f"median {series.name} {_value(median(old), series.unit)} → {_value(median(new), series.unit)}"]


def _ahead(finding: Finding, since: int, now: int) -> list[str]:
    """What is expected next, if that was found since."""
    ahead = finding.forecast
    if ahead is None or finding.closed_at is not None or finding.at <= since or ahead.at <= now:
        return []
    return [f"{ahead.what} in about {roughly(ahead.at - now)}"]


def _value(value: float, unit: str) -> str:
    if unit == "s":
        return humanize(value * 1000)
    return mib(value) if unit == "bytes" else f"{value:,.4g} {unit}"
