"""Reads the events in a record, or the reason why the record cannot be read.

A record without anything of interest gives no events, which is not a rejection.
"""

from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial

from detectors.events.envelopes import logs, otlp_protobuf
from detectors.events.envelopes import metrics as metric_envelopes
from detectors.events.envelopes.metrics import Page
from detectors.events.envelopes.otlp import Ignored
from detectors.events.event import Event, LogEvent, MetricEvent, Record, Rejected
from detectors.events.identity import MAX_NAME, Identity, Location, Origin
from detectors.events.layouts import escaped_breaks, json_layout, stack_line, text_layout
from detectors.events.layouts.json_layout import LoggedLine
from detectors.events.vocabulary import match, metric_names
from detectors.events.vocabulary.container_metrics import by_app, mentions_containers
from detectors.events.vocabulary.recognition import RecognisedRecord, has_layout, of_flink, tags_of
from detectors.values.decoding import UndecodableError, decoded
from detectors.values.texts import shorten_paths

MAX_TEXT = 500
_MAX_LINE = 16 * 1024
# Enough to see the format of a source. A page of metrics with a known name is read completely anyway.
_MAX_ENTRIES = 5
_MAX_PAGE = 64 * 1024
# A JSON document, or a line with an editor's line number or a blank in front.
_ODD_STARTS = frozenset("{ 0123456789")


class Reader:
    """Reads records. Those of `metric_topics` are metrics, all others are logs. No record changes how others are read.

    `ignored` counts by topic and reason the entries of collectors' records that were passed over on purpose.
    """

    def __init__(self, identity: Identity, metric_topics: frozenset[str]) -> None:
        self._identity = identity
        # Thousands of lines share an origin.
        self._location: Callable[[Origin], Location] = lru_cache(maxsize=4096)(lambda o: o.location(identity))
        self._metric_topics = metric_topics
        self.ignored: dict[str, Ignored] = {}

    def read(self, record: Record) -> list[Event] | Rejected:
        """The events of a record in the order of its lines. No content of a record makes it raise."""
        try:
            if record.topic in self._metric_topics:
                return self._metrics(record, self._ignored(record))
            return self._logs(record)
        except UndecodableError as error:
            return Rejected(error.reason, str(error), record)

    def _logs(self, record: Record) -> list[Event]:
        events: list[Event] = []
        for text, origin, logged in logs.open_log(record, self._identity, self._ignored(record)):
            self._text(record, text, origin, logged, events)
        return events

    def _ignored(self, record: Record) -> Ignored:
        found = self.ignored.get(record.topic)
        if found is None:
            found = self.ignored[record.topic] = Counter()
        return found

    def _text(self, record: Record, text: str, origin: Origin, logged: LoggedLine | None, events: list[Event]) -> None:
        """Read the lines of one text, and the stack trace that a JSON layout keeps in another field."""
        place = self._location(origin)
        time, zoned = (-1, False) if logged is None else (logged.time, logged.zoned)
        # A stack belongs to the line before it. Alone in a record, it belongs to the source's previous line.
        orphan = False
        first = logged is not None
        for whole_line in text_layout.split_events(text):
            # Nothing of interest comes after 16 KB of a line, so regular expressions need not search there.
            line = whole_line[:_MAX_LINE]
            head = text_layout.split(line)
            if head is None and line[:1] in _ODD_STARTS:
                if logged is None and line[0] == "{" and (inner := json_layout.read(whole_line)) is not None:
                    before = len(events)
                    self._text(record, inner.message, logs.within(origin, inner), inner, events)
                    time, zoned, orphan = inner.time, inner.zoned, len(events) == before
                    continue
                line = text_layout.without_line_number(line)
                head = text_layout.split(line)
            if head is not None:
                time, message, zoned = head
            elif first and stack_line.read(line) is None:
                message = line
            else:
                orphan = _continued(record, place, time, zoned, line, orphan, events)
                continue
            first = False
            found = match.match(message)
            orphan = found is None
            if found is not None:
                cause = found[1].pop("cause", "")
                events.append(_log_event(record, place, time, zoned, found, message))
                if cause and (thrown := stack_line.read(cause)) is not None:
                    events.append(_log_event(record, place, time, zoned, thrown, cause))
        if logged is not None and logged.stack:
            for line in escaped_breaks.lines(logged.stack):
                orphan = _continued(record, place, time, zoned, line[:_MAX_LINE], orphan, events)

    def recognise(self, record: Record) -> RecognisedRecord | None:
        """Whether the record is understood, and its source. None if it is unreadable, blank or part of a stack."""
        try:
            if record.topic in self._metric_topics:
                return self._recognised_metrics(record)
            entries = logs.open_log(record, self._identity, Counter())[:_MAX_ENTRIES]
            seen = [(has_layout(entry), entry) for entry in entries]
        except ValueError:
            return None
        known = [(understood, entry) for understood, entry in seen if understood is not None]
        if not known:
            return None
        understood = any(one for one, _ in known)
        place = self._location(known[0][1][1])
        return RecognisedRecord(place.cluster, place.host, understood, not understood and of_flink(record.value or b""))

    def _recognised_metrics(self, record: Record) -> RecognisedRecord:
        value = _checked(record.value)
        events, tags = (self._known(record), tags_of(value)) if len(value) <= _MAX_PAGE else ([], {})
        if events:
            return RecognisedRecord(events[0].cluster, events[0].host, understood=True, flink=True)
        origin = logs.origin_of(record, self._identity.header)
        host = tags.get("host", "") or origin.host
        place = self._location(origin._replace(field=tags.get("cluster", ""), host=host))
        flink = of_flink(value) and not mentions_containers(value)
        return RecognisedRecord(place.cluster, place.host, understood=False, flink=flink)

    def _known(self, record: Record) -> list[Event]:
        """The events of a metric record; a reporter whose names are not known has none."""
        try:
            return self._metrics(record, Counter())
        except UndecodableError as error:
            if error.reason != metric_names.OTHER_REPORTER:
                raise
            return []

    def _metrics(self, record: Record, ignored: Ignored) -> list[Event]:
        value = _checked(record.value)
        origin = logs.origin_of(record, self._identity.header)
        events: list[Event] = []
        for samples, tags, time in _pages(value, ignored):
            if samples:
                host = tags.get("host", "") or origin.host or samples[0].labels.get("host", "")
                own = origin._replace(field=tags.get("cluster", ""), host=host)
                taken = time or record.timestamp
                where = record.topic, record.partition, record.offset
                # The page of a kubelet has the containers of several clusters.
                for (namespace, app), part in by_app(samples):
                    place = self._location(own._replace(namespace=namespace, app=app) if namespace or app else own)
                    events.append(MetricEvent(*place, record.timestamp, taken, *where, part))
        return events


def _checked(value: bytes | None) -> bytes:
    """The bytes of a metric record, if they can be text or OTLP's protobuf. Raises UndecodableError."""
    if value is not None and len(value) <= logs.MAX_METRIC_BYTES and otlp_protobuf.holds(value):
        return value
    return logs.check(value, logs.MAX_METRIC_BYTES)


def _pages(value: bytes, ignored: Ignored) -> list[Page]:
    """The contents of a metric record, by source. A Prometheus page has no tags and no time of its own."""
    if (resources := otlp_protobuf.read_metrics(value, metric_envelopes.is_known)) is not None:
        return metric_envelopes.otlp_pages(resources, ignored)
    if value.lstrip()[:1] in (b"{", b"["):
        otlp = b'"resourceMetrics"' in value[:200]
        if not otlp and (b'"metrics"' in value[:64] or b'"fields"' in value):
            return [logs.decode_json(metric_names.read_telegraf, value, "Telegraf JSON")]
        read = partial(metric_envelopes.read_document, ignored=ignored)
        return logs.decode_json(read, value, "a metric document")  # type: ignore[no-any-return]
    text = decoded(bytes.decode, value)
    try:
        if metric_envelopes.is_line_protocol(text):
            return metric_envelopes.read_lines(text)
        return [(metric_names.read_prometheus(text), {}, 0)]
    except ValueError as error:
        raise UndecodableError("not_prometheus", str(error)) from None


def _continued(
    record: Record, place: Location, time: int, zoned: bool, line: str, orphan: bool, events: list[Event]
) -> bool:
    """Read a line that continues the previous one; returns whether a stack after it still has no line to belong to."""
    if (found := match.match_anywhere(line)) is not None:
        events.append(_log_event(record, place, time, zoned, found, line))
    thrown = stack_line.read(line)
    if thrown is None:
        return orphan
    if orphan:
        thrown[1]["orphan"] = "yes"
    events.append(_log_event(record, place, time, zoned, thrown, line))
    return False


def _log_event(
    record: Record, place: Location, local_time: int, zoned: bool, found: tuple[str, dict[str, str]], message: str
) -> LogEvent:
    event_type, fields = found
    if len(message) > MAX_NAME:
        fields = {name: _field(name, value) for name, value in fields.items()}
    return LogEvent(
        event_type,
        place.cluster,
        place.source,
        place.host,
        record.timestamp,
        local_time,
        record.topic,
        record.partition,
        record.offset,
        fields,
        message[:MAX_TEXT].rstrip(),
        zoned,
    )


def _field(name: str, value: str) -> str:
    """A field, not longer than it may be. The message of a throwable may have its reason after a long path."""
    return (shorten_paths(value) if name == "message" and len(value) > MAX_NAME else value)[:MAX_NAME]


def prefilter(topic_is_metrics: bool) -> tuple[str, ...]:
    """Literals of which every record with an event contains at least one, to search for before decoding."""
    return metric_names.PREFILTER if topic_is_metrics else match.PREFILTER
