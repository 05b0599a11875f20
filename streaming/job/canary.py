"""The canary record: written with the heartbeat and read by the job, but never passed to detectors."""

import re

from detectors.events.vocabulary import flinkwatch_itself
from detectors.incident import Reading
from sinks.prometheus.reading_metrics import CANARY

_VALUE = re.compile(rb"flinkwatch canary (\d{1,15})")


def value(sent: int) -> bytes:
    """The value of a canary record that is sent at `sent` (epoch ms)."""
    return b"flinkwatch canary %d" % sent


def sent_at(value: bytes | None) -> int:
    """The time (epoch ms) at which a canary was sent; 0 if the record is not a canary."""
    found = _VALUE.fullmatch(value or b"")
    return int(found[1]) if found else 0


def reading(sent: int, clock: int) -> Reading:
    """The reading that the state stage emits for a canary."""
    return Reading(name=CANARY, labels={"cluster": flinkwatch_itself.CLUSTER}, value=sent / 1000, at=clock)
