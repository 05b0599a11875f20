"""How large a record may be: each topic has its own limit, and the broker a default for all."""

from collections.abc import Sequence
from contextlib import closing

import structlog
from kafka.errors import KafkaError

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.topics import settings_of
from sinks.secret import SecretError

log = structlog.get_logger()

_SETTING = "max.message.bytes"
_BROKERS_DEFAULT = 1_048_588
# What Kafka adds to key and value at most: headers of the batch and of the record.
_OVERHEAD = 512
# An incident with its evidence.
_USUAL = 64 * 1024


def largest_record(access: KafkaAccess, topics: Sequence[str]) -> int:
    """The bytes of key and value that every one of the topics takes; Kafka's default where it is not known."""
    try:
        with closing(clients.admin(access)) as admin:
            found = settings_of(admin, dict.fromkeys(topics, (_SETTING,)))
    except (KafkaError, SecretError) as error:
        log.warning("size limits of topics are not known, taking Kafka's default", error=str(error))
        return _BROKERS_DEFAULT - _OVERHEAD
    limits = {topic: _limit(settings[_SETTING]) for topic, settings in found.items()}
    for topic, limit in limits.items():
        if limit < _USUAL:
            cut = "topic accepts only small records, so incidents are cut to fit"
            log.warning(cut, topic=topic, max_message_bytes=limit)
    return max(0, min(limits.values()) - _OVERHEAD)


def _limit(value: str | None) -> int:
    return int(value) if value is not None and value.isdecimal() else _BROKERS_DEFAULT
