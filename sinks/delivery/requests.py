"""Carries out what people ask for in Slack: writes it to Kafka, from where every deliverer learns of it."""

from collections.abc import Callable

import structlog
from kafka.errors import KafkaError

from detectors.values.durations import humanize
from sinks.contract.action_request import UNTIL_RESOLVED, ActionError, ActionRequest
from sinks.contract.feedback import Answer, Feedback, Mark
from sinks.contract.wording import SEVERITY_MARKS, clock_time, kind_words
from sinks.delivery.silencing import SilenceBook
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.incident_metrics import OpenIncident

log = structlog.get_logger()

_LISTED = 20
_RANKS = {1: "info", 2: "warning", 3: "critical"}


class Requests:
    """Used from one thread."""

    def __init__(
        self,
        board: IncidentCollector,
        silences: SilenceBook,
        write: Callable[[bytes, bytes], None],
        incomplete: Callable[[], str | None],
        now_ms: Callable[[], int],
    ) -> None:
        """`write` writes a record of people's feedback, and raises KafkaError. `incomplete` gives a reason while open
        incidents may be missing in `board`.
        """
        self._board, self._silences, self._write = board, silences, write
        self._incomplete, self._now_ms = incomplete, now_ms

    def perform(self, request: ActionRequest) -> str:
        """The text for the person who asked; empty if the message itself shows it. Raises ActionError."""
        if self._incomplete() is not None:
            raise ActionError("flinkwatch has just started and does not know all incidents yet. Try again in a minute.")
        try:
            text = self._perform(request)
        except KafkaError as error:
            log.warning("a request could not be written", wish=request.wish, error=type(error).__name__)
            raise ActionError(
                f"Nothing was changed: flinkwatch cannot write to Kafka ({type(error).__name__}). Try again later."
            ) from None
        log.info("request carried out", wish=request.wish, incident=request.incident, person=request.person)
        return text

    def _perform(self, request: ActionRequest) -> str:
        match request.wish:
            case "status":
                return self._status(request.choice)
            case "end_silence":
                ended = self._silences.end(request.choice, request.person)
                return f"Silence {ended.id} has ended. Messages of its incidents follow."
            case "silence":
                return self._silence(request, self._open(request))
            case "acknowledge":
                return self._give(request, "acknowledged")
            case "not_an_incident":
                return self._give(request, "not_an_incident")
            case "withdraw":
                return self._give(request, "not_an_incident", withdrawn=True)

    def _open(self, request: ActionRequest) -> OpenIncident:
        found = self._board.open_incidents().get(request.incident)
        if found is None:
            raise ActionError(f"Incident {request.incident[:40]} is not open: it has resolved, or there is none.")
        return found

    def _silence(self, request: ActionRequest, incident: OpenIncident) -> str:
        silence = self._silences.make(request, incident)
        if request.choice == UNTIL_RESOLVED:
            until = "until the incident resolves"
        else:
            end = silence.edges()[1]
            until = f"until {clock_time(end, self._now_ms())} UTC"
        kind, _, cluster, job = incident.labels
        where = f"job {job} of cluster {cluster}" if job else f"cluster {cluster}"
        return (
            f"Silence {silence.id} mutes {kind} of {where} {until}. To undo it, use the button in the message or "
            f"flinkwatch silence expire {silence.id}"
        )

    def _give(self, request: ActionRequest, answer: Answer, *, withdrawn: bool = False) -> str:
        incident = self._open(request)
        marks = self._board.feedback.marks(request.incident)
        existing = marks.acknowledged if answer == "acknowledged" else marks.not_an_incident
        if withdrawn and existing is None:
            return "This incident is not marked."
        if not withdrawn and existing == Mark(request.person, request.at):
            return ""
        if not withdrawn and existing is not None and not request.words:
            verb = "acknowledged" if answer == "acknowledged" else "marked as not an incident"
            return f"{existing.by} has {verb} this incident at {clock_time(existing.at, self._now_ms())} UTC."
        kind, _, cluster, job = incident.labels
        feedback = Feedback(
            incident=request.incident,
            answer=answer,
            person=request.person,
            user=request.user,
            at=request.at,
            kind=kind,
            cluster=cluster,
            job=job,
            words=request.words,
            withdrawn=withdrawn,
        )
        self._write(feedback.key(), feedback.encoded())
        self._board.feedback.add(feedback)
        if answer == "acknowledged" or withdrawn or request.words:
            return ""
        return f"Noted. If you can say why, write /flinkwatch not-an-incident {request.incident} WORDS"

    def _status(self, cluster: str) -> str:
        """Open incidents, the most severe first."""
        found = [
            (-one.rank, one.times[0], name, one)
            for name, one in self._board.open_incidents().items()
            if cluster in ("", one.labels[2])
        ]
        where = f" of cluster {cluster}" if cluster else ""
        if not found:
            return f"No open incidents{where}."
        lines = [self._status_line(name, one) for _, _, name, one in sorted(found)[:_LISTED]]
        more = [f"and {len(found) - _LISTED} more"] if len(found) > _LISTED else []
        return "\n".join([f"{len(found)} open incidents{where}:", *lines, *more])

    def _status_line(self, name: str, one: OpenIncident) -> str:
        kind, severity, cluster, job = one.labels
        mark = {"critical": SEVERITY_MARKS["critical"], "warning": SEVERITY_MARKS["warning"]}.get(severity, "🔵")
        since, now = one.times[0], self._now_ms()
        acknowledged = self._board.feedback.marks(name).acknowledged
        by = f", acknowledged by {acknowledged.by}" if acknowledged is not None else ""
        silenced = ", silenced" if not one.rank else ""
        where = f"{cluster} · {job}" if job else cluster
        age = humanize(max(now - since, 0))
        return f"{mark} {kind_words(kind)} · {where} · for {age}{silenced}{by} · {name}"
