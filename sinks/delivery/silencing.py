"""Silences of one incident, from Slack or the command line: records of the configuration topic, as all silences."""

import threading
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

import msgspec
import structlog
from pydantic import ValidationError

from detectors.incidents.silences import Silence, at
from detectors.settings.live import SILENCE_KEY, publish_silence
from detectors.values.durations import format_duration, parse_duration
from detectors.values.name_pattern import exactly
from sinks.contract.action_request import UNTIL_RESOLVED, ActionError, ActionRequest
from sinks.prometheus.incident_metrics import OpenIncident

log = structlog.get_logger()

Write = Callable[[bytes, bytes], None]
"""Writes a record of the configuration topic, with key and value. Raises kafka.errors.KafkaError."""

_UNTIL_RESOLVED_ID = "until-resolved-"
_encode = msgspec.json.Encoder().encode


class SilenceBook:
    """The silences of the topic that have not ended, by ID. Safe to use from several threads."""

    def __init__(self, write: Write, longest: int, now_ms: Callable[[], int]) -> None:
        """`longest` is the limit for a silence, in ms."""
        self._write, self._longest, self._now_ms = write, longest, now_ms
        self._lock = threading.Lock()
        self._silences: dict[str, Silence] = {}

    def add(self, silence: Silence) -> None:
        """Takes note of a record of the topic."""
        with self._lock:
            if silence.edges()[1] > self._now_ms():
                self._silences[silence.id] = silence
            else:
                self._silences.pop(silence.id, None)

    def make(self, request: ActionRequest, incident: OpenIncident) -> Silence:
        """Silences incidents like this one, for as long as was asked. Raises ActionError, KafkaError."""
        silence = self._silence(request, incident)
        if silence.edges()[1] <= self._now_ms():
            raise ActionError("The silence would have ended already.")
        self._publish(silence, request.person)
        return silence

    def end(self, identifier: str, person: str) -> Silence:
        """Raises ActionError, KafkaError."""
        with self._lock:
            silence = self._silences.get(identifier)
        if silence is None or silence.edges()[1] <= self._now_ms():
            raise ActionError(
                f"There is no silence {identifier} that could be ended here. It has ended already, or it is in the "
                "configuration file: then remove it from the section `silences`."
            )
        ended = silence.ended(self._now_ms())
        self._publish(ended, person)
        return ended

    def end_resolved(self, open_incidents: Iterable[str]) -> None:
        """Ends each silence that was to last until its incident resolves, once it has. Raises KafkaError."""
        kept = {until_resolved_id(incident) for incident in open_incidents}
        with self._lock:
            ids = [one for one in self._silences if one.startswith(_UNTIL_RESOLVED_ID) and one not in kept]
        for identifier in ids:
            try:
                self.end(identifier, "flinkwatch")
            except ActionError:
                continue
            log.info("silence ended with its incident", silence=identifier)

    def _publish(self, silence: Silence, by: str) -> None:
        record = publish_silence(silence, self._now_ms(), by)
        self._write(SILENCE_KEY + silence.id.encode(), _encode(record))
        self.add(silence)

    def _silence(self, request: ActionRequest, incident: OpenIncident) -> Silence:
        kind, _, cluster, job = incident.labels
        fields: dict[str, object] = {"author": request.person}
        if request.choice == UNTIL_RESOLVED:
            fields |= {"id": until_resolved_id(request.incident), "until": at(request.at + self._longest)}
            fields["comment"] = f"until incident {request.incident} resolves, from Slack"
        else:
            fields["until"] = at(request.at + self._lasting(request.choice))
            fields["comment"] = f"incident {request.incident}, from Slack"
        try:
            # The ID depends on the content alone, so a request that arrives twice makes one silence.
            return silence_like(kind, cluster, job, fields)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise ActionError(f"This incident cannot be silenced from here: its {where} is too long.") from None

    def _lasting(self, choice: str) -> int:
        try:
            lasting = parse_duration(choice)
        except ValueError:
            raise ActionError("This is no duration of a silence.") from None
        if not 0 < lasting <= self._longest:
            raise ActionError(f"A silence may last {format_duration(self._longest)} at most (sinks.max_silence).")
        return lasting


def silence_like(kind: str, cluster: str, job: str, fields: Mapping[str, object]) -> Silence:
    """A silence of this kind in this cluster and job alone. Raises pydantic.ValidationError if a name is too long."""
    return Silence.model_validate({"cluster": exactly(cluster), "job": exactly(job), "kinds": (kind,), **fields})


def until_resolved_id(incident: str) -> str:
    """The ID of the silence that ends with an incident. Another such silence replaces it."""
    return _UNTIL_RESOLVED_ID + sha256(incident.encode("utf-8", "replace")).hexdigest()[:12]
