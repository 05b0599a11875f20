"""Commands that write say where to, and mute no more than what was asked for."""

import re
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from detectors.settings.live import LiveSettings, publish
from sinks.delivery.silencing import SilenceBook, until_resolved_id
from streaming.cli import options as options_module
from streaming.cli.main import cli
from streaming.errors import ConfigError, PublishedError
from tests.unit.sinks.samples import make_transition
from tests.unit.streaming.configuration.memory_topic import MemoryTopic

COMMENT = ("--comment", "x")


class Kafka:
    """The topics of each broker address, in memory."""

    def __init__(self) -> None:
        self.topics: dict[str, MemoryTopic] = {}
        self.newest: dict[str, dict[bytes, bytes]] = {}

    def config(self, access: Any, _name: str, _timeout: int) -> MemoryTopic:
        servers = access.bootstrap_servers
        if servers not in self.topics:
            self.topics[servers] = MemoryTopic(publish(LiveSettings(), 1, "ann", "file"))
        return self.topics[servers]

    def written(self) -> list[str]:
        return [servers for servers, topic in self.topics.items() if len(topic.records) > 1]


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kafka:
    """A folder without any configuration in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLINKWATCH_CONFIG", raising=False)
    made = Kafka()
    monkeypatch.setattr("streaming.configuration.topic.ConfigTopic", made.config)
    monkeypatch.setattr(
        "streaming.cli.incidents.known_incidents.newest", lambda _access, name, _timeout: made.newest.get(name, {})
    )
    return made


def run(*arguments: object, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False, env=env)


def config_file(name: str, servers: str, more: str = "") -> Path:
    file = Path(name)
    file.write_text(f"kafka: {{access: {{bootstrap_servers: '{servers}'}}}}\n{more}")
    return file


def test_a_silence_without_a_pattern_asks_for_all(kafka: Kafka) -> None:
    with pytest.raises(ConfigError, match=r"this would mute every incident of every cluster.*--all"):
        run("silence", "add", "--for", "10m", *COMMENT)
    with pytest.raises(ConfigError, match="--all mutes everything"):
        run("silence", "add", "--all", "--job", "a", "--for", "10m", *COMMENT)
    assert kafka.written() == []
    assert "silences everything" in run("silence", "add", "--all", "--for", "10m", *COMMENT).stdout
    assert kafka.written() == ["localhost:9092"]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("restart_lop", "matches no kind of incident; did you mean restart_loop?"),
        ("nosuch-*", "matches no kind of incident; allowed: backpressure, broker_unreachable, checkpoint_"),
        ("~x+", "matches no kind"),
    ],
)
def test_a_kind_that_does_not_exist_is_an_error(kafka: Kafka, kind: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        run("silence", "add", "--kind", kind, "--for", "10m", *COMMENT)
    assert sentence in str(error.value)
    assert kafka.written() == []
    run("silence", "add", "--kind", "checkpoint_*", "--for", "10m", *COMMENT)


def test_a_silence_for_years_is_refused_unless_the_configuration_allows_it(kafka: Kafka) -> None:
    with pytest.raises(ConfigError, match=r"^the silence would last longer than 30d \(sinks.max_silence\)"):
        run("silence", "add", "--job", "a", "--for", "31d", *COMMENT)
    with pytest.raises(ConfigError, match="longer than 30d"):
        run("silence", "add", "--job", "a", "--until", "2096-01-01T00:00:00Z", *COMMENT)
    file = config_file("long.yaml", "k:9092", "sinks: {max_silence: 90d}\n")
    assert run("silence", "add", "--config", file, "--job", "a", "--for", "31d", *COMMENT).exit_code == 0


def test_a_silence_says_what_it_matches_now(kafka: Kafka) -> None:
    def sentence(job: str) -> str:
        return run("silence", "add", "--job", job, "--for", "118m", *COMMENT).stdout.splitlines()[-1]

    one = make_transition(job_name="orders")
    over = make_transition(incident="over", job_name="billing", transition="resolved")
    kafka.newest["flinkwatch.incidents"] = {t.incident.encode(): msgspec.json.encode(t) for t in (one, over)} | {
        b"torn": b"{"
    }
    kafka.newest["flinkwatch.readings"] = {
        b"k": msgspec.json.encode(
            {"name": "busy", "labels": {"cluster": "c", "job": "calm"}, "value": 1.0, "at": 1, "type": "gauge"}
        )
    }
    assert sentence("ord*").startswith(f"It matches 1 open incident: {one.incident} ")
    assert sentence("billing") == "It matches no open incident, but some resolved ones."
    assert sentence("calm") == "It matches no incident, but a known cluster or job."
    assert sentence("nosuch").startswith("Warning: it matches no incident and no known cluster")
    listed = " ".join(run("silence", "list").stdout.split())
    assert re.search(r"Z, 1 h 5\d min left", listed)
    assert not re.search(r"\d\d-\d\dT", listed), "one format of times"


def test_a_silence_is_made_also_where_the_incidents_cannot_be_read(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PublishedError("no broker answers")

    monkeypatch.setattr("streaming.cli.incidents.known_incidents.newest", fail)
    done = run("silence", "add", "--job", "a", "--for", "1h", *COMMENT)
    assert done.exit_code == 0
    assert "The incidents that it matches could not be read: no broker answers" in done.stdout
    assert kafka.written() == ["localhost:9092"]


def test_apply_publishes_to_the_brokers_of_its_file(kafka: Kafka) -> None:
    """A second installation on the host has a configuration of its own."""
    Path("conf").mkdir()
    config_file("conf/flinkwatch.yaml", "first:9092")
    second = config_file("second.yaml", "second:9092", "detectors: {restart_loop: {count: 9}}\n")
    kafka.topics["second:9092"] = MemoryTopic(publish(LiveSettings(), 1, "ann", "file"))
    done = run("config", "apply", second)
    assert kafka.written() == ["second:9092"]
    assert "Using second.yaml: Kafka at second:9092, topics flinkwatch.*" in done.stderr
    part = Path("part.yaml")
    part.write_text("detectors: {restart_loop: {count: 8}}\n")
    run("config", "apply", part)
    assert kafka.written() == ["second:9092", "first:9092"], "a file without a section kafka names no brokers"
    third = config_file("third.yaml", "third:9092")
    run("config", "apply", part, "--config", third)
    assert "third:9092" in kafka.written()


def test_commands_that_write_say_where_to(kafka: Kafka) -> None:
    file = config_file("my.yaml", "mine:9092")
    where = "Using my.yaml: Kafka at mine:9092"
    added = run("silence", "add", "--job", "a", "--for", "1h", *COMMENT, "--json", env={"FLINKWATCH_CONFIG": str(file)})
    assert where in added.stderr
    assert where in run("silence", "expire", msgspec.json.decode(added.stdout)["id"], "--config", file).stderr


@pytest.mark.parametrize("command", [("silence", "add"), ("config", "apply"), ("replay",), ("run",), ("tune",)])
def test_the_variable_of_the_configuration_file_is_in_the_help(command: tuple[str, ...]) -> None:
    assert "FLINKWATCH_CONFIG" in run(*command, "--help").stdout


def test_a_dead_broker_is_named_after_a_moment_and_the_wait_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port takes connections and never answers, as a broker that hangs."""
    monkeypatch.setattr(options_module, "_QUIET_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        servers = f"127.0.0.1:{deaf.getsockname()[1]}"
        file = tmp_path / "c.yaml"
        file.write_text(f"kafka: {{access: {{bootstrap_servers: '{servers}'}}}}\n")
        began = time.monotonic()
        done = CliRunner().invoke(cli, ["config", "history", "--config", str(file), "--timeout", "1s"])
        took = time.monotonic() - began
    assert isinstance(done.exception, PublishedError)
    assert f"no Kafka broker answers at {servers}" in str(done.exception)
    assert f"waiting for Kafka at {servers}, at most 1 s (--timeout)" in done.stderr
    assert took < 25, "the default waits for 30 s"


class TestOfAnIncident:
    @pytest.fixture(autouse=True)
    def incidents(self, kafka: Kafka) -> None:
        found = (
            make_transition(incident="open", job_name="orders", cluster="prod-eu"),
            make_transition(incident="ended", transition="resolved"),
            make_transition(incident="part", transition="resolved", part_of="whole"),
            make_transition(incident="long", job_name="x" * 2_000),
        )
        kafka.newest["flinkwatch.incidents"] = {t.incident.encode(): msgspec.json.encode(t) for t in found}

    def add(self, incident: str, *more: str) -> str:
        return run("silence", "add", "--incident", incident, *more, *COMMENT).stdout

    def made(self, kafka: Kafka) -> Any:
        (silence,) = kafka.topics["localhost:9092"].history().silences.values()
        return silence.read()

    def test_it_lasts_until_the_incident_resolves_and_matches_nothing_else(self, kafka: Kafka) -> None:
        printed = self.add("open")
        made = self.made(kafka)
        assert made.id == until_resolved_id("open")
        assert f"{made.id} silences " in printed
        assert "until incident open resolves, at the latest until 20" in printed
        assert "It matches 1 open incident: open " in printed
        assert made.fits("prod-eu", "orders", "checkpoint_overdue")
        assert not made.fits("prod-eu", "orders-2", "checkpoint_overdue")
        assert not made.fits("prod-eu", "orders", "restart_loop")

    def test_a_deliverer_ends_it_as_one_from_slack(self, kafka: Kafka) -> None:
        self.add("open")
        written: list[bytes] = []
        book = SilenceBook(lambda _, value: written.append(value), 1, lambda: round(time.time() * 1000))
        book.add(self.made(kafka))
        book.end_resolved(["open"])
        assert written == []
        book.end_resolved([])
        assert len(written) == 1

    def test_twice_is_one_silence(self, kafka: Kafka) -> None:
        self.add("open")
        self.add("open")
        self.made(kafka)

    def test_with_a_time_it_does_not_end_with_the_incident(self, kafka: Kafka) -> None:
        assert "until incident" not in self.add("open", "--for", "2h")
        assert not self.made(kafka).id.startswith("until-resolved")

    @pytest.mark.parametrize(
        ("incident", "sentence"),
        [
            ("nosuch", r"^flinkwatch\.incidents has no incident nosuch; `flinkwatch status` lists the open ones"),
            ("ended", r"^incident ended was resolved at "),
            ("part", r"and is part of whole, which may be open"),
            ("long", r"^--job: "),
        ],
    )
    def test_what_cannot_be_silenced_is_an_error_with_its_reason(
        self, kafka: Kafka, incident: str, sentence: str
    ) -> None:
        with pytest.raises((PublishedError, ConfigError), match=sentence):
            self.add(incident)
        assert kafka.written() == []

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            (("--job", "a", "--kind", "restart_loop"), "Remove --job, --kind"),
            (("--all",), "Remove --all"),
            (("--begins", "2096-01-01T00:00:00Z"), "^--begins: a silence until the incident resolves begins now"),
            (("--for", "31d"), "longer than 30d"),
            (("--for", "1h", "--until", "2096-01-01T00:00:00Z"), "give either --for or --until"),
        ],
    )
    def test_options_that_contradict_the_incident_are_an_error(
        self, kafka: Kafka, options: tuple[str, ...], sentence: str
    ) -> None:
        with pytest.raises(ConfigError, match=sentence):
            self.add("open", *options)
        assert kafka.written() == []
