"""`flinkwatch status`: what is open, the worst first, from the topic alone."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from detectors.incident import Silenced, Transition
from streaming.cli.main import cli
from streaming.errors import PublishedError
from tests.unit.sinks.samples import make_transition
from tests.unit.streaming.memory_broker import MemoryBroker

TOPIC = "flinkwatch.incidents"
NOW = round(time.time() * 1000)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryBroker:
    """A folder without any configuration in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLINKWATCH_CONFIG", raising=False)
    made = MemoryBroker()
    monkeypatch.setattr("sinks.kafka.clients.consumer", made.consumer)
    return made


def stored(broker: MemoryBroker, *found: Transition) -> None:
    for one in found:
        broker.write(TOPIC, msgspec.json.encode(one), one.incident.encode())


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["status", *arguments], catch_exceptions=False)


def ids(*arguments: str) -> list[str]:
    return [msgspec.json.decode(line)["incident"] for line in run("--json", *arguments).stdout.splitlines()]


def test_the_most_severe_and_then_the_oldest_comes_first(broker: MemoryBroker) -> None:
    stored(
        broker,
        make_transition(incident="new", opened_at=3),
        make_transition(incident="old", opened_at=2),
        make_transition(incident="worst", opened_at=4, severity="critical"),
    )
    assert ids() == ["worst", "old", "new"]
    text = run().stdout
    assert text.index("critical") < text.index("warning")
    assert text.splitlines()[-1] == "3 open incidents: 1 critical, 2 warning."
    assert "Checkpoint overdue: Checkpoint 4711 is 96 s old" in text
    assert "since 2026-03-01 14:01:24Z" in text


def test_the_newest_transition_of_an_incident_counts(broker: MemoryBroker) -> None:
    stored(
        broker,
        make_transition(incident="a"),
        make_transition(incident="b"),
        make_transition(incident="a", seq=2, transition="resolved", ended_at=NOW - 60_000),
        make_transition(incident="gone"),
    )
    broker.write(TOPIC, None, b"gone")
    broker.write(TOPIC, b"{", b"torn")
    assert ids() == ["b"]


def test_what_resolved_lately_is_shown_on_request_alone(broker: MemoryBroker) -> None:
    ended = {"transition": "resolved", "seq": 2}
    stored(
        broker,
        make_transition(incident="a", ended_at=NOW - 3_600_000, **ended),
        make_transition(incident="b", ended_at=NOW - 60_000, **ended),
        make_transition(incident="part", ended_at=NOW - 60_000, part_of="b", **ended),
    )
    assert ids() == []
    assert run().stdout == "No open incidents.\n"
    assert ids("--since", "10m") == ["b"]
    assert ids("--since", "2h") == ["b", "a"]
    assert "1 incident resolved in the last 10 min." in run("--since", "10m").stdout


def test_incidents_of_other_clusters_are_left_out(broker: MemoryBroker) -> None:
    stored(broker, make_transition(incident="a", cluster="prod-eu"), make_transition(incident="b", cluster="test"))
    assert ids("--cluster", "prod-*") == ["a"]
    assert ids("--cluster", "~test|x") == ["b"]
    wrong = run("--cluster", "~(")
    assert wrong.exit_code == 2
    assert "is not valid" in wrong.stderr


def test_stale_and_silenced_incidents_are_open_and_marked(broker: MemoryBroker) -> None:
    silence = Silenced("s", NOW + 3_600_000, "ann", "drill")
    stored(broker, make_transition(incident="a", transition="stale"), make_transition(incident="b", silence=silence))
    text = run().stdout
    assert "stale: no data since 2026-03-01 14:03:00Z" in text
    assert "silenced until" in text


def test_text_of_an_incident_does_not_command_the_terminal(broker: MemoryBroker) -> None:
    stored(broker, make_transition(summary="a\x1b[2Jb", job_name="\x9b8m\u202e"))
    assert not set(run().stdout) & {"\x1b", "\x9b", "\u202e"}
    assert not set(run("--json").stdout) & {"\x1b", "\x9b", "\u202e"}


def test_a_missing_topic_and_a_missing_broker_are_one_line(broker: MemoryBroker) -> None:
    with pytest.raises(PublishedError, match=r"^Kafka has no topic flinkwatch.incidents: has `flinkwatch run`"):
        run()
    broker.down = True
    with pytest.raises(PublishedError, match=r"^flinkwatch.incidents could not be read: .*no Kafka broker answers"):
        run("--timeout", "1s")


def test_watching_shows_each_change(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(broker, make_transition(incident="a"), make_transition(incident="b", severity="critical"))

    def follow(*_: Any) -> Iterator[list[Any]]:
        yield []
        stored(broker, ended := make_transition(incident="b", seq=2, transition="resolved", ended_at=NOW))
        yield [type("Record", (), {"value": msgspec.json.encode(ended)})]

    monkeypatch.setattr("streaming.stored_incidents.follow", follow)
    text = run("--watch").stdout
    assert text.index("2 open incidents") < text.index("1 open incident:")
    broker.logs.clear()
    stored(broker, make_transition(incident="a"), make_transition(incident="b", severity="critical"))
    assert ids("--watch") == ["b", "a", "b"]
