"""Kafka brokers cannot be reached by Flink's processes.

Opens when one client has logged `Connection to node … could not be established` (or `socket connection setup timeout`)
at least `min_lines` times over `min_duration`, and at once when a failure states it: `Expiring N record(s) … has passed
since batch creation`, `Timed out waiting for a node assignment`, `Timeout expired while fetching topic metadata`. One
finding for the cluster, with the brokers. While clients have connections to other brokers (`connection_count`), it must
last for `partial_duration` and is a warning; else it is critical.

Not reported: a few lines at the start of a job or a broker; a broker that is back within seconds. Resolved when a
checkpoint completes or a client has a connection, and no such line has come for `quiet_for`: with a source that reads
nothing checkpoints complete during the outage too. Also resolved when the last job was cancelled or has finished.

Why it matters: nothing else reports it. The sources wait as if there was no input, and a sink blocks until checkpoints
expire. Reference: Kafka, `delivery.timeout.ms`, `reconnect.backoff.max.ms`, `socket.connection.setup.timeout.ms`.
"""

import re
from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.job_states import ACTIVE
from detectors.incident import Evidence, Finding
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_CLIENTS, _MAX_BROKERS, _MAX_RECORDS, _MAX_NAMED = 200, 50, 5, 10
_MAX_DELIVERY_MS = 3_600_000
# A connection whose broker has just gone may still count.
_SETTLED_MS = 10_000
_EXPIRED = re.compile(r"Expiring [0-9]{1,9} record\(s\) for (?P<topic>\S{1,249}):(?P<ms>[0-9]{1,9}) ms has passed")
_STATED = (
    "Timed out waiting for a node assignment",
    "Timeout expired while fetching topic metadata",
    "Failed to get metadata for topics",
)

_View: TypeAlias = "View[BrokerUnreachable.Config, BrokerUnreachable.State]"


class WaitingClient(msgspec.Struct, array_like=True):
    """A client that cannot connect: event times of its first and last line, and their number."""

    since: int
    last: int
    lines: int
    record: Evidence


class BrokerUnreachable(Detector):
    """Detects Kafka brokers that Flink's processes cannot reach."""

    kind = "broker_unreachable"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `broker_unreachable`."""

        min_lines: int = threshold(5, "Number of lines of one client from which a broker counts as unreachable.", ge=2)
        min_duration: Duration = threshold(
            30_000,
            "Minimum time between the first and the last of these lines. The default is Kafka's request.timeout.ms: a "
            "broker that is restarted and back before that fails no request.",
        )
        partial_duration: Duration = threshold(
            120_000,
            "The same while clients are connected to other brokers: brokers that are restarted one by one are back "
            "before that.",
        )
        quiet_for: Duration = threshold(
            60_000, "Time without such a line from which a completed checkpoint or a connection resolves the finding."
        )

    class State(msgspec.Struct, array_like=True):
        """Clients by source and name, brokers with the event time of their last line, and what a failure stated.

        `since` is 0 without an open finding, `last` the event time of the last sign, `shown` what was reported.
        `connected` and `alone` are event times of the last sample of a client with and without a connection.
        """

        clients: dict[str, WaitingClient] = {}
        brokers: dict[str, int] = {}
        stated: str = ""
        since: int = 0
        last: int = LONG_AGO
        shown: str = ""
        connected: int = LONG_AGO
        alone: int = LONG_AGO
        ended: int = LONG_AGO
        records: list[Evidence] = []

    config: Config

    @on(facts.BrokerNotReached)
    def not_reached(self, view: _View, fact: facts.BrokerNotReached) -> None:
        state, time = view.state, view.time
        if time <= state.ended:
            return
        if not state.since and time - state.last > self.config.quiet_for:
            state.clients.clear()
            state.brokers.clear()
        key = f"{view.event.source}|{fact.client}"
        client = state.clients.get(key)
        if client is None or time - client.last > self.config.quiet_for:
            client = WaitingClient(time, time, 0, view.record())
        client.since, client.last, client.lines = min(client.since, time), max(client.last, time), client.lines + 1
        put_bounded(state.clients, key, client, _MAX_CLIENTS)
        put_bounded(state.brokers, fact.broker, time, _MAX_BROKERS)
        state.last = max(state.last, time)
        wanted = self.config.partial_duration if _partial(state, client.since) else self.config.min_duration
        if client.lines >= self.config.min_lines and client.last - client.since >= wanted:
            self._report(view, client.since, client.record)

    @on(facts.Failure)
    def failed(self, view: _View, fact: facts.Failure) -> None:
        state, texts = view.state, (fact.message, fact.first)
        if fact.again or view.time <= state.ended or not fact.name.endswith("TimeoutException"):
            return
        since = view.time
        if (expired := _EXPIRED.search(fact.message)) is not None:
            took = min(int(expired["ms"]), _MAX_DELIVERY_MS)
            since, state.stated = since - took, f"records for {expired['topic']} were not accepted for {humanize(took)}"
        elif stated := next((s for s in _STATED if any(s in text for text in texts)), ""):
            state.stated = f"a request failed: {stated}"
        else:
            return
        state.last = max(state.last, view.time)
        self._report(view, since, view.record(fact.thrown[:500]))

    @on("kafka_connections")
    def connections(self, view: _View, samples: list[Sample]) -> None:
        state = view.state
        if any(sample.value == 0 for sample in samples):
            state.alone = max(state.alone, view.time)
        if any(sample.value > 0 for sample in samples):
            state.connected = max(state.connected, view.time)
            self._works(view, "a client is connected again")

    @on(facts.CheckpointCompleted)
    def completed(self, view: _View, fact: facts.CheckpointCompleted) -> None:
        self._works(view, f"checkpoint {fact.number} completed")

    @on(facts.JobStateChanged)
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        running = any(job.state in ACTIVE for job in view.topology.jobs.values())
        if fact.state in ("CANCELED", "FINISHED") and not running and view.state.since:
            self._close(view, f"the last job is {fact.state}")

    def _works(self, view: _View, what: str) -> None:
        """Something works: this ends the finding if the lines have stopped."""
        state = view.state
        if state.since and (quiet := view.time - state.last) >= self.config.quiet_for:
            self._close(view, f"{what}, {humanize(quiet)} after the last failed connection")

    def _report(self, view: _View, since: int, record: Evidence) -> None:
        state = view.state
        state.since = min(state.since or since, since)
        shown = f"{_partial(state, state.since)} {state.stated} {sorted(state.brokers)}"
        if shown != state.shown:
            state.shown = shown
            append_new(state.records, record, _MAX_RECORDS)
            view.report(self._finding(view))

    def _close(self, view: _View, why: str) -> None:
        state = view.state
        view.close(self._finding(view), why)
        state.clients.clear()
        state.brokers.clear()
        state.stated, state.shown, state.since, state.ended, state.records = "", "", 0, view.time, []

    def _finding(self, view: _View) -> Finding:
        state = view.state
        partial, names = _partial(state, state.since), sorted(state.brokers)
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        clients = f"{len(state.clients)} client{'s' * (len(state.clients) != 1)} cannot connect to {shown}"
        reasons = [text for text in (clients if names else "", state.stated) if text]
        others = ", but to other brokers" if partial and names else ""
        job, name = view.topology.only_job()
        return view.finding(
            "Kafka",
            {"job_id": job, "job_name": name, "broker": ", ".join(names[:_MAX_NAMED])},
            since=state.since,
            severity="warning" if partial else "critical",
            summary=f"Kafka brokers are unreachable: {'; '.join(reasons)}{others}",
            confidence="sure" if names else "fair",
            evidence=state.records,
            advice="Check whether these brokers run and whether Flink's hosts can reach their advertised listeners "
            "(DNS, firewall, TLS). Leave the jobs running: sources continue where they were, and clients "
            "connect again by themselves. A sink whose transactions are older than transaction.timeout.ms fails "
            "afterwards. To prevent it: several brokers with a replication factor of at least 3, several addresses in "
            "bootstrap.servers, and a delivery.timeout.ms longer than an outage that you expect.",
        )


def _partial(state: BrokerUnreachable.State, since: int) -> bool:
    """Whether all clients with metrics have a connection, although some broker cannot be reached since then."""
    return state.connected >= since + _SETTLED_MS and state.alone < since
