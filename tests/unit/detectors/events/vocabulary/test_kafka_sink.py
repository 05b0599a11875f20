"""Lines of Kafka's committer and producer, in the words of connectors 1.14 to 4.0 and of kafka-clients."""

import pytest

from detectors.events.vocabulary.match import match

REQUEST = "CommitRequestImpl{state=RECEIVED, committable=KafkaCommittable{producerId=5003, epoch=12}}"
FENCED = f"Unable to commit transaction ({REQUEST}) because its producer is already fenced."
OF_3 = (
    f"{FENCED} This means that you either have a different producer with the same 'transactional.id' (this is unlikely "
    "with the 'KafkaSink' as all generated ids are unique and shouldn't be reused) or recovery took longer than "
    "'transaction.timeout.ms' (900000ms). In both cases this most likely signals data loss, please consult the Flink "
    "documentation for more details."
)
OF_1_14 = (
    f"{FENCED} This means that you either have a different producer with the same 'transactional.id' or recovery took "
    "longer than 'transaction.timeout.ms' (900000ms). In both cases this most likely signals data loss"
)
OF_4 = (
    f"{FENCED} If this warning appears as part of the recovery of a checkpoint, it is expected in some cases (e.g., "
    "aborted checkpoints in previous attempt). If it's outside of recovery, this means that you either have another "
    "sink with the same 'transactional.id' or recovery took longer than 'transaction.timeout.ms' (900000ms)."
)
TIMEOUT = {"timeout": "900000"}


@pytest.mark.parametrize(
    ("line", "event_type", "fields"),
    [
        (OF_3, "transaction_fenced", TIMEOUT),
        (OF_1_14, "transaction_fenced", TIMEOUT),
        (OF_3.replace("900000", "null"), "transaction_fenced", {}),
        (OF_4, "transaction_perhaps_fenced", TIMEOUT),
        (f"Unable to commit transaction ({REQUEST}) because it's in an invalid state. Most", "transaction_aborted", {}),
        (
            f"Transaction ({REQUEST}) encountered error and data has been potentially lost.",
            "transaction_failed",
            {},
        ),
        ("\ttransaction.timeout.ms = 900000", "transaction_timeout_set", TIMEOUT),
        ("\ttransactional.id = invoices-0-1", "producer_transactional", {}),
    ],
)
def test_each_line_is_read(line: str, event_type: str, fields: dict[str, str]) -> None:
    assert match(line) == (event_type, fields)


@pytest.mark.parametrize(
    "line",
    [
        "\ttransactional.id = null",
        "\ttransaction.timeout.ms = Infinity",
        f"Unable to commit transaction ({REQUEST}) because of a bug in the Kafka broker (KAFKA-9310).",
        "Encountered retriable exception while committing invoices-0-1.",
    ],
)
def test_other_lines_are_not(line: str) -> None:
    assert match(line) is None
