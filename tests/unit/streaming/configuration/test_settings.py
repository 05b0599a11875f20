"""The configuration file: what it says is what the code does, and every error names file, key and what is allowed."""

from itertools import pairwise
from pathlib import Path

import pytest

from streaming.configuration.settings import Settings, load
from streaming.errors import ConfigError
from streaming.reference.configuration_file import configuration_file

SHIPPED = Path(__file__).parents[4] / "conf" / "flinkwatch.yaml"


def test_the_shipped_file_is_what_the_model_says() -> None:
    """`flinkwatch config defaults > conf/flinkwatch.yaml` after a change of a setting."""
    assert SHIPPED.read_text() == configuration_file()


def test_the_shipped_file_is_the_defaults() -> None:
    assert load(SHIPPED, {}) == Settings()


def test_every_setting_has_its_reason() -> None:
    settings = [line for line in configuration_file().splitlines() if line.strip()]
    without = [b for a, b in pairwise(settings) if "#" not in b and "#" not in a]
    assert without == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kafka: {acces: {}}", "kafka.acces: unknown key; did you mean access? allowed: access, logs, metrics, topics"),
        ("detectors: {checkpoint_overdu: {}}", "did you mean checkpoint_overdue?"),
        ("detectors: {late_barrier_acks: {settle: 5}}", 'detectors.late_barrier_acks.settle: is not a duration'),
        ("detectors: {late_barrier_acks: {settle: 5}}", "for instance 5s or 5m"),
        ("detectors: {late_barrier_acks: {min_acks: 0}}", "late_barrier_acks.min_acks: must be at least 1, not 0"),
        ("streaming: {starting_offsets: middle}", "streaming.starting_offsets: input should be 'latest' or 'earliest'"),
        ("streaming: {trigger: 1ms}", "streaming.trigger: must be at least 100ms, not 1ms"),
        ("kafka: {access: {bootstrap_servers: broker}}", "must be host:port, comma-separated"),
        ("identity: {cluster: [header, tag]}", "identity.cluster[1]: input should be 'header', 'field'"),
        ("- a list", "must be a mapping of sections: kafka, streaming"),
        ("kafka: {", "not YAML"),
    ],
)  # fmt: skip
def test_an_error_names_file_and_key_and_what_is_allowed(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(file, {})
    assert str(error.value).startswith(str(file))
    assert problem in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        load(tmp_path / "none.yaml", {})


def test_all_errors_are_reported_together(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("kafka: {acces: {}}\ndetectors: {late_barrier_acks: {settle: 5}}\n")
    with pytest.raises(ConfigError) as error:
        load(file, {})
    assert len(str(error.value).splitlines()) == 2


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    file.write_text("kafka: {access: {bootstrap_servers: 'file:1'}}")
    environment = {
        "FLINKWATCH__KAFKA__ACCESS__BOOTSTRAP_SERVERS": "environment:2",
        "FLINKWATCH__STREAMING__BUCKETS": "3",
    }
    settings = load(file, environment)
    assert settings.kafka.access.bootstrap_servers == "environment:2"
    assert settings.streaming.buckets == 3


def test_a_typing_error_in_the_environment_is_an_error_too() -> None:
    with pytest.raises(ConfigError, match=r"streaming\.bucket: unknown key; did you mean buckets"):
        load(None, {"FLINKWATCH__STREAMING__BUCKET": "3"})


@pytest.mark.parametrize(
    "name",
    ["spark.hadoop.fs.s3a.secret.key", "spark.authenticate.secret", "spark.ssl.keyStorePassword", "spark.x.token"],
)
def test_a_secret_among_sparks_properties_is_refused_without_its_value(name: str, tmp_path: Path) -> None:
    """It would be visible in the list of processes."""
    file = tmp_path / "flinkwatch.yaml"
    file.write_text(f"streaming:\n  spark:\n    {name}: canary\n")
    with pytest.raises(ConfigError) as raised:
        load(file, {})
    assert f"{name} would be visible in this file and in the process list" in str(raised.value)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[4]", "spark://a:7077,b:7077", "yarn", "k8s://https://10.0.0.1:6443"]
)
def test_every_kind_of_master_is_taken(master: str) -> None:
    assert load(None, {"FLINKWATCH__STREAMING__MASTER": master}).streaming.master == master


@pytest.mark.parametrize("master", ["locl[*]", "spark://host", "mesos://a:5050", "a:7077"])
def test_another_master_is_refused_with_those_there_are(master: str) -> None:
    with pytest.raises(ConfigError, match=r"streaming\.master: must be local"):
        load(None, {"FLINKWATCH__STREAMING__MASTER": master})
