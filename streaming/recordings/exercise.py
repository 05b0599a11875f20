"""A recording as an exercise: its records belong to clusters of their own, whose names say so in every message."""

from collections.abc import Iterable, Iterator

import msgspec

from detectors.events.envelopes.logs import origin_of
from detectors.events.event import Record
from detectors.events.identity import EXERCISE, Identity
from detectors.events.reader import Reader
from streaming.errors import ConfigError


def exercise(records: Iterable[Record], identity: Identity, metric_topics: frozenset[str]) -> Iterator[Record]:
    """The records with a header that names their cluster `exercise-…`. Raises ConfigError where no header counts."""
    if identity.cluster[0] != "header":
        raise ConfigError(
            "identity.cluster: `header` must come first, or the messages could not be marked as an exercise; "
            "--as-recorded plays without the mark"
        )
    reader = Reader(identity, metric_topics)
    for record in records:
        found = reader.read(record)
        events = found if isinstance(found, list) else []
        cluster = events[0].cluster if events else origin_of(record, identity.header).cluster(identity)
        others = tuple((name, value) for name, value in record.headers if name != identity.header)
        mark = (identity.header, f"{EXERCISE}{cluster}".encode())
        yield msgspec.structs.replace(record, headers=(*others, mark))
