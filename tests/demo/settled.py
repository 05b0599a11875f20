"""Whether everything that was played has been read, decided and delivered."""

import re
import time
import urllib.error
import urllib.request
from contextlib import closing

from kafka.errors import KafkaError

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import partitions_of
from sinks.kafka.topics import TopicNames

_CANARY = re.compile(r"^flinkwatch_canary_timestamp_seconds (\S+)$", re.MULTILINE)


class Settled:
    """Asked again and again after the last record, while `Playback.go_on` sends canaries.

    For each batch the job reads the topics up to one moment. A canary that was sent after the last record and has come
    back proves that a batch has read every record; a second one, sent after the first had come back, proves that this
    batch has written what it decided. From then on delivery is complete once its consumer group has committed the end
    of the incidents topic: it commits up to the first incident that still waits.
    """

    def __init__(self, access: KafkaAccess, page_url: str, topics: TopicNames, receiver: str) -> None:
        self._access = access
        self._page_url = page_url
        self._topics = topics
        self._group = f"{topics.prefix}.delivery.{receiver}"
        self._after = time.time()
        self._canaries = 0

    def now(self) -> bool:
        """Whether it is so by now; asks the job's page and Kafka."""
        while self._canaries < 2:
            if self._last_canary() <= self._after:
                return False
            self._canaries += 1
            self._after = time.time()
        return self._delivered()

    def _last_canary(self) -> float:
        """When the last canary that arrived was sent, epoch s; 0 when none did or the page does not answer."""
        try:
            with urllib.request.urlopen(f"{self._page_url}/metrics", timeout=10) as page:  # nosec B310 - its own page
                found = _CANARY.search(page.read().decode())
        except (urllib.error.URLError, OSError):
            return 0.0
        return float(found[1]) if found else 0.0

    def _delivered(self) -> bool:
        try:
            # As a member of the group it would take partitions away: it only asks.
            with closing(clients.consumer(self._access, group=self._group)) as consumer:
                ends = consumer.end_offsets(partitions_of(consumer, self._topics.incidents))
                return all(end == 0 or (consumer.committed(p) or 0) >= end for p, end in ends.items())
        except KafkaError:
            return False
