"""The step over one cluster, but for events that make a detector fail.

What a step says does not depend on where the stream is cut (`engine.py`), so a batch that fails is stepped in halves
until the event at fault stands alone: it alone is lost, and the state is as if it had never come.
"""

from typing import NamedTuple

from detectors.engine.engine import ClusterState, Engine, StepOutput, arrival, decode_state, encode_state
from detectors.events.event import Event

# Where more than a few fail the fault is not with single events, and looking for them costs a step each.
_MAX_DEFECTS = 8


class FailedEvent(NamedTuple):
    """An event that a detector could not take: the error, in one line."""

    event: Event
    error: str


class SteppedCluster(NamedTuple):
    """A cluster after its step: its state, the same as bytes, and what was said."""

    state: ClusterState
    encoded: bytes
    said: StepOutput


def step(
    engine: Engine,
    cluster: str,
    before: bytes | None,
    events: list[Event],
    until: int,
    since: int,
    defects: list[FailedEvent],
) -> SteppedCluster | None:
    """`Engine.step` from the state `before` (None: a new cluster); None when nothing could be taken.

    What is left out is added to `defects`, the cluster's own of this batch. Raises StateVersionError.
    """
    state = decode_state(before) if before is not None else engine.new_state()
    try:
        said = engine.step(cluster, state, events, until, since)
        return SteppedCluster(state, encode_state(state), said)
    except Exception as error:  # noqa: BLE001
        # The outer edge: an error in a detector must not stop the stream.
        if len(events) < 2 or len(defects) >= _MAX_DEFECTS:
            defects += [FailedEvent(event, f"{type(error).__name__}: {error}") for event in events]
            return None
    events = sorted(events, key=arrival)
    half = len(events) // 2
    first = step(engine, cluster, before, events[:half], min(until, events[half - 1].timestamp), since, defects)
    if first is None:
        return step(engine, cluster, before, events[half:], until, since, defects)
    second = step(engine, cluster, first.encoded, events[half:], until, since, defects)
    return first if second is None else second._replace(said=_joined(first.said, second.said))


def _joined(first: StepOutput, second: StepOutput) -> StepOutput:
    again = {reading.key() for reading in second.readings}
    gone = [key for key in first.gone if key not in again]
    return StepOutput(
        first.transitions + second.transitions,
        first.readings + second.readings,
        gone + second.gone,
        first.dropped + second.dropped,
        first.cut + second.cut,
    )
