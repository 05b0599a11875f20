"""How clients are made: by one module, with the options that matter, and nothing is left of one that failed."""

import ast
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from kafka import codec
from kafka.errors import KafkaTimeoutError

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess

PROJECT = Path(__file__).parents[4]
PRODUCT = [
    file for room in ("detectors", "sinks", "streaming", "dashboards") for file in (PROJECT / room).rglob("*.py")
]
CLIENTS = {"KafkaConsumer", "KafkaProducer", "KafkaAdminClient"}
NOWHERE = KafkaAccess(bootstrap_servers="127.0.0.1:1")
# What the product may use of kafka-python: its public modules, and of the package itself only what is no client.
ALLOWED = {"kafka": {"TopicPartition", "ConsumerRebalanceListener"}, "kafka.errors": None, "kafka.structs": None}
ALLOWED_IN_KAFKA_ROOM = {"kafka": {*CLIENTS, "TopicPartition"}, "kafka.errors": None, "kafka.admin": None}


def imports_of_kafka(file: Path) -> list[tuple[str, str]]:
    """Module and name of everything that a file imports of kafka-python."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "kafka":
            found += [(str(node.module), alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "*") for alias in node.names if alias.name.partition(".")[0] == "kafka"]
    return found


def test_only_the_kafka_room_makes_clients_and_nothing_uses_what_is_inside_kafka_python() -> None:
    room = PROJECT / "sinks" / "kafka"
    wrong = []
    for file in PRODUCT:
        allowed: dict[str, set[str] | None] = ALLOWED_IN_KAFKA_ROOM if file.is_relative_to(room) else ALLOWED  # type: ignore[assignment]
        for module, name in imports_of_kafka(file):
            names = allowed.get(module, set())
            if names is not None and name not in names:
                wrong.append(f"{file.relative_to(PROJECT)}: {module}.{name}")
    assert not wrong


def test_each_client_is_made_in_one_place() -> None:
    made = [
        (name, str(file.relative_to(PROJECT)))
        for file in PRODUCT
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and (name := getattr(node.func, "id", getattr(node.func, "attr", ""))) in CLIENTS
    ]
    assert sorted(made) == [(name, "sinks/kafka/clients.py") for name in sorted(CLIENTS)]


def test_every_codec_of_kafka_can_be_read_with_the_declared_dependencies() -> None:
    """kafka-python fails at the first compressed record without them, long after the start."""
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {"lz4", "python-snappy", "zstandard"} <= set(declared)
    assert codec.has_gzip()
    assert codec.has_lz4()
    assert codec.has_snappy()
    assert codec.has_zstd()


@pytest.mark.parametrize("make", [clients.consumer, clients.producer, clients.admin])
def test_a_client_that_finds_no_broker_leaves_no_thread_behind(make: Any) -> None:
    before = set(threading.enumerate())
    with pytest.raises(KafkaTimeoutError):
        make(NOWHERE, connect_ms=50)
    assert set(threading.enumerate()) <= before


def test_a_write_that_was_given_up_does_not_land_later(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(clients, "KafkaProducer", given.update)
    clients.producer(NOWHERE, within_ms=5_000)
    assert {given[name] for name in ("max_block_ms", "delivery_timeout_ms", "request_timeout_ms")} == {5_000}
    assert (given["acks"], given["allow_auto_create_topics"]) == ("all", False)


def test_a_consumer_neither_creates_topics_nor_commits_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(clients, "KafkaConsumer", given.update)
    clients.consumer(NOWHERE, group="g")
    assert (given["group_id"], given["enable_auto_commit"], given["allow_auto_create_topics"]) == ("g", False, False)
