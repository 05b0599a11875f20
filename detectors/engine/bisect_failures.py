"""The step over one cluster without the events that make a detector fail.

The result of a step does not depend on where the stream is cut (`fold.py`). A batch that fails is therefore halved
until the failing event is alone: only that event is lost, and the state is as if it had never arrived.
"""

from typing import NamedTuple

from detectors.engine import fold
from detectors.engine.engine import Engine
from detectors.engine.fold import MayWait, StepOutput, arrival, never_wait
from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.events.event import Event, LogEvent

# If more than a few events fail, single events are not the reason, and each further search would cost a step.
_MAX_DEFECTS = 8


class FailedEvent(NamedTuple):
    """An event that made a detector fail, and the error in one line."""

    event: Event
    error: str


class SteppedCluster(NamedTuple):
    """A cluster after its step: its state, the encoded state, and the output."""

    state: ClusterState
    encoded: bytes
    output: StepOutput


def step(
    engine: Engine,
    cluster: str,
    before: bytes | None,
    events: list[Event],
    until: int,
    since: int,
    defects: list[FailedEvent],
    may_wait: MayWait = never_wait,
) -> SteppedCluster | None:
    """`fold.step` from the state `before` (None: a new cluster); None if every event failed.

    Failing events are added to `defects`, the cluster's list for this batch. In a batch with such an event, no event
    waits. Raises StateVersionError.
    """
    state = decode_state(before) if before is not None else engine.new_state()
    try:
        output = fold.step(engine, cluster, state, events, until, since, may_wait)
        return SteppedCluster(state, encode_state(state), output)
    except Exception as error:  # noqa: BLE001
        # The outermost handler: an error in a detector must not stop the stream.
        if (
            len(events) < 2
            and before is not None
            and (harmless := _without_bad_lines(engine, cluster, before, until, since, defects))
        ):
            return step(engine, cluster, harmless, events, until, since, defects, may_wait)
        if len(events) < 2 or len(defects) >= _MAX_DEFECTS:
            defects += [FailedEvent(event, _text(error)) for event in events]
            return None
    events = sorted(events, key=arrival)
    half = len(events) // 2
    first = step(engine, cluster, before, events[:half], min(until, events[half - 1].timestamp), since, defects)
    if first is None:
        return step(engine, cluster, before, events[half:], until, since, defects)
    second = step(engine, cluster, first.encoded, events[half:], until, since, defects)
    return first if second is None else second._replace(output=_joined(first.output, second.output))


def _without_bad_lines(
    engine: Engine, cluster: str, before: bytes, until: int, since: int, defects: list[FailedEvent]
) -> bytes | None:
    """The state without the lines that came late, have waited (`late_lines.py`) and now make a detector fail; None if
    there are none.
    """
    kept: list[LogEvent] = []

    def error_with(lines: list[LogEvent]) -> str:
        state = _with_waiting(before, lines)
        try:
            fold.step(engine, cluster, state, [], until, since)
        except Exception as error:  # noqa: BLE001
            return _text(error)
        return ""

    def add(lines: list[LogEvent]) -> None:
        error = error_with(kept + lines)
        if not error:
            kept.extend(lines)
        elif len(lines) < 2 or len(defects) >= _MAX_DEFECTS:
            defects.extend(FailedEvent(line, error) for line in lines)
        else:
            add(lines[: len(lines) // 2])
            add(lines[len(lines) // 2 :])

    waiting = decode_state(before).late.waiting
    if not waiting or error_with([]):
        return None
    add(waiting)
    return encode_state(_with_waiting(before, kept)) if len(kept) < len(waiting) else None


def _with_waiting(before: bytes, lines: list[LogEvent]) -> ClusterState:
    state = decode_state(before)
    state.late.waiting = list(lines)
    return state


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _joined(first: StepOutput, second: StepOutput) -> StepOutput:
    again = {reading.key() for reading in second.readings}
    gone = [key for key in first.removed if key not in again]
    return StepOutput(
        first.transitions + second.transitions,
        first.readings + second.readings,
        gone + second.removed,
        first.dropped + second.dropped,
        first.cut + second.cut,
    )
