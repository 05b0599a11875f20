"""Transactions of Kafka sinks: their timeout, and whether a failed commit lost records.

A sink commits its transactions when a checkpoint has completed, and again when it recovers from that checkpoint. Kafka
aborts a transaction that has been open for longer than its timeout.
"""

import msgspec

from detectors.flink.checkpointing.checkpoints import JobCheckpoints
from detectors.flink.facts import ProducerTransactional, TransactionNotCommitted, TransactionTimeoutSet
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO

_MAX_SOURCES = 200
_RECOVERY_MS = 300_000
_LONGEST_MS = 86_400_000


class ProducerTimeouts(msgspec.Struct, array_like=True):
    """The timeout in ms of the last producer with transactions, 0 if unknown; and of the last producer by source.

    Producers without transactions print a timeout, too. Whether a producer has any is in a later line.
    """

    timeout: int = 0
    printed: dict[str, int] = {}

    def learn(self, source: str, fact: TransactionTimeoutSet | ProducerTransactional | TransactionNotCommitted) -> None:
        """Learn the timeout from a line of this source, if it has one."""
        match fact:
            case TransactionTimeoutSet():
                put_bounded(self.printed, source, fact.timeout, _MAX_SOURCES)
            case ProducerTransactional():
                self._set(self.printed.get(source, 0))
            case TransactionNotCommitted():
                self._set(fact.timeout)

    def _set(self, timeout: int) -> None:
        self.timeout = min(timeout, _LONGEST_MS) or self.timeout


def loses_records(fact: TransactionNotCommitted, checkpoints: JobCheckpoints | None, time: int) -> bool:
    """Whether records are lost with the transaction, because it is not committed again.

    In the recovery of a checkpoint, a fenced transaction may have been committed before.
    """
    if fact.how != "perhaps_fenced":
        return True
    return checkpoints is not None and LONG_AGO < checkpoints.reset <= time - _RECOVERY_MS
