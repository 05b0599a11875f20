"""The configuration file of a running job: what is published, what is refused, and that no way of writing is missed."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from detectors.settings.live import LiveSettings, publish, settings_hash
from sinks.kafka.access import KafkaAccess
from sinks.settings import Sinks
from streaming.configuration import file_watch
from streaming.configuration.file_watch import ConfigFile, FileWatch, publish_file
from streaming.configuration.restart_only import is_live
from streaming.configuration.settings import load
from streaming.configuration.sinks_file import SinksFile
from streaming.configuration.topic import ConfigTopic
from streaming.errors import ConfigError, PublishedError
from tests.unit.streaming.configuration.memory_topic import MemoryTopic


def text(count: int, more: str = "") -> str:
    return f"detectors:\n  restart_loop:\n    count: {count}\n{more}"


def live(count: int) -> LiveSettings:
    return LiveSettings.model_validate({"detectors": {"restart_loop": {"count": count}}})


def hash_of(count: int) -> str:
    return settings_hash(live(count))


class Watched:
    """A file, its watcher, the topic it publishes to, and how the reloads went."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.topic: Any = MemoryTopic()
        self.reloads: list[bool] = []
        publish_file(self.topic, live(4), "ann")
        self.watch = FileWatch(ConfigFile(path, self.topic, load(path, {}), "ann", environment={}), self.reloads.append)

    def until(self, met: Callable[[], bool], within: float = 120.0) -> None:
        deadline = time.monotonic() + within
        while not met():
            assert time.monotonic() < deadline, (self.reloads, self.topic.hashes())
            time.sleep(0.02)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file as the job found it."""
    path = tmp_path / "conf" / "flinkwatch.yaml"
    path.parent.mkdir()
    path.write_text(text(4))
    return path


@pytest.fixture
def watched(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Watching, and the file as it was at start has been looked at."""
    # The writers below pause for 0.2 s, which on a busy machine may take longer.
    monkeypatch.setattr(file_watch, "_SETTLED_S", 1.5)
    made = Watched(path)
    made.watch.start()
    made.until(lambda: made.reloads == [True])
    yield made
    made.watch.stop()


def in_place(path: Path, content: str) -> None:
    path.write_text(content)


def renamed(path: Path, content: str) -> None:
    """As vim and sed do."""
    other = path.with_name(".flinkwatch.yaml.swp")
    other.write_text(content)
    other.replace(path)


def backed_up(path: Path, content: str) -> None:
    """As emacs and vim with a backup do: for a moment there is no file."""
    path.replace(path.with_name("flinkwatch.yaml~"))
    time.sleep(0.2)
    path.write_text(content)


def in_halves(path: Path, content: str) -> None:
    """The first half alone would be taken for a configuration at its defaults."""
    half = content.index("    count")
    with path.open("w") as file:
        file.write(content[:half])
        file.flush()
        time.sleep(0.2)
        file.write(content[half:])


def directory_replaced(path: Path, content: str) -> None:
    """As a deployment that swaps whole directories does."""
    other = path.parent.with_name("next")
    other.mkdir()
    (other / path.name).write_text(content)
    shutil.move(path.parent, path.parent.with_name("previous"))
    shutil.move(other, path.parent)


@pytest.mark.parametrize("write", [in_place, renamed, backed_up, in_halves, directory_replaced])
def test_a_change_is_published_once_however_it_is_written(watched: Watched, write: Callable[[Path, str], None]) -> None:
    write(watched.path, text(5))
    watched.until(lambda: watched.topic.hashes() == [hash_of(4), hash_of(5)])
    watched.until(lambda: watched.reloads == [True, True])


def test_a_configmap_is_taken_over_when_its_directory_is_swapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubelet's way: the file is a link to ..data/, which is a link that is replaced by a rename.

    The swap itself is noticed: the watcher does not look again by itself.
    """
    monkeypatch.setattr(file_watch, "_LOOK_EVERY_MS", 3_600_000)
    mount = tmp_path / "mount"
    mount.mkdir()

    def swap(number: int, content: str) -> None:
        folder = mount / f"..2026_11_21_{number}"
        folder.mkdir()
        (folder / "flinkwatch.yaml").write_text(content)
        (mount / "..data_tmp").symlink_to(folder.name)
        (mount / "..data_tmp").replace(mount / "..data")

    swap(1, text(4))
    (mount / "flinkwatch.yaml").symlink_to("..data/flinkwatch.yaml")
    watched = Watched(mount / "flinkwatch.yaml")
    watched.watch.start()
    try:
        watched.until(lambda: watched.reloads == [True])
        swap(2, text(5))
        watched.until(lambda: watched.topic.hashes() == [hash_of(4), hash_of(5)])
        shutil.rmtree(mount / "..2026_11_21_1")
        swap(3, text(1))
        watched.until(lambda: watched.reloads == [True, True, False])
        assert watched.topic.hashes() == [hash_of(4), hash_of(5)]
    finally:
        watched.watch.stop()


def test_good_bad_same_good_is_told_as_such_and_publishes_nothing(watched: Watched) -> None:
    for content, reloads in ((text(0), False), (text(4), True)):
        count = len(watched.reloads)
        watched.path.write_text(content)
        watched.until(lambda: len(watched.reloads) > count)  # noqa: B023 - called at once
        assert watched.reloads[-1] is reloads
    assert watched.reloads == [True, False, True]
    assert watched.topic.hashes() == [hash_of(4)]


def test_a_missing_file_is_reported_and_the_same_one_is_valid_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watch, "_MISSING_S", 0.2)
    watched.path.unlink()
    watched.until(lambda: watched.reloads == [True, False])
    watched.path.write_text(text(4))
    watched.until(lambda: watched.reloads == [True, False, True])


def test_a_file_that_is_being_written_when_the_process_ends_is_left_to_the_next_start(path: Path) -> None:
    watched = Watched(path)
    path.write_text(text(5))
    watched.watch.stop()
    watched.watch.start()
    watched.watch.stop()
    assert watched.topic.hashes() == [hash_of(4)]


def test_what_no_broker_takes_is_published_when_one_does(watched: Watched) -> None:
    watched.topic.down = True
    watched.path.write_text(text(5))
    watched.until(lambda: watched.reloads == [True, False])
    watched.topic.down = False
    watched.until(lambda: watched.reloads == [True, False, True])
    assert watched.topic.hashes()[-1] == hash_of(5)


def test_at_start_the_file_is_published_only_when_it_says_something_else_than_it_last_did() -> None:
    """A configuration that was applied meanwhile stays in force over a restart; a newer file wins."""
    topic: Any = MemoryTopic()
    assert publish_file(topic, live(4), "ann").hash == hash_of(4)
    topic.publish(publish(live(7), 5, "bob", "apply"))
    assert publish_file(topic, live(4), "ann").by == "bob"
    assert topic.hashes() == [hash_of(4), hash_of(7)]
    assert publish_file(topic, live(5), "ann").hash == hash_of(5)
    assert topic.hashes() == [hash_of(4), hash_of(7), hash_of(5)]


def test_settings_that_need_a_restart_are_named_and_the_others_take_effect(path: Path) -> None:
    topic: Any = MemoryTopic()
    file = ConfigFile(path, topic, load(path, {}), "ann", environment={})
    more = "streaming:\n  trigger: 2s\n  spark: {spark.ui.enabled: 'true'}\nkafka:\n  logs: [other]\n"
    more += "sinks:\n  webhook:\n    url: https://hooks.example/hunter2\n"
    with capture_logs() as logs:
        assert file.reload(text(5, more).encode()).hash == hash_of(5)
        file.reload(text(6).encode())
    assert [(one["log_level"], one["settings"]) for one in logs] == [
        ("warning", ["kafka.logs", "sinks.webhook.url", "streaming.spark.spark.ui.enabled", "streaming.trigger"])
    ], "by key alone: a value may be secret"
    assert topic.hashes() == [hash_of(5), hash_of(6)]


class Deliverer:
    """Takes routes as delivery does: they are checked, and put in force later."""

    def __init__(self, running: Sinks) -> None:
        self.running = running
        self.taken: list[tuple[str, ...]] = []

    def prepare(self, changed: Sinks) -> Callable[[], None]:
        routes = self.running.reloaded(changed).routing.routes
        return lambda: self.taken.append(tuple(to for route in routes for to in route.to))


SLACK = "sinks:\n  slack: {enabled: true, channel: C1}\n"


def routes(to: str) -> str:
    return f"{SLACK}  routing: {{routes: [{{to: [{to}]}}], default: [slack]}}\n"


def test_a_file_whose_routes_are_refused_is_refused_as_a_whole(path: Path) -> None:
    path.write_text(text(4, SLACK))
    topic: Any = MemoryTopic()
    running = load(path, {})
    deliverer = Deliverer(running.sinks)
    file = ConfigFile(path, topic, running, "ann", deliverer.prepare, {})
    webhook = "  webhook: {enabled: true, url: 'https://hooks.example/x'}\n"
    with pytest.raises(ConfigError, match=r"flinkwatch\.yaml: sinks\.routing names 'webhook'.*after a restart"):
        file.reload(text(5, routes("webhook") + webhook).encode())
    assert (topic.hashes(), deliverer.taken) == ([], [])
    file.reload(text(5, routes("slack:C2")).encode())
    assert (topic.hashes(), deliverer.taken) == ([hash_of(5)], [("slack:C2",)])


def test_routes_stay_in_force_while_kafka_takes_no_configuration(path: Path) -> None:
    path.write_text(text(4, SLACK))
    topic: Any = MemoryTopic()
    running = load(path, {})
    deliverer = Deliverer(running.sinks)
    topic.down = True
    with pytest.raises(PublishedError):
        ConfigFile(path, topic, running, "ann", deliverer.prepare, {}).reload(text(5, routes("slack:C2")).encode())
    assert deliverer.taken == []


def test_a_deliverer_takes_its_routes_and_names_its_own_settings_that_need_a_restart(path: Path) -> None:
    path.write_text(text(4, SLACK))
    running = load(path, {})
    deliverer = Deliverer(running.sinks)
    file = SinksFile(path, running, deliverer.prepare, {})
    more = "  max_silence: 1h\nstreaming: {trigger: 2s}\n"
    with capture_logs() as logs:
        file.reload(text(5, routes("slack:C2") + more).encode())
    assert deliverer.taken == [("slack:C2",)]
    assert [one["settings"] for one in logs] == [["sinks.max_silence"]], "neither the job's settings nor routes"


@pytest.mark.parametrize(
    ("setting", "live"),
    [
        ("sinks.routing.routes", True),
        ("sinks.slack.actions.mention", True),
        ("sinks.slack.actions.mentions", False),
        ("sinks.slack.actions.allowed", False),
        ("detectors.restart_loop.count", True),
        ("streaming.trigger", False),
    ],
)
def test_routes_and_mentions_are_the_live_settings_of_sinks(setting: str, live: bool) -> None:
    assert is_live(setting) == live


def test_the_environment_is_not_a_change_of_the_file(path: Path) -> None:
    """It wins over the file at start and at each reload alike."""
    environment = {"FLINKWATCH__STREAMING__BUCKETS": "3", "FLINKWATCH__DETECTORS__RESTART_LOOP__WINDOW": "7m"}
    topic: Any = MemoryTopic()
    file = ConfigFile(path, topic, load(path, environment), "ann", environment=environment)
    with capture_logs() as logs:
        file.reload(text(5).encode())
    assert logs == []
    assert topic.history().in_force.detectors["restart_loop"]["window"] == "7m"


def test_a_secret_that_cannot_be_read_for_a_moment_is_an_error_that_the_watch_survives() -> None:
    access = KafkaAccess(
        bootstrap_servers="localhost:9092",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="flinkwatch",
        sasl_password_file=Path("/nowhere"),
    )
    with pytest.raises(PublishedError, match="sasl_password_file: cannot read /nowhere"):
        ConfigTopic(access, "flinkwatch.config").history()
