"""Log lines of Kafka sinks in TaskManagers: transactions that cannot be committed, and settings of producers.

The connector is released apart from Flink: 1.14 to 1.17 hold it, and later versions of Flink use 3.x and 4.x.
"""

from detectors.events.vocabulary.pattern import LogPattern, N

_NOT_COMMITTED = r"Unable to commit transaction \(.+\) because "
_TIMEOUT = rf"(?:.*'transaction\.timeout\.ms' \((?P<timeout>{N})ms\))?"

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "transaction_fenced",
        rf"{_NOT_COMMITTED}its producer is already fenced\. This means {_TIMEOUT}",
        anchor="its producer is already fenced. This means",
        since="1.14",
        throws=True,
    ),
    # From connector 4.0 on, with transactional ids that are used again. In a recovery it may be harmless.
    LogPattern(
        "transaction_perhaps_fenced",
        rf"{_NOT_COMMITTED}its producer is already fenced\. If this warning appears {_TIMEOUT}",
        anchor="its producer is already fenced. If this warning appears",
        since="1.20",
        throws=True,
    ),
    LogPattern(
        "transaction_aborted",
        rf"{_NOT_COMMITTED}it's in an invalid state\.",
        anchor="because it's in an invalid state.",
        since="1.14",
        throws=True,
    ),
    LogPattern(
        "transaction_failed",
        r"Transaction \(.+\) encountered error and data has been potentially lost\.",
        anchor="encountered error and data has been potentially lost.",
        since="1.14",
        throws=True,
    ),
    # Settings that a producer prints when it is made, in the order of their names
    LogPattern(
        "transaction_timeout_set",
        rf"\btransaction\.timeout\.ms = (?P<timeout>{N})\s*$",
        anchor="transaction.timeout.ms = ",
        anywhere=True,
    ),
    LogPattern(
        "producer_transactional",
        r"\btransactional\.id = (?!null\s*$)\S",
        anchor="transactional.id = ",
        anywhere=True,
    ),
)
