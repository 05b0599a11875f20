"""`flinkwatch config` and `flinkwatch silence`: what they print, publish and refuse. The topic is in memory."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from detectors.incident import Reading
from detectors.settings.live import LiveSettings, publish, settings_hash
from streaming.cli.config import config
from streaming.cli.silence import silence
from streaming.errors import ConfigError, PublishedError
from tests.recorded import recording
from tests.unit.streaming.configuration.memory_topic import MemoryTopic

USUAL = settings_hash(LiveSettings())
CALM = "detectors: {checkpoint_duration_creep: {enabled: false}}\n"


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> MemoryTopic:
    """What a job has published at its start."""
    made = MemoryTopic(publish(LiveSettings(), 1_795_228_000_000, "ann@job", "file"))
    monkeypatch.setattr("streaming.configuration.topic.ConfigTopic", lambda access, name, timeout: made)
    monkeypatch.setattr("streaming.cli.incidents.known_incidents.newest", lambda access, name, timeout: {})
    return made


def run(group: Any, *arguments: str | Path) -> Result:
    return CliRunner().invoke(group, list(map(str, arguments)), catch_exceptions=False)


def applied(tmp_path: Path, text: str, *options: str | Path) -> str:
    file = tmp_path / "new.yaml"
    file.write_text(text)
    return run(config, "apply", file, *options).output


def test_apply_shows_the_difference_and_publishes(topic: MemoryTopic, tmp_path: Path) -> None:
    output = applied(tmp_path, "detectors: {restart_loop: {count: 9}}\n")
    assert [line.split() for line in output.splitlines() if "restart_loop" in line] == [
        ["detectors.restart_loop.count", "3", "9"]
    ]
    in_force = topic.history().in_force
    assert in_force is not None
    assert in_force.origin == "apply"
    assert in_force.detectors["restart_loop"]["count"] == 9
    assert "is in force already" in applied(tmp_path, "detectors: {restart_loop: {count: 9}}\n")
    assert len(topic.hashes()) == 2


def test_a_dry_run_publishes_nothing(topic: MemoryTopic, tmp_path: Path) -> None:
    assert "would be published" in applied(tmp_path, "detectors: {restart_loop: {count: 9}}\n", "--dry-run")
    assert topic.hashes() == [USUAL]


def test_apply_names_the_sections_that_a_running_job_does_not_reload(topic: MemoryTopic, tmp_path: Path) -> None:
    output = applied(tmp_path, "streaming: {trigger: 2s}\ndetectors: {restart_loop: {count: 9}}\n")
    assert "Not published, because a running job does not reload them: streaming." in output
    assert len(topic.hashes()) == 2
    assert "Not published" not in applied(tmp_path, CALM)


def test_apply_refuses_what_loses_more_incidents_than_allowed(topic: MemoryTopic, tmp_path: Path) -> None:
    creep = recording("checkpoint-creep")
    with pytest.raises(ConfigError, match=r"lose 1 \(at most 0, --max-lost\)"):
        applied(tmp_path, CALM, "--check-against", creep)
    assert topic.hashes() == [USUAL]
    assert "1 lost" in applied(tmp_path, CALM, "--check-against", creep, "--max-lost", "1")
    assert len(topic.hashes()) == 2


def test_rollback_goes_to_the_one_before_or_to_one_that_is_named(topic: MemoryTopic, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"Nothing to roll back to: {USUAL} is the only configuration"):
        run(config, "rollback")
    applied(tmp_path, "detectors: {restart_loop: {count: 9}}\n")
    applied(tmp_path, CALM)
    nine = topic.hashes()[1]
    run(config, "rollback")
    assert topic.hashes()[-1] == nine
    run(config, "rollback", USUAL)
    assert topic.hashes()[-1] == USUAL
    with pytest.raises(ConfigError, match="No configuration cafe in the history"):
        run(config, "rollback", "cafe")
    lines = [json.loads(line) for line in run(config, "history", "--json").stdout.splitlines()]
    assert [line["origin"] for line in lines] == ["file", "apply", "apply", "rollback", "rollback"]
    assert "detectors.restart_loop.count: 3 → 9" in " ".join(run(config, "history").output.split())


def test_show_says_where_each_value_of_a_job_comes_from(topic: MemoryTopic, tmp_path: Path) -> None:
    """First match wins by setting; what is for another job or cluster is not there."""
    applied(
        tmp_path,
        "detectors: {restart_loop: {count: 5}}\n"
        "overrides:\n"
        "- {cluster: prod-*, job: orders, detectors: {restart_loop: {count: 7}}}\n"
        "- {cluster: prod-*, detectors: {restart_loop: {count: 8, window: 20m}, node_lost: {confirmation_delay: 9s}}}\n"
        "- {cluster: test, detectors: {node_lost: {confirmation_delay: 1s}}}\n",
    )

    def values(subject: str) -> dict[str, tuple[str, str]]:
        shown = json.loads(run(config, "show", "--for", subject, "--json").output)
        return {s["key"]: (s["value"], s["from"]) for s in shown["settings"]}

    of_all = {"restart_loop.window": ("20m", "overrides[1]"), "node_lost.confirmation_delay": ("9s", "overrides[1]")}
    assert values("prod-a/orders") == {**of_all, "restart_loop.count": ("7", "overrides[0]")}
    assert values("prod-a/other") == {**of_all, "restart_loop.count": ("8", "overrides[1]")}
    assert values("elsewhere/orders") == {"restart_loop.count": ("5", "detectors")}
    assert "overrides[0]" in run(config, "show", "--for", "prod-a/orders").output


def test_apply_warns_of_an_override_that_matches_no_known_cluster_or_job(
    topic: MemoryTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = "detectors: {restart_loop: {enabled: false}}"
    patterns = ("cluster: prod-*, job: orders", "cluster: prdo-*", "job: oders")
    text = "overrides:\n" + "".join(f"- {{{pattern}, {off}}}\n" for pattern in patterns)
    assert "Warning" not in applied(tmp_path, text), "nothing is known yet"
    readings = [
        Reading(name="job_restarts", labels={"cluster": "prod-eu", "job": "orders"}, value=1.0, at=1),
        Reading(name="state_rows", labels={"bucket": "0"}, value=1.0, at=1),
    ]
    known = {r.key().encode(): msgspec.json.encode(r) for r in readings}
    monkeypatch.setattr("streaming.cli.incidents.known_incidents.newest", lambda access, name, timeout: known)
    output = applied(tmp_path, text, "--dry-run")
    assert [line for line in output.splitlines() if "Warning" in line] == [
        f"Warning: override {number} ({match}) matches none of the known clusters and jobs. Check the patterns."
        for number, match in ((1, "cluster=prdo-*"), (2, "job=oders"))
    ]


def test_without_anything_published_show_says_so(topic: MemoryTopic) -> None:
    topic.records.clear()
    with pytest.raises(PublishedError, match="no configuration has been published yet"):
        run(config, "show")


def test_a_silence_is_added_listed_and_expired(topic: MemoryTopic) -> None:
    added = run(
        silence, "add", "--job", "orders-*", "--kind", "restart_loop", "--for", "2h", "--comment", "x", "--json"
    )
    made = json.loads(added.stdout)
    assert made["author"]
    later = ("--begins", "2096-01-01T00:00:00Z", "--until", "2096-01-02T00:00:00+01:00", "--all")
    run(silence, "add", *later, "--comment", "y", "--author", "bob")
    assert [s["state"] for s in listed_silences()] == ["active", "pending"]
    assert listed_silences()[0]["match"] == "job=orders-*, kind=restart_loop"
    for one in listed_silences():
        run(silence, "expire", one["id"])
    assert [s["state"] for s in listed_silences()] == ["ended", "ended"]
    assert "orders-*" in run(silence, "list").output
    with pytest.raises(ConfigError, match="has ended already"):
        run(silence, "expire", made["id"])


def test_a_silence_of_the_file_is_ended_there(topic: MemoryTopic, tmp_path: Path) -> None:
    applied(tmp_path, "silences: [{id: night, until: 2096-01-01T00:00:00Z, author: ann, comment: night}]\n")
    assert [(s["id"], s["origin"]) for s in listed_silences()] == [("night", "configuration")]
    with pytest.raises(ConfigError, match=r"night is in the configuration \(\w{8}, published by .*remove it"):
        run(silence, "expire", "night")
    with pytest.raises(ConfigError, match=r"No silence 'cafe'\. Active and pending silences: night\."):
        run(silence, "expire", "cafe")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give either --for or --until"),
        (["--for", "2h", "--until", "2096-01-01T00:00:00Z"], "give either --for or --until"),
        (["--for", "2"], '--for: 2 is not a duration: write a number with a unit of ms, s, m, h or d, like "5m"'),
        (["--until", "tomorrow"], "--until: tomorrow is not a time with a zone, such as"),
        (["--until", "2096-01-01T00:00:00"], "is not a time with a zone"),
        (["--until", "2016-01-01T00:00:00Z"], "--until: 2016-01-01T00:00:00+00:00 has passed"),
        (["--for", "2h", "--job", "~("], "--job: '~(' is not valid"),
        (["--until", "2096-01-01T00:00:00Z", "--begins", "2097-01-01T00:00:00Z"], "ends before it begins"),
    ],
)
def test_a_wrong_silence_names_the_option(topic: MemoryTopic, options: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        run(silence, "add", "--cluster", "prod", *options, "--comment", "x")
    assert message in str(error.value)
    assert len(topic.records) == 1


def listed_silences() -> list[dict[str, str]]:
    return [json.loads(line) for line in run(silence, "list", "--json").stdout.splitlines()]
