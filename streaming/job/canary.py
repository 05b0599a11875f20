"""The canary's record, as it goes through the job: written with the heartbeat, read here, and nothing to the
detectors."""

import re

from detectors.events.vocabulary import flinkwatch_itself
from detectors.incident import Reading
from sinks.prometheus.canary import READING

_VALUE = re.compile(rb"flinkwatch canary (\d{1,15})")


def value(sent: int) -> bytes:
    """The value of the record that was sent at `sent`, epoch ms."""
    return b"flinkwatch canary %d" % sent


def sent_at(value: bytes | None) -> int:
    """When it was sent, epoch ms; 0 for a record that is no canary."""
    found = _VALUE.fullmatch(value or b"")
    return int(found[1]) if found else 0


def reading(sent: int, clock: int) -> Reading:
    """What the state stage says of it."""
    return Reading(name=READING, labels={"cluster": flinkwatch_itself.CLUSTER}, value=sent / 1000, at=clock)
