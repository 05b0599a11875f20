"""`bin/demo`: plays a recorded incident into an embedded Kafka broker and shows the messages for it."""

import queue
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, Self

from kafka.errors import KafkaError, KafkaTimeoutError
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from detectors.events.event import Record
from detectors.incident import Transition, decode_transition
from sinks.contract.site_links import incident_url
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import partitions_of, read_to_end
from sinks.kafka.topics import TopicNames
from streaming.errors import UserError
from streaming.recordings.play import create_topics, find_scenario, records_to_play
from streaming.terminal import Console
from streaming.threads import Stop
from tests.demo.playback import Playback
from tests.demo.settled import Settled
from tests.demo.stack import CHANNEL, Stack
from tests.demo.terminal_message import as_terminal
from tests.embedded.broker import BrokerError
from tests.embedded.job_process import JobProcessError
from tests.fake_slack.server import Call

PREFIX = "flinkwatch"
# Long enough for a busy machine; anything slower has failed.
_START_WITHIN_S = 600.0
_SETTLED_WITHIN_S = 600.0
_ASK_EVERY_S = 0.5
_WIDTH = 100
# Other calls only prepare a message or a chart.
_VERBS = {"chat.postMessage": "posts", "chat.update": "edits"}


class ShownCall(NamedTuple):
    """A call of Slack's API, and the incident and number of the transition that it shows (empty and 0 in a thread)."""

    call: Call
    incident: str
    seq: int


class ShownMessage(NamedTuple):
    """A message and the transition that it shows."""

    shown: ShownCall
    transition: Transition


Transitions = dict[tuple[str, int], Transition]


def run_demo(scenario: str, speed: float, keep: bool) -> int:
    """Run the demo. Returns the exit status: 0 if the alert was delivered, 130 after Ctrl-C, else 1."""
    recording = find_scenario(scenario)
    records = records_to_play(recording, "flink.logs", "flink.metrics")
    stop = Stop()
    stop.install()
    demo = _Demo(Console(), stop, records)
    try:
        return demo.run(recording, speed, keep)
    except (BrokerError, JobProcessError) as error:
        raise UserError(str(error)) from error


class _Demo:
    """One run of the demo, which stops everything that it has started."""

    def __init__(self, console: Console, stop: Stop, records: list[Record]) -> None:
        self._console = console
        self._stop = stop
        self._records = records
        self._calls: queue.Queue[ShownCall] = queue.Queue()
        self._shown: list[ShownCall] = []

    def run(self, recording: Path, speed: float, keep: bool) -> int:
        """The exit status."""
        begun = time.time()
        with (
            self._console.status("starting a Kafka broker and a fake Slack") as status,
            Stack(self._called) as stack,
        ):
            create_topics(stack.broker.access, self._records)
            stack.job.start()

            def waiting() -> bool:
                status.update(f"starting the Spark job: {time.time() - begun:.0f} s, usually 20 to 60 s")
                return not self._stop.wait(0)

            stack.job.await_ready(_START_WITHIN_S, waiting)
            if self._stop.wait(0):
                return 130
            self._introduce(stack, recording, time.time() - begun, keep)
            playback = Playback(stack.broker.access, self._records, f"{PREFIX}.heartbeat", speed)
            status.update(f"playing {len(self._records)} records at {speed:g} times real time")
            with Player(playback) as player:
                self._play(player)
                status.update("waiting until all messages are delivered")
                settled = self._settle(stack, player)
                self._link_pages(stack.job.page_url)
                if keep and not self._stop.wait(0):
                    status.update("everything is still running; stop it with Ctrl-C")
                    while not self._stop.wait(0.2):
                        self._show()
            transitions = self._transitions(stack.broker.access)
            status.update("stopping everything")
        # A chart may arrive while the job stops.
        self._show()
        return self._summarise(playback, transitions, begun, settled, keep)

    def _called(self, call: Call) -> None:
        """Queue a call of Slack's API, in the server's thread."""
        payload = (call.body.get("metadata") or {}).get("event_payload") or {}
        self._calls.put(ShownCall(call, payload.get("incident", ""), payload.get("seq", 0)))

    def _introduce(self, stack: Stack, recording: Path, seconds: float, keep: bool) -> None:
        self._console.print(f"Ready after {seconds:.0f} s. Recording: {recording}")
        until = "Ctrl-C" if keep else "the end of the demo (until Ctrl-C with --keep)"
        self._console.print(f"You can open these pages until {until}:", highlight=False)
        self._console.print(f"  Slack channel   {stack.slack.url}", highlight=False)
        self._console.print(f"  status site     {stack.job.page_url}/", highlight=False)
        self._console.print(f"  metrics         {stack.job.page_url}/metrics", highlight=False)

    def _play(self, player: "Player") -> None:
        """Show calls until the last record is in Kafka."""
        while not player.played.is_set() and not self._stop.wait(0.05):
            player.check()
            self._show()

    def _settle(self, stack: Stack, player: "Player") -> bool:
        """Wait until everything that was played is processed and delivered. Returns False after a timeout."""
        settled = Settled(stack.broker.access, stack.job.page_url, TopicNames(prefix=PREFIX), "slack")
        deadline = time.monotonic() + _SETTLED_WITHIN_S
        while not self._stop.wait(_ASK_EVERY_S) and time.monotonic() < deadline:
            player.check()
            stack.job.check()
            self._show()
            if settled.now():
                return True
        return False

    def _show(self) -> None:
        while not self._calls.empty():
            shown = self._calls.get()
            self._shown.append(shown)
            self._show_call(shown.call)

    def _show_call(self, call: Call) -> None:
        in_thread = bool(call.body.get("thread_ts"))
        if call.method == "files.completeUploadExternal":
            titles = ", ".join(str(file.get("title")) for file in call.body.get("files") or [])
            self._console.print(f"[dim]in the thread, a chart:[/dim] {escape(titles)}")
        elif call.method in _VERBS and in_thread:
            self._console.print(f"[dim]in the thread:[/dim] {escape(str(call.body.get('text', '')))}")
        elif call.method in _VERBS:
            title = f"#{CHANNEL}: flinkwatch {_VERBS[call.method]}"
            self._console.print(Panel(as_terminal(call.body), title=title, title_align="left", width=_WIDTH))

    def _link_pages(self, site: str) -> None:
        """The addresses of the incidents' pages, which are open as long as the job runs."""
        for incident in dict.fromkeys(shown.incident for shown in self._shown if shown.incident):
            self._console.print(
                f"Page of the incident: {incident_url(site, incident)}", highlight=False, soft_wrap=True
            )

    def _transitions(self, access: KafkaAccess) -> Transitions:
        """Every transition of the job by incident and number, which the metadata of messages contain."""
        transitions: Transitions = {}
        with closing(clients.consumer(access)) as consumer, suppress(KafkaTimeoutError):
            for record in read_to_end(consumer, partitions_of(consumer, f"{PREFIX}.incidents"), within_s=10):
                transition = decode_transition(record.value)
                transitions[transition.incident, transition.seq] = transition
        return transitions

    def _summarise(self, playback: Playback, transitions: Transitions, begun: float, settled: bool, keep: bool) -> int:
        found = [(s, transitions.get((s.incident, s.seq))) for s in self._shown]
        messages = [ShownMessage(shown, transition) for shown, transition in found if transition is not None]
        interrupted = self._stop.wait(0) and not keep
        if not messages:
            self._console.print("Interrupted before the first alert." if interrupted else "No alert was delivered.")
            return 130 if interrupted else 1
        table = Table.grid(padding=(0, 2))
        for incident in dict.fromkeys(m.shown.incident for m in messages):
            _describe(table, [m for m in messages if m.shown.incident == incident], playback)
        minutes = playback.span_ms / 60_000
        seconds = time.time() - begun
        table.add_row("first message", f"{self._shown[0].call.at - begun:.0f} s after the start of the demo")
        table.add_row("in total", f"{playback.played} records in {seconds:.0f} s, originally {minutes:.1f} min")
        self._console.print(Panel(table, title="detected incidents", title_align="left", width=_WIDTH))
        if interrupted:
            return 130
        if not settled:
            self._console.print(
                f"Not all messages were delivered within {_SETTLED_WITHIN_S:.0f} s. Is the machine overloaded?"
            )
        return 0 if settled else 1


class Player:
    """A thread that plays the recording and then advances the stream's clock, until the `with` block ends."""

    def __init__(self, playback: Playback) -> None:
        self.played = threading.Event()
        self._playback = playback
        self._stop = threading.Event()
        self._error: KafkaError | None = None
        self.thread = threading.Thread(target=self._run, name="playback", daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.thread.join()

    def check(self) -> None:
        """Raises UserError if the recording could not be played."""
        if self._error is not None:
            raise UserError(f"the recording could not be played to its end: {self._error!r}") from self._error

    def _run(self) -> None:
        try:
            self._playback.run(self._stop)
            self.played.set()
            self._playback.send_heartbeats(self._stop)
        except KafkaError as error:
            self._error = error


def _describe(table: Table, messages: list[ShownMessage], playback: Playback) -> None:
    """Add the rows of one incident, with the delay from its last evidence to the first message with its cause."""
    last = messages[-1].transition
    first = next(m for m in messages if m.transition.cause == last.cause)
    sent = [playback.sent_at.get((e.topic, e.partition, e.offset)) for e in first.transition.evidence]
    confirmed = max((at for at in sent if at is not None), default=None)
    edits = sum(m.shown.call.method == "chat.update" for m in messages)
    table.add_row("incident", f"{last.incident}, {last.severity}, in {escape(last.cluster)}")
    table.add_row("cause", f"{last.cause}: {escape(last.summary)}")
    table.add_row("messages", f"{len(messages) - edits} posted, {edits} edits")
    if confirmed is not None:
        delay = first.shown.call.at - confirmed
        table.add_row("alert", f"{delay:.1f} s after the record that confirmed the cause")
