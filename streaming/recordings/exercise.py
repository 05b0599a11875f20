"""Marks the records of a recording as an exercise, by cluster names that start with `exercise-`."""

from collections.abc import Iterable, Iterator

import msgspec

from detectors.events.envelopes.logs import origin_of
from detectors.events.event import Record
from detectors.events.identity import EXERCISE, Identity
from detectors.events.reader import Reader
from streaming.errors import ConfigError


def exercise(records: Iterable[Record], identity: Identity, metric_topics: frozenset[str]) -> Iterator[Record]:
    """The records, with a header that names their cluster `exercise-…`. Raises ConfigError if headers are not used."""
    if identity.cluster[0] != "header":
        raise ConfigError(
            "identity.cluster: `header` must come first, so that messages can be marked as an exercise. "
            "Use --as-recorded to play without the mark"
        )
    reader = Reader(identity, metric_topics)
    for record in records:
        found = reader.read(record)
        events = found if isinstance(found, list) else []
        cluster = events[0].cluster if events else origin_of(record, identity.header).cluster(identity)
        others = tuple((name, value) for name, value in record.headers if name != identity.header)
        mark = (identity.header, f"{EXERCISE}{cluster}".encode())
        yield msgspec.structs.replace(record, headers=(*others, mark))
