"""Reads Kubernetes events as kubernetes-event-exporter, Fluent Bit and the OpenTelemetry Collector send them.

Supported are events of both API groups (`involvedObject` and `message`, `regarding` and `note`), alone or as the
`object` of a watch. An event of a Flink deployment or one of its pods becomes one line, which the vocabulary matches,
with the time at which it was seen last. Of any other object, such as a node, only the message is kept.
"""

import re
from typing import Any, NamedTuple

import msgspec

from detectors.events.identity import Origin
from detectors.events.layouts import times
from detectors.events.layouts.json_layout import LoggedLine

_SOURCE = "kubernetes-events"
"""The file of the origin: events are written by no process of Flink's."""

_CONTAINERS = "flink-main-container"
_OPERATOR = "flink-kubernetes-operator"
_COMPONENTS = ("jobmanager", "taskmanager")
_ROLE = re.compile(r"-(?:job|task)manager\b")
# A ReplicaSet and its pods are named after the Deployment, with parts in an alphabet that makes no words.
_GENERATED = re.compile(r"(?:-[bcdf-hj-np-tv-xz2456789]{6,10})?-[bcdf-hj-np-tv-xz2456789]{5,10}$")
_SESSION = ("target.session", "target_session")
_MAX_COUNT, _MAX_SPREAD_S = 10**6, 86_400


class _Referenced(msgspec.Struct, rename="camel", frozen=True):
    kind: str = ""
    namespace: str | None = None
    name: str = ""
    field_path: str | None = None
    labels: dict[str, Any] | None = None


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    uid: str | None = None
    creation_timestamp: str | None = None


class _Series(msgspec.Struct, rename="camel", frozen=True):
    count: int | None = None
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel", frozen=True):
    reason: str = ""
    type: str | None = None
    metadata: _Meta = _Meta()
    series: _Series | None = None
    event_time: str | None = None
    involved_object: _Referenced | None = None
    message: str | None = None
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    regarding: _Referenced | None = None
    note: str | None = None
    deprecated_count: int | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None


class _Watched(msgspec.Struct, frozen=True):
    """What a watch of the API sends. Kubernetes deletes each event after an hour, which is no news."""

    object: _Event
    type: str = ""


class EventLine(NamedTuple):
    """One event as a line, and what it says about its origin: `uid` is the event's own."""

    logged: LoggedLine
    uid: str
    namespace: str
    app: str
    of_flink: bool

    def origin(self, known: Origin) -> Origin:
        """The origin of the line. The exporter's key is the event's ID, which names no cluster."""
        if self.uid and known.key == self.uid:
            known = known._replace(key="")
        if not self.of_flink:
            return known
        namespace, app = self.namespace or known.namespace, self.app or known.app
        return known._replace(namespace=namespace, app=app, pod="", container="", host="", file=_SOURCE)


def read(document: dict[str, Any]) -> EventLine | None:
    """The event in a document, or None if it is none."""
    try:
        if not isinstance(document.get("object"), dict):
            return _line(msgspec.convert(document, _Event))
        watched = msgspec.convert(document, _Watched)
    except msgspec.ValidationError:
        return None
    found = _line(watched.object)
    if found is None or watched.type != "DELETED":
        return found
    return found._replace(logged=found.logged._replace(message=""))


def of_attributes(given: dict[str, str], message: str, severity: str, time: int) -> EventLine | None:
    """The event of the collector's receiver `k8s_events`, which puts its parts into attributes."""
    reason = given.get("k8s.event.reason")
    if not reason:
        return None
    about = _Referenced(
        given.get("k8s.object.kind", ""),
        given.get("k8s.namespace.name"),
        given.get("k8s.object.name", ""),
        given.get("k8s.object.fieldpath"),
    )
    count = given.get("k8s.event.count", "")
    found = _line(
        _Event(
            reason=reason,
            type=severity,
            metadata=_Meta(given.get("k8s.event.uid")),
            involved_object=about,
            message=message,
            count=int(count) if count.isdecimal() and len(count) < 10 else None,
        )
    )
    return None if found is None else found._replace(logged=found.logged._replace(time=time, zoned=time >= 0))


def _line(event: _Event) -> EventLine | None:
    about = event.involved_object or event.regarding
    if about is None or not event.reason:
        return None
    note = " ".join((event.message or event.note or "").split())
    series = event.series or _Series()
    first, last = _times(event, series)
    text = note
    if of_flink := _of_flink(about):
        count = min(max(1, event.count or event.deprecated_count or series.count or 1), _MAX_COUNT)
        spread = min(max(0, last - first) // 1000, _MAX_SPREAD_S)
        often = f"{count} time{'s' * (count != 1)}"
        where = f"{about.kind} {about.namespace or '-'}/{about.name}"
        severity = "Warning" if event.type == "Warning" else "Normal"
        text = f"Kubernetes event: {severity} {event.reason} of {where} ({often} in {spread} s): {note}"
    logged = LoggedLine(text, last, last >= 0, "", "", "")
    return EventLine(logged, event.metadata.uid or "", about.namespace or "", _app(about), of_flink)


def _times(event: _Event, series: _Series) -> tuple[int, int]:
    """When it was seen first and last, epoch ms, or -1."""
    given = (
        *(event.first_timestamp, event.deprecated_first_timestamp, event.event_time),
        *(event.last_timestamp, event.deprecated_last_timestamp, series.last_observed_time),
    )
    # Times that are not set may be written as the year 1, or as 1970.
    seen = [time for text in given if text and (time := times.of_text(text)[0]) > 0]
    if not seen and event.metadata.creation_timestamp:
        seen = [times.of_text(event.metadata.creation_timestamp)[0]]
    return (min(seen), max(seen)) if seen else (-1, -1)


def _of_flink(about: _Referenced) -> bool:
    """Whether the object is a resource of Flink's operator, or belongs to a cluster of Flink or to the operator."""
    labels = about.labels or {}
    return (
        about.kind.startswith("Flink")
        or labels.get("component") in _COMPONENTS
        or str(labels.get("type", "")).startswith("flink-")
        or _CONTAINERS in (about.field_path or "")
        or _ROLE.search(about.name) is not None
        or about.name.startswith(_OPERATOR)
    )


def _app(about: _Referenced) -> str:
    """The cluster-id: the operator gives its pods the name of the deployment as label app."""
    labels = about.labels or {}
    if about.kind == "FlinkSessionJob":
        return next((v for k in _SESSION if isinstance(v := labels.get(k), str)), "")
    if about.kind.startswith("Flink"):
        return about.name
    own = labels.get("app")
    if isinstance(own, str):
        return own
    if (role := _ROLE.search(about.name)) is not None:
        return about.name[: role.start()]
    return _GENERATED.sub("", about.name) if about.kind in ("Pod", "ReplicaSet") else about.name
