"""Replaces names in records by others of the same shape, with a key: hosts, jobs, IDs, paths, classes of the user.

The same key gives the same name the same replacement, also in another file, so incidents can be compared. Each letter
stays a letter, each digit a digit, and the length stays, so patterns match as before and length-prefixed formats remain
valid. Each character is shifted by an amount that depends on the key and on the characters before it in its word: two
words never get the same replacement, and a name inside a longer one gets the same words.
"""

import hmac
import re
import string
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from detectors.events.event import Event, LogEvent, Record
from detectors.events.names import filtered
from detectors.events.vocabulary import PATTERNS

_WORD = re.compile(r"[A-Za-z0-9]+")
_LETTER, _ALNUM = re.compile(r"[A-Za-z]"), re.compile(r"[A-Za-z0-9]")
_NO_LABELS = frozenset({"collector", "partition", "subtask_index"})
_HEX_LETTERS = "abcdef"
# Not the name of a metric.
_NAME = re.compile(r"(?!flink[_.])[A-Za-z][\w./:@-]{2,200}")
_NOT_NAMES = frozenset(
    {"@timestamp", "time", "timestamp", "date", "ts", "level", "log.level", "severity", "logger", "logger_name"}
    | {"loggername", "thread", "thread_name", "stream", "type", "source_type", "version", "message", "log"}
    | {
        "action",
        "apiversion",
        "component",
        "controller",
        "creationtimestamp",
        "eventtime",
        "fieldpath",
        "kind",
        "reason",
    }
    | {
        "firsttimestamp",
        "lasttimestamp",
        "reportingcomponent",
        "reportingcontroller",
        "source",
        "severitytext",
        "class",
    }
    | {"loggerfqcn", "log.logger"}
)
_HEX = re.compile(r"[0-9a-f]{8,}")
_EPOCH_OF_CONTAINER = re.compile(r"e\d+")
_FIELDS = frozenset(
    {"address", "attempt", "broker", "container", "failed", "file", "host", "id", "job", "name", "node", "operator"}
    | {"path", "pod", "resource", "server", "service", "storage", "task", "tm", "topic"}
)
_IN_TEXT = (
    rb"\b(?:\d{1,3}\.){3}\d{1,3}\b"
    rb"|\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    rb"|\b(?:container|application|appattempt)_\w+"
    rb"|(?<![\w.])(?:[a-z][a-z0-9+.-]{1,15}:/)?(?:/[\w.@=%+-]+){2,}"
    rb"|[\w.+-]+@[\w-]+\.[\w.-]+"
)
"""Addresses, IDs and paths, wherever they are."""
_STRUCTURE = frozenset(
    {
        "appattempt",
        "application",
        "attempt",
        "container",
        "cluster",
        "default",
        "gateway",
        "jobmanager",
        "local",
        "node",
    }
    | {
        "sql",
        "standalonejob",
        "standalonesession",
        "svc",
        "taskexecutor",
        "taskmanager",
        "akka",
        "flink",
        "pekko",
        "rpc",
    }
    | {"file", "hdfs", "http", "https", "ssl", "tcp", "user", "com", "net", "org", "java", "python", "localhost"}
    | {"filter", "flat", "keyed", "map", "process", "sink", "source", "window", "data", "home", "jar", "lib", "log"}
    | {"logs", "opt", "out", "err", "tmp", "usr", "var"}
)
_VOCABULARY = frozenset(
    word.lower() for pattern in PATTERNS for word in _WORD.findall(re.sub(r"\(\?P<\w+>|\\.", " ", pattern.pattern))
)
KEPT = _STRUCTURE | {word for word in _VOCABULARY if word.isalpha()}
"""Words that stay, because log lines are known by them."""


class Anonymiser:
    """Replaces the names that `learn` has found. `key` is the secret."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._names: set[str] = set()
        self._word = lru_cache(maxsize=65_536)(self._shifted)
        self._pattern: re.Pattern[bytes] | None = None

    def learn(self, record: Record, events: Iterable[Event]) -> None:
        """Learn the names in a record: where it comes from, and what its events say."""
        found = {record.key.decode(errors="replace")} if record.key else set()
        found.update(value.decode(errors="replace") for _, value in record.headers)
        for event in events:
            found.update((event.cluster, event.host, event.source))
            if isinstance(event, LogEvent):
                found.update(value for name, value in event.fields.items() if name in _FIELDS)
            else:
                found.update(v for sample in event.samples for k, v in sample.labels.items() if k not in _NO_LABELS)
        if record.value and record.value[:1] == b"{":
            found.update(_short_texts(record.value))
        for name in found:
            self.learn_name(name)

    def learn_name(self, name: str) -> None:
        """Learn one name. A number or a single letter is none: it would be found everywhere."""
        if _LETTER.search(name) and len(_ALNUM.findall(name)) > 1 and self.name(name) != name:
            self._names.add(name)
            self._pattern = None

    def learned(self, name: str) -> str:
        """The replacement of a name, if it is replaced in the records; else the name."""
        return self.name(name) if name in self._names else name

    def name(self, name: str) -> str:
        """The replacement of a name."""
        return _WORD.sub(lambda word: self._word(word[0]), name)

    def names(self) -> set[str]:
        """The names that are replaced."""
        return self._names

    def record(self, record: Record) -> Record:
        """The record with every name in it replaced."""
        headers = tuple((name, self.data(value)) for name, value in record.headers)
        key = None if record.key is None else self.data(record.key)
        value = None if record.value is None else self.data(record.value)
        return msgspec.structs.replace(record, key=key, value=value, headers=headers)

    def data(self, data: bytes) -> bytes:
        """Bytes with every name in them replaced; their number stays."""
        return self._compiled().sub(lambda found: self._bytes(found[0]), data)

    def _compiled(self) -> re.Pattern[bytes]:
        """All names, the longest first, then what is known by its shape."""
        if self._pattern is None:
            forms = {form for name in self._names for form in (name, filtered(name), _escaped(name))}
            names = sorted((form.encode() for form in forms), key=lambda form: (-len(form), form))
            known = b"|".join(map(re.escape, names))
            self._pattern = re.compile(
                (rb"(?<![A-Za-z0-9])(?:" + known + rb")(?![A-Za-z0-9])|" if known else b"") + _IN_TEXT
            )
        return self._pattern

    def _bytes(self, name: bytes) -> bytes:
        return self.name(name.decode("latin-1")).encode("latin-1")

    def _shifted(self, word: str) -> str:
        """A word of other letters and digits; words that log lines are known by stay."""
        if word.lower() in KEPT or _EPOCH_OF_CONTAINER.fullmatch(word):
            return word
        letters = _HEX_LETTERS if _HEX.fullmatch(word) else string.ascii_lowercase
        return "".join(self._other(word[:i], c, letters) for i, c in enumerate(word))

    def _other(self, before: str, character: str, letters: str) -> str:
        """The character shifted within its kind, by at least one."""
        kind = string.digits if character in string.digits else letters
        kind = kind.upper() if character in string.ascii_uppercase else kind
        shift = int.from_bytes(hmac.digest(self._key, f"{kind} {before}".encode(), "sha256")[:8], "big")
        return kind[(kind.index(character) + 1 + shift % (len(kind) - 1)) % len(kind)]


def _escaped(name: str) -> str:
    """A name as it is in JSON."""
    return msgspec.json.encode(name).decode()[1:-1]


def _short_texts(value: bytes) -> set[str]:
    """The texts without a blank in a shipper's document that may name something: not times, levels and loggers."""
    try:
        document = msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        return set()
    found: set[str] = set()
    waiting: list[tuple[str, object]] = [("", document)]
    while waiting:
        key, part = waiting.pop()
        if isinstance(part, dict):
            waiting += [(str(name).lower(), inner) for name, inner in part.items()]
        elif isinstance(part, list):
            waiting += [(key, inner) for inner in part]
        elif isinstance(part, str) and key not in _NOT_NAMES and _NAME.fullmatch(part):
            found.add(part)
    return found
