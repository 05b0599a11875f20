"""The incidents and the feedback of a period, as the topics have them."""

from typing import Any

import msgspec
import pytest

from detectors.incidents.known_issues import IssueCatalogue
from sinks.contract.feedback import Feedback
from sinks.contract.overview import Overview
from sinks.delivery.overviews.reading import read_in_background
from tests.unit.sinks.memory_kafka import TOPICS, MemoryKafka
from tests.unit.sinks.samples import OPENED_AT, make_transition


def read(kafka: Any) -> Overview:
    return read_in_background(kafka, TOPICS, IssueCatalogue())(OPENED_AT, OPENED_AT + 60_000).result(30)


def write(kafka: MemoryKafka, incident: str, **fields: Any) -> None:
    kafka.write(TOPICS.incidents, incident, msgspec.json.encode(make_transition(incident=incident, **fields)))


def test_an_overview_is_read_from_all_partitions_with_the_feedback() -> None:
    kafka = MemoryKafka()
    write(kafka, "a")
    kafka.write(TOPICS.incidents, "b", msgspec.json.encode(make_transition(incident="b")), partition=1)
    answer = Feedback(incident="a", answer="acknowledged", person="ann", user="U1", at=OPENED_AT + 1)
    kafka.write(TOPICS.feedback, "acknowledged/a", answer.encoded())
    found = read(kafka)
    assert ([row.incident for row in found.open], found.feedback.acknowledged) == (["a", "b"], 1)


def test_a_deleted_incident_and_records_of_another_version_are_left_out() -> None:
    kafka = MemoryKafka()
    for name in ("a", "deleted"):
        write(kafka, name)
    kafka.write(TOPICS.incidents, "deleted", None)
    kafka.write(TOPICS.incidents, "other", b"{}")
    kafka.write(TOPICS.feedback, "other", b"no json")
    kafka.write(TOPICS.feedback, "gone", None)
    assert [row.incident for row in read(kafka).open] == ["a"]


def test_what_goes_wrong_is_raised_where_the_overview_is_wanted() -> None:
    class Broken(MemoryKafka):
        def reader(self) -> Any:
            raise OSError("no broker")

    with pytest.raises(OSError, match="no broker"):
        read(Broken())
