"""Recordings in neutral form as Kafka records, in the envelopes of common shippers.

A recording is a folder with `records.jsonl.gz`, one JSON object a line in order of arrival, and `truth.yaml`:

    {"t": epoch ms, "kind": "log", "host": …, "file": …, "line": one physical line}
    {"t": epoch ms, "kind": "scrape", "host": …, "port": …, "body": Prometheus text, or null when it failed}
"""

import gzip
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from detectors.events.event import Record

LOGS = ("raw", "filebeat", "filebeat-multiline", "fluentbit")
METRICS = ("prometheus", "telegraf", "telegraf-batch")

_HEAD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d{3} ")
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_NO_NUMBER = frozenset({"NaN", "+Inf", "-Inf"})


class Entry(msgspec.Struct):
    """One line of a recording."""

    t: int
    kind: str
    host: str
    port: int = 0
    file: str = ""
    line: str = ""
    body: str | None = None


class Recording(NamedTuple):
    """A recording in memory; `entries` end where its own end begins."""

    name: str
    truth: dict[str, Any]
    entries: list[Entry]


_decode = msgspec.json.Decoder(Entry).decode


def load(folder: Path) -> Recording:
    """Read a folder."""
    truth = yaml.safe_load((folder / "truth.yaml").read_text(encoding="utf-8"))
    end = truth.get("recording_end_t") or 1 << 62
    with gzip.open(folder / "records.jsonl.gz", "rb") as lines:
        entries = [entry for entry in map(_decode, lines) if entry.t <= end]
    return Recording(folder.name, truth, entries)


def packed(recording: Recording, logs: str, metrics: str) -> list[Record]:
    """The Kafka records, in order of arrival."""
    found: list[Record] = []
    offsets: dict[tuple[str, int], int] = {}

    def put(topic: str, entry: Entry, value: str | bytes, headers: dict[str, str]) -> None:
        partition = 0 if entry.host.startswith("jm") else 1
        offset = offsets[topic, partition] = offsets.get((topic, partition), -1) + 1
        key = f"{recording.name}/{entry.host}".encode()
        value = value.encode() if isinstance(value, str) else value
        encoded = tuple((k, v.encode()) for k, v in headers.items())
        found.append(Record(topic, partition, offset, entry.t, key, value, encoded))

    for entry in _joined(recording.entries) if logs.endswith("-multiline") else recording.entries:
        if entry.kind == "log":
            put("flink.logs", entry, *_log(logs, entry, recording.name))
        elif entry.body:
            headers = {"host": entry.host, "cluster": recording.name} if metrics == "prometheus" else {}
            for value in _metrics(metrics, entry, recording.name):
                put("flink.metrics", entry, value, headers)
    return found


def scrapes(name: str, records: Iterable[Record]) -> Recording:
    """The metrics of Kafka records as a recording, from Prometheus pages and Telegraf's JSON."""
    entries = []
    for record in records:
        if record.topic != "flink.metrics" or not record.value:
            continue
        host = dict(record.headers).get("host", b"").decode()
        body = record.value.decode()
        if body[:1] == "{":
            document = msgspec.json.decode(body)
            metrics = document.get("metrics") or [document]
            host = metrics[0]["tags"].get("host", "")
            body = "\n".join(line for metric in metrics for line in _lines(metric))
        entries.append(Entry(record.timestamp, "scrape", host, body=body))
    return Recording(name, {}, entries)


def samples(body: str) -> Iterator[tuple[str, str, str]]:
    """(name, labels as printed without braces, value) of a Prometheus text page."""
    for line in body.splitlines():
        found = _SAMPLE.match(line) if line[:1] != "#" else None
        if found is not None:
            yield found[1], (found[2] or "").rstrip(","), found[3]


def _lines(metric: dict[str, Any]) -> Iterator[str]:
    """The Prometheus text of one metric of Telegraf."""
    tags = {k: v for k, v in metric["tags"].items() if k not in ("host", "cluster")}
    labels = ",".join(f'{k.removeprefix("exported_")}="{v}"' for k, v in tags.items())
    for field, value in metric["fields"].items():
        name = metric["name"] if metric["name"].startswith("flink_") else field
        yield f"{name}{{{labels}}} {value}"


def _joined(entries: list[Entry]) -> Iterator[Entry]:
    """As Filebeat's multiline: lines without a time belong to the one before, and go with it."""
    waiting: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        source = (entry.host, entry.file)
        if entry.kind == "log" and not _HEAD.match(entry.line) and source in waiting:
            waiting[source].line += "\n" + entry.line
            waiting[source].t = entry.t
            continue
        if entry.kind == "log":
            if source in waiting:
                yield waiting.pop(source)
            waiting[source] = msgspec.structs.replace(entry)
            continue
        yield from waiting.values()
        waiting.clear()
        yield entry
    yield from waiting.values()


def _log(envelope: str, entry: Entry, cluster: str) -> tuple[str | bytes, dict[str, str]]:
    path = f"/opt/flink/log/{entry.file}"
    if envelope == "raw":
        return entry.line, {"host": entry.host, "file": path, "cluster": cluster}
    if envelope == "fluentbit":
        pod = {"pod_name": f"{cluster}-{entry.host}", "namespace_name": "flink", "labels": {"app": cluster}}
        kubernetes = {**pod, "host": f"node-{entry.host}", "container_name": "flink-main-container"}
        document: dict[str, Any] = {"@timestamp": entry.t / 1000, "log": entry.line + "\n", "kubernetes": kubernetes}
        return msgspec.json.encode(document), {}
    at = datetime.fromtimestamp(entry.t / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    document = {"@timestamp": at, "log": {"offset": 0, "file": {"path": path}}, "message": entry.line}
    return msgspec.json.encode({**document, "fields": {"cluster": cluster}, "host": {"name": entry.host}}), {}


def _metrics(envelope: str, entry: Entry, cluster: str) -> Iterator[str | bytes]:
    body = entry.body or ""
    if envelope == "prometheus":
        yield body
        return
    agent = {"host": entry.host, "cluster": cluster}
    found = [
        {
            "name": name,
            "fields": {"gauge": float(value)},
            "tags": {**{f"exported_{k}" if k in agent else k: v for k, v in _LABEL.findall(labels)}, **agent},
            "timestamp": entry.t // 1000,
        }
        for name, labels, value in samples(body)
        if value not in _NO_NUMBER
    ]
    if envelope == "telegraf-batch":
        yield msgspec.json.encode({"metrics": found})
    else:
        yield from map(msgspec.json.encode, found)
