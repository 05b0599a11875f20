"""`flinkwatch incident export` writes what `flinkwatch replay` reads."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from streaming.cli.main import cli
from streaming.errors import ConfigError, PublishedError
from streaming.inspection.export import ExportError
from tests.unit.streaming.cli.incidents.test_explain import broker, stored  # noqa: F401 - a fixture
from tests.unit.streaming.memory_broker import MemoryBroker


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)


def test_an_export_is_replayed_with_the_same_cause(broker: MemoryBroker) -> None:  # noqa: F811
    done = run("incident", "export", stored(broker)[0].incident, "--out", "found")
    assert done.stdout.endswith("A replay of them reports: TaskManager lost.\n")
    assert sorted(p.name for p in Path("found").iterdir()) == ["README.md", "expected.yaml", "input.jsonl"]
    assert Path("found/README.md").read_text().startswith("# found\n")
    (truth,) = yaml.safe_load(Path("found/expected.yaml").read_text())["truth"]
    assert (truth["cause"], truth["end"]) == ("taskmanager_lost", "resolved")
    assert truth["entity"]["tm_id"] == "372d67df5f2c131a738b025c91f4a3de"
    assert "1 incident (TaskManager lost)" in run("replay", "found/input.jsonl").stdout


def test_an_anonymised_export_has_no_name_of_the_cluster_or_the_taskmanager(broker: MemoryBroker) -> None:  # noqa: F811
    Path("key").write_text("0123456789abcdef")
    done = run("incident", "export", stored(broker)[0].incident, "--out", "found", "--anonymise", "key")
    assert done.stdout.endswith("A replay of them reports: TaskManager lost.\n")
    text = "".join(file.read_text() for file in Path("found").iterdir())
    assert "372d67df5f2c131a738b025c91f4a3de" not in text
    assert "incident-steady" not in text


def test_a_key_that_is_missing_or_short_is_an_error_that_says_what_to_do(broker: MemoryBroker) -> None:  # noqa: F811
    arguments = ("incident", "export", "x", "--out", "found", "--anonymise", "key")
    with pytest.raises(ConfigError, match="--anonymise: key: No such file"):
        run(*arguments)
    Path("key").write_text("short")
    with pytest.raises(ConfigError, match=r"--anonymise: key has 5 bytes; write a secret of at least 16 bytes"):
        run(*arguments)


def test_a_folder_is_never_overwritten_and_an_unknown_incident_is_one_line(broker: MemoryBroker) -> None:  # noqa: F811
    with pytest.raises(PublishedError, match="has no incident nosuch"):
        run("incident", "export", "nosuch", "--out", "found")
    assert not Path("found").exists()
    Path("found").mkdir()
    with pytest.raises(ExportError, match="found exists"):
        run("incident", "export", "nosuch", "--out", "found")
