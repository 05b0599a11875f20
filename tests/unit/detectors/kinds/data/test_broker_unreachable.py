"""When brokers count as unreachable, what is only a start, and what proves that they are back."""

import pytest

from detectors.events.event import Sample
from detectors.incident import Transition
from tests.unit.detectors.story import HOUR, JOB, MINUTE, SECOND, Story
from tests.unit.detectors.streams import START

CLIENT = "Consumer clientId=orders-0, groupId=orders"
TIMEOUT = "org.apache.kafka.common.errors.TimeoutException"
EXPIRED = (TIMEOUT, "Expiring 12 record(s) for out-0:120000 ms has passed since batch creation", "")
AT = 10 * MINUTE


class Clients(Story):
    """A story that begins ten minutes after START; its times are s from there."""

    def lost(
        self,
        until: int,
        start: int = 0,
        *,
        every: int = 1,
        client: str = CLIENT,
        address: str = "kafka-1/10.0.0.9:9092",
        tm: str = "tm-1",
    ) -> "Clients":
        """A client that cannot connect from `start` to `until`."""
        for at in range(start, until, every):
            where = {"address": address} if address else {}
            self.line("broker_not_reached", AT + at * SECOND, source=tm, client=client, node="-1", **where)
        return self

    def beside(self, until: int, *, every: int = 10, start: int = 0) -> "Clients":
        """Checkpoints that complete meanwhile."""
        for n, at in enumerate(range(start, until, every)):
            self.completed(100 + start + n, AT + at * SECOND)
        return self

    def connections(self, *counts: float, at: int) -> "Clients":
        """The connections of clients in one scrape."""
        labels = [{"job_id": JOB, "subtask_index": str(n)} for n in range(len(counts))]
        samples = [Sample("kafka_connections", own, count) for own, count in zip(labels, counts, strict=True)]
        return self.scrape(*samples, at=AT + at * SECOND)

    def reported(self) -> list[Transition]:
        """The transitions of two hours."""
        return self.transitions(2 * HOUR)

    def what(self) -> list[str]:
        """The kinds of transitions."""
        return [t.transition for t in self.reported()]


def clients(*more: str) -> Clients:
    return Clients("broker_unreachable", *more)


# Healthy


def test_a_few_lines_at_the_start_of_a_job_or_a_broker_are_nothing() -> None:
    assert clients().lost(10).what() == []


def test_an_only_broker_that_is_restarted_and_back_within_twenty_seconds_is_nothing() -> None:
    """As recorded with Flink 2.2.1: 18 s, in which 16 clients write a line a second each, and no request fails."""
    restarted = clients()
    for n in range(16):
        restarted.lost(20, client=f"Consumer clientId=orders-{n}, groupId=orders").connections(0, 0, at=10)
    assert restarted.beside(60, start=21).what() == []


def test_a_line_now_and_then_is_nothing() -> None:
    assert clients().lost(7_000, every=90).what() == []


def test_many_clients_with_a_few_lines_each_are_nothing() -> None:
    """A broker restarts, and each of its clients notices until it has asked for the new leaders."""
    restarted = clients()
    for n in range(30):
        restarted.lost(n + 4, n, client=f"Consumer clientId=orders-{n}, groupId=orders")
    assert restarted.what() == []


def test_brokers_that_are_restarted_one_by_one_are_nothing_while_clients_have_others() -> None:
    rolling = clients()
    for n in range(3):
        rolling.lost(n * 200 + 90, n * 200, address=f"kafka-{n}/10.0.0.{n}:9092")
    for at in range(0, 700, 5):
        rolling.connections(2, 2, at=at)
    assert rolling.what() == []


def test_a_timeout_that_is_not_kafkas_and_an_unknown_topic_are_nothing() -> None:
    history = clients().at(AT).task_failed(("java.util.concurrent.TimeoutException", "Heartbeat timed out.", ""))
    unknown = ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException", "This server does not host it.", "")
    history.gap("1 min").task_failed(
        ("java.lang.RuntimeException", "Failed to get metadata for topics [x].", ""), unknown
    )
    assert history.what() == []


def test_the_same_lines_sent_again_are_nothing_new() -> None:
    history = clients().lost(4)
    for n in range(5):
        history.sent_again(f"{20 * n + 20} s", only=lambda line: line.offset < 4)
    assert history.what() == []


# Incidents


def test_a_client_that_cannot_connect_for_a_while_is_critical_and_the_broker_is_named() -> None:
    found = clients().lost(60).reported()
    assert [t.transition for t in found][:1] == ["opened"]
    assert found[0].cause == "broker_unreachable"
    assert found[0].severity == "critical"
    assert "kafka-1:9092" in found[0].summary
    assert found[0].at <= START + AT + 35 * SECOND
    assert found[0].findings[0].since == START + AT


def test_all_clients_and_brokers_are_one_finding() -> None:
    history = clients()
    for n in range(6):
        address = f"kafka-{n % 3}/10.0.0.{n % 3}:9092"
        history.lost(60, client=f"Producer clientId=p-{n}", tm=f"tm-{n % 2}", address=address)
    found = history.reported()
    assert [t.transition for t in found].count("opened") == 1
    assert len(found[-1].findings) == 1
    assert "6 clients cannot connect to kafka-0:9092, kafka-1:9092, kafka-2:9092" in found[-1].summary


def test_connections_that_time_out_name_no_address() -> None:
    found = clients().lost(120, every=15, address="").reported()
    assert "node -1" in found[0].summary


@pytest.mark.parametrize(
    "text",
    [
        "Timed out waiting for a node assignment. Call: describeTopics",
        "Timeout expired while fetching topic metadata",
    ],
)
def test_one_failure_that_states_it_is_enough(text: str) -> None:
    failed = clients().at(AT).task_failed(("java.lang.RuntimeException", "x", ""), (TIMEOUT, text, ""))
    assert failed.what()[:1] == ["opened"]


def test_records_that_expired_began_to_wait_so_long_before() -> None:
    found = (
        clients().at(AT).task_failed(("java.io.IOException", "Failed to send data to Kafka", ""), EXPIRED).reported()
    )
    assert found[0].findings[0].since == START + AT - 2 * MINUTE
    assert "records for out-0 were not accepted for 2 min" in found[0].summary


def test_a_broker_that_is_down_for_long_while_others_answer_is_a_warning() -> None:
    history = clients().lost(400)
    for at in range(0, 400, 15):
        history.connections(1, 2, at=at)
    found = history.reported()
    assert [t.severity for t in found][:1] == ["warning"]
    assert "but to other brokers" in found[0].summary


def test_clients_of_another_kafka_cluster_prove_nothing() -> None:
    history = clients().lost(60)
    for at in range(0, 60, 5):
        history.connections(0, 2, at=at)
    assert [t.severity for t in history.reported()][:1] == ["critical"]


# Its end


def test_checkpoints_of_an_idle_source_complete_during_the_outage_and_do_not_end_it() -> None:
    history = clients().lost(600).beside(600)
    assert history.what().count("opened") == 1
    assert "resolved" not in history.what()


def test_a_checkpoint_ends_it_when_no_line_has_come_for_a_minute() -> None:
    found = clients().lost(300).beside(420).reported()
    assert found[-1].transition == "resolved"
    assert found[-1].at >= START + AT + (299 + 60) * SECOND
    assert "after the last failed connection" in found[-1].reason


def test_a_connection_ends_it_too() -> None:
    history = clients().lost(300).connections(2, 2, at=320)
    assert "resolved" not in history.what()
    assert history.connections(2, 2, at=365).what()[-1] == "resolved"


def test_it_does_not_end_because_nothing_comes() -> None:
    assert "resolved" not in clients().lost(300).what()


def test_it_ends_with_its_last_job() -> None:
    history = clients().runs(at=AT - MINUTE).lost(300).state("CANCELED", at=AT + 301 * SECOND)
    assert history.what()[-1] == "resolved"


def test_a_job_that_failed_of_it_does_not_end_it() -> None:
    history = clients().runs(at=AT - MINUTE).lost(300).state("FAILED", at=AT + 301 * SECOND)
    assert "resolved" not in history.what()


def test_an_outage_that_returns_within_minutes_is_the_same_incident() -> None:
    history = clients().lost(100).beside(200).lost(300, 220).beside(420, start=300)
    assert len({t.incident for t in history.reported()}) == 1


def test_it_explains_the_checkpoints_that_its_sinks_block() -> None:
    history = clients("checkpoint_overdue").lost(900)
    for n in range(6):
        history.completed(n + 1, n * MINUTE, lasting="1 s")
    found = history.triggered(7, AT + 60 * SECOND).expired(7, AT + 660 * SECOND).reported()
    assert len({t.incident for t in found}) == 1
    assert found[-1].cause == "broker_unreachable"
