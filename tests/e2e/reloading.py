"""A job whose configuration changes: its file as Kubernetes mounts a ConfigMap, its page, its batches, its commands."""

import json
import re
import urllib.request
from typing import Any, NamedTuple

import yaml
from click.testing import CliRunner
from kafka import KafkaConsumer, TopicPartition

from detectors.events.event import Record
from streaming.cli.main import cli
from tests.e2e.harness import Installation


class Mounted:
    """The job's file is a link into `..data`, which is a link to a directory and is replaced as a whole."""

    def __init__(self, here: Installation, sections: dict[str, Any]) -> None:
        self.path = here.folder / "flinkwatch.yaml"
        self._usual = yaml.safe_load(self.path.read_text())
        self._version = 0
        self.path.unlink()
        self.swap(sections)
        self.path.symlink_to("..data/flinkwatch.yaml")

    def swap(self, sections: dict[str, Any]) -> None:
        self._version += 1
        folder, data = self.path.parent / f"..{self._version}", self.path.parent / "..data"
        folder.mkdir()
        (folder / "flinkwatch.yaml").write_text(yaml.safe_dump({**self._usual, **sections}))
        new = data.with_name("..data_tmp")
        new.symlink_to(folder.name)
        new.replace(data)


class Batch(NamedTuple):
    """A batch as its plan in the checkpoint has it: when it began (epoch ms) and up to which offsets it reads."""

    began: int
    ends: dict[str, dict[str, int]]

    def has(self, record: Record) -> bool:
        return self.ends.get(record.topic, {}).get(str(record.partition), 0) > record.offset


def batches(here: Installation) -> list[Batch]:
    """Those that are committed, in order."""
    folder = here.folder / "checkpoint"
    numbers = sorted(int(f.name) for f in (folder / "commits").glob("*") if f.name.isdigit())
    plans = [(folder / "offsets" / str(number)).read_text().splitlines() for number in numbers]
    return [Batch(json.loads(plan[1])["batchTimestampMs"], json.loads(plan[2])) for plan in plans]


def committed(here: Installation, records: list[Record]) -> bool:
    """Whether every record was read by a batch that is committed."""
    done = batches(here)
    return bool(done) and all(done[-1].has(record) for record in records)


def changes(here: Installation) -> list[Record]:
    """The records of the configuration's topic."""
    where = TopicPartition(f"{here.prefix}.config", 0)
    consumer = KafkaConsumer(bootstrap_servers=here.bootstrap, enable_auto_commit=False)
    consumer.assign([where])
    end = consumer.end_offsets([where])[where]
    consumer.seek_to_beginning(where)
    found: list[Record] = []
    while consumer.position(where) < end:
        polled = consumer.poll(timeout_ms=500).get(where, ())
        found += [Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value) for r in polled]
    consumer.close()
    return found


def metrics(here: Installation) -> dict[str, str]:
    """The configuration's metrics on the job's page; the hash of the configuration in force under `hash`."""
    with urllib.request.urlopen(f"{here.job.page_url}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    found = dict(re.findall(r"^flinkwatch_config_(\w+) (\S+)$", page, re.MULTILINE))
    return {**found, "hash": re.search(r'^flinkwatch_config_info\{hash="(\w+)"\} 1', page, re.MULTILINE)[1]}  # type: ignore[index]


def flinkwatch(here: Installation, *arguments: str) -> str:
    """What a command prints that succeeds."""
    options = ["--config", str(here.folder / "flinkwatch.yaml")]
    done = CliRunner().invoke(cli, [*arguments, *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout
