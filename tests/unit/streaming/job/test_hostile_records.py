"""Bytes that anyone may write to any topic: read, or rejected with a reason; never an error, never carried on."""

import copy
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.engine.bucket import BucketIndex
from detectors.incident import Reading, decode_reading, decode_transition
from detectors.incidents.silences import Silence
from detectors.settings.live import (
    CONFIG_KEY,
    RESOLVE_KEY,
    SILENCE_KEY,
    LiveSettings,
    PublishedConfiguration,
    PublishedResolution,
    encode_published,
    publish,
    publish_silence,
    read_change,
    settings_hash,
)
from detectors.values.decoding import UndecodableError
from sinks.delivery.notification_log import NotificationLog
from streaming.cli import config_report
from streaming.configuration.silences import listed
from streaming.configuration.topic import ConfigHistory, encode_silence
from streaming.job.heartbeat import canary_sent_at
from tests.unit.sinks.samples import make_transition

DEEP = "§deep§"
RAW = {
    f'"{DEEP}{i}"': text
    for i, text in enumerate(
        [
            '{"a":' * 2_000 + "1" + "}" * 2_000,
            "[" * 5_000 + "]" * 5_000,
            '{"a":' * (sys.getrecursionlimit() // 2) + "1" + "}" * (sys.getrecursionlimit() // 2),
            str(2**64),
            str(-(2**70)),
            "9" * 5_000,
            "1e999",
            "NaN",
            '"\\ud800"',
            '"\\u0000"',
        ]
    )
}
HOSTILE = st.sampled_from([*RAW, "", None, 0, -1, 2**63, 1e300, [], {}, "x" * 2_000, "~(", "9999-12-31T23:59:59-23:59"])
SILENCE = Silence.model_validate(
    {"job": "a-*", "until": "2026-12-01T06:00:00Z", "author": "ann", "comment": "a backfill"}
)
ENTRY = {
    "incident": "i",
    "seq": 1,
    "state": "sent",
    "at": 5,
    "channel": "C",
    "ts": "1.2",
    "offset": 7,
    "notified": {"change": "opened", "cause": "restart_loop", "severity": "warning", "findings": 1},
    "folded": {"storm": 5, "kind": "k", "cluster": "c", "job": "j", "severity": "warning", "since": 4},
}
READING = Reading(name="up", labels={"cluster": "c"}, value=1.0, at=5)


def _notification_log(value: bytes) -> object:
    log = NotificationLog(None, "flinkwatch.deliveries", "slack")
    log.load(0, [(b"slack/i", value), (b"i", value)])
    return [entry for _, entry in log.entries()]


READERS: dict[str, tuple[Any, Callable[[bytes], object]]] = {
    "configuration": (
        json.loads(encode_published(publish(LiveSettings(silences=(SILENCE,)), 5, "ann"))),
        lambda value: read_change(CONFIG_KEY, value),
    ),
    "silence": (
        json.loads(encode_silence(publish_silence(SILENCE, 5, "ann"))),
        lambda value: read_change(SILENCE_KEY + b"x", value),
    ),
    "resolution": (
        json.loads(encode_silence(PublishedResolution(make_transition(), 5, "ann", "taken down"))),
        lambda value: read_change(RESOLVE_KEY + b"x", value),
    ),
    "incident": (json.loads(msgspec.json.encode(make_transition())), decode_transition),
    "reading": (
        json.loads(msgspec.json.encode(READING)),
        decode_reading,
    ),
    "notification log": (ENTRY, _notification_log),
    "canary": ({"flinkwatch canary": 5}, canary_sent_at),
}
readers = pytest.mark.parametrize("name", READERS)


def _places(document: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items if isinstance(document, dict | list) else ():
        yield (*way, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*way, key))


def _spoilt(document: Any, place: tuple[Any, ...], value: object) -> bytes:
    changed = copy.deepcopy(document)
    inner = changed
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    text = json.dumps(changed)
    for mark, raw in RAW.items():
        text = text.replace(json.dumps(mark), raw)
    return text.encode()


def _said(error: UndecodableError) -> None:
    assert error.reason
    assert len(str(error)) <= 501


def _read(name: str, value: bytes) -> object:
    try:
        found = READERS[name][1](value)
    except UndecodableError as error:
        return _said(error)
    msgspec.msgpack.encode(found)
    msgspec.json.encode(found)
    return found


@readers
def test_what_is_well_formed_is_read(name: str) -> None:
    document, _ = READERS[name]
    assert _read(name, json.dumps(document).encode()) is not None


@readers
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_value_in_any_place_is_an_error(name: str, data: st.DataObject) -> None:
    document, _ = READERS[name]
    place = data.draw(st.sampled_from([*_places(document)]))
    _read(name, _spoilt(document, place, data.draw(HOSTILE)))


@readers
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_bytes_are_an_error(name: str, data: st.DataObject) -> None:
    whole = json.dumps(READERS[name][0]).encode()
    cut = data.draw(st.integers(0, len(whole)))
    _read(name, whole[:cut] + data.draw(st.binary(max_size=30)) + whole[cut + data.draw(st.integers(0, 3)) :])
    _read(name, data.draw(st.binary()))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_counts_of_the_topic_can_be_listed_carried_and_taken_over(data: st.DataObject) -> None:
    """`config history`, `show` and `silence list` go on, and so does every bucket of the job."""
    history, index = ConfigHistory(), BucketIndex()
    for name, key in (("configuration", CONFIG_KEY), ("silence", SILENCE_KEY + b"x")):
        document, _ = READERS[name]
        place = data.draw(st.sampled_from([*_places(document)]))
        value = _spoilt(document, place, data.draw(HOSTILE))
        history.add(key, value, 7)
    index.configure(history.in_force, history.silences.values())
    msgspec.msgpack.encode(index)
    listed(history, 10)
    config_report.history(history.configurations)
    for published in history.configurations:
        assert published.hash == settings_hash(published.live())
    assert len(history.configurations) + len(history.silences) + len(history.unreadable) == 2


def test_the_hash_of_a_configuration_is_that_of_what_it_says() -> None:
    forged = msgspec.structs.replace(publish(LiveSettings(), 5, "mallory"), hash="00000000")
    read = read_change(CONFIG_KEY, encode_published(forged))
    assert isinstance(read, PublishedConfiguration)
    assert read.hash == settings_hash(LiveSettings())


def test_a_record_that_cannot_be_read_is_named_with_its_offset_and_the_last_good_one_counts() -> None:
    history = ConfigHistory()
    history.add(CONFIG_KEY, encode_published(publish(LiveSettings(), 5, "ann")), 0)
    history.add(CONFIG_KEY, b'{"hash":"x","at":1,"by":"b","detectors":' + b'{"a":' * 2000 + b"1" + b"}" * 2001, 1)
    assert history.in_force is not None
    assert history.in_force.by == "ann"
    assert history.unreadable == ["offset 1: too_deep: the JSON is nested too deeply"]
