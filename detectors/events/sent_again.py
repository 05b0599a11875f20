"""Lines that a shipper sends again because a request was not answered in time: same text, new offset, later."""

from zlib import crc32

from detectors.events.event import LogEvent

AGAIN_MS = 120_000
"""How much later a line may come again: Kafka's producers give up after two minutes by default."""


def checksum(event: LogEvent) -> int:
    """What a line has in common with itself when it is sent again: its source, its printed time and its text."""
    return crc32(f"{event.source}\0{event.local_time}\0{event.text}".encode(errors="replace"))
