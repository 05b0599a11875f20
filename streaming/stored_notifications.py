"""What receivers were sent of an incident, as the notification log keeps it."""

from collections.abc import Iterable

import msgspec

from detectors.values.decoding import UndecodableError, carried
from sinks.delivery.notification_log import Entry
from sinks.kafka.reading import partitions_of, read_to_end
from sinks.web.page_context import SentNotification
from streaming.configuration.settings import Kafka
from streaming.stored_incidents import topic_reader

_decode = carried(msgspec.json.Decoder(Entry).decode)


def stored_notifications(kafka: Kafka, within_ms: int, incident: str) -> list[SentNotification]:
    """What the notification log knows of an incident, oldest first. Raises PublishedError.

    Kafka's compaction may have removed all but the newest entry of each receiver.
    """
    topic = kafka.topics.deliveries
    with topic_reader(kafka.access, topic, within_ms) as consumer:
        records = read_to_end(consumer, partitions_of(consumer, topic), within_s=within_ms / 1000)
        return of_incident(((record.key or b"", record.value) for record in records), incident)


def of_incident(records: Iterable[tuple[bytes, bytes | None]], incident: str) -> list[SentNotification]:
    """The entries about an incident in records of the topic, without those that only announce a call."""
    found: dict[tuple[str, int, str], SentNotification] = {}
    for key, value in records:
        receiver, _, name = key.decode("utf-8", "replace").rpartition("/")
        if name != incident or value is None:
            continue
        try:
            entry = _decode(value)
        except UndecodableError:
            # It was written by another version, which must not hide the others.
            continue
        if entry.state != "intent":
            one = SentNotification(receiver, entry.at, entry.seq, entry.state, entry.reason)
            found.setdefault((receiver, entry.seq, entry.state), one)
    return sorted(found.values(), key=lambda one: one.at)
