"""Writes an incident as a scenario: the records of its cluster around it, and what a replay of them reports."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from detectors.events.event import Record
from detectors.events.reader import Reader
from detectors.incident import Transition
from sinks.contract.wording import kind_words
from streaming.configuration.settings import Settings
from streaming.errors import ConfigError, UserError
from streaming.inspection.anonymise import Anonymiser
from streaming.inspection.recomputation import replay_cluster
from streaming.recordings.recording import line_of, records_of

_SHORTEST_KEY = 16
_NOTHING = b"-"


class ExportError(UserError):
    """The incident cannot be written as a scenario; the message says why."""


def read_key(file: Path) -> bytes:
    """The secret of `--anonymise`. Raises ConfigError."""
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"--anonymise: {file}: {error.strerror or error}") from None
    if len(key) < _SHORTEST_KEY:
        raise ConfigError(
            f"--anonymise: {file} has {len(key)} bytes; write a secret of at least {_SHORTEST_KEY} bytes, for instance "
            f"with `head -c 32 /dev/urandom | base64 > {file}`"
        )
    return key


def own_records(settings: Settings, file: Path, cluster: str) -> list[Record]:
    """The records of a recording that hold an event of the cluster, in their order.

    The others of the cluster's log topics keep their time alone, because the stream's clock depends on it.
    """
    topics = settings.kafka.topics
    reader = Reader(settings.identity, frozenset(settings.kafka.metrics))
    found = []
    for record in records_of(file):
        if record.topic == topics.config:
            continue
        read = reader.read(record)
        if isinstance(read, list) and any(event.cluster == cluster for event in read):
            found.append(record)
        elif record.topic in settings.kafka.logs:
            found.append(msgspec.structs.replace(record, key=None, headers=(), value=_NOTHING))
    return found


def anonymised(settings: Settings, records: list[Record], cluster: str, key: bytes) -> tuple[list[Record], Anonymiser]:
    """The records with every name in them replaced. The name of the cluster is one of them."""
    made = Anonymiser(key)
    reader = Reader(settings.identity, frozenset(settings.kafka.metrics))
    for record in records:
        read = reader.read(record)
        made.learn(record, read if isinstance(read, list) else [])
    made.learn_name(cluster)
    return [made.record(record) for record in records], made


def write_scenario(settings: Settings, records: list[Record], cluster: str, folder: Path) -> list[Transition]:
    """Write the folder, and return what a replay of it reports. Raises ExportError, RecordingError."""
    try:
        folder.mkdir(parents=True)
        file = folder / "input.jsonl"
        file.write_bytes(b"".join(map(line_of, records)))
        transitions = replay_cluster(settings, file, cluster)
        (folder / "README.md").write_text(_readme(folder.name, records, transitions), encoding="utf-8")
        (folder / "expected.yaml").write_text(_expected(transitions), encoding="utf-8")
    except FileExistsError:
        raise ExportError(f"{folder} exists; choose another folder") from None
    except OSError as error:
        raise ExportError(f"{folder}: {error.strerror or error}") from None
    return transitions


def last_of_each(transitions: Iterable[Transition]) -> list[Transition]:
    """The last state of each incident, without those that became part of another one."""
    return [t for t in {t.incident: t for t in transitions}.values() if not t.part_of]


def _readme(name: str, records: list[Record], transitions: list[Transition]) -> str:
    causes = ", ".join(kind_words(t.cause) for t in last_of_each(transitions)) or "no incident"
    return (
        f"# {name}\n\n"
        f"{len(records)} records of one cluster around an incident, written by `flinkwatch incident export`.\n"
        f"A replay of them reports: {causes}.\n\n"
        "Lines that no detector uses have only their time. What `expected.yaml` has as `truth` is what the replay "
        "reports:\ncompare it with what really happened.\n"
    )


def _expected(transitions: list[Transition]) -> str:
    truth = [_true(t) for t in last_of_each(transitions)]
    return yaml.safe_dump({"truth": truth, "incidents": []}, sort_keys=False, width=120, allow_unicode=True)


def _true(t: Transition) -> dict[str, Any]:
    cause = next((f for f in t.findings if f.kind == t.cause), t.findings[0])
    return {
        "cause": t.cause,
        "first_symptom": min(f.since for f in t.findings),
        "confirmed": t.opened_at,
        "end": t.transition if t.transition in ("resolved", "stale") else "open",
        "entity": dict(sorted(_named(cause.entity))),
    }


def _named(entity: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield from ((key, value) for key, value in entity.items() if value and key in ("host", "job_name", "tm_id"))
