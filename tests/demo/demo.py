"""`bin/demo`: a recorded incident from Kafka to the message, before your eyes."""

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
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import partitions_of, read_to_end
from sinks.kafka.topics import TopicNames
from streaming.errors import UserError
from streaming.recordings.play import create_topics, find_scenario, records_to_play
from streaming.shutdown import Stop
from streaming.terminal import Console
from tests.demo.playback import Playback
from tests.demo.settled import Settled
from tests.demo.stack import CHANNEL, Stack
from tests.demo.terminal_message import as_terminal
from tests.embedded.broker import BrokerError
from tests.embedded.job_process import JobProcessError
from tests.fake_slack.server import Call

PREFIX = "flinkwatch"
# What takes longer than this on a busy machine has failed.
_START_WITHIN_S = 600.0
_SETTLED_WITHIN_S = 600.0
_ASK_EVERY_S = 0.5
_WIDTH = 100
# Other calls are steps on the way to a message or a picture.
_WORDS = {"chat.postMessage": "posts", "chat.update": "edits"}


class Shown(NamedTuple):
    """A call of Slack, and the incident and the number of the transition it tells; empty and 0 for a line in a
    thread.
    """

    call: Call
    incident: str
    seq: int


class Told(NamedTuple):
    """A message, and the transition it tells."""

    shown: Shown
    transition: Transition


Said = dict[tuple[str, int], Transition]


def run_demo(scenario: str, speed: float, keep: bool) -> int:
    """Run it; the exit status: 0 only when the alert came, 130 after Ctrl-C."""
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
    """One run of the demo; everything it starts ends with it."""

    def __init__(self, console: Console, stop: Stop, records: list[Record]) -> None:
        self._console = console
        self._stop = stop
        self._records = records
        self._calls: queue.Queue[Shown] = queue.Queue()
        self._shown: list[Shown] = []

    def run(self, recording: Path, speed: float, keep: bool) -> int:
        """The exit status."""
        begun = time.time()
        with (
            self._console.status("starting a Kafka broker and a Slack stand-in") as status,
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
            status.update(f"playing {len(self._records)} records, {speed:g} times faster than they happened")
            with Player(playback) as player:
                self._play(player)
                status.update("waiting until everything is delivered")
                settled = self._settle(stack, player)
                if keep and not self._stop.wait(0):
                    status.update("keeping everything running; Ctrl-C stops it")
                    while not self._stop.wait(0.2):
                        self._show()
            said = self._said(stack.broker.access)
            status.update("stopping everything")
        # A chart may come while the job ends.
        self._show()
        return self._summarise(playback, said, begun, settled, keep)

    def _called(self, call: Call) -> None:
        """Slack was called: on the server's thread."""
        payload = (call.body.get("metadata") or {}).get("event_payload") or {}
        self._calls.put(Shown(call, payload.get("incident", ""), payload.get("seq", 0)))

    def _introduce(self, stack: Stack, recording: Path, seconds: float, keep: bool) -> None:
        self._console.print(f"Ready after {seconds:.0f} s. Recording: {recording}")
        until = "Ctrl-C" if keep else "the end of the demo (--keep: until Ctrl-C)"
        self._console.print(f"Open until {until}:", highlight=False)
        self._console.print(f"  Slack channel   {stack.slack.url}", highlight=False)
        self._console.print(f"  metrics         {stack.job.page_url}/metrics", highlight=False)

    def _play(self, player: "Player") -> None:
        """Until the last record is in Kafka."""
        while not player.played.is_set() and not self._stop.wait(0.05):
            player.check()
            self._show()

    def _settle(self, stack: Stack, player: "Player") -> bool:
        """Wait until everything that was played is decided and delivered; whether it is."""
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
        elif call.method in _WORDS and in_thread:
            self._console.print(f"[dim]in the thread:[/dim] {escape(str(call.body.get('text', '')))}")
        elif call.method in _WORDS:
            title = f"#{CHANNEL}: flinkwatch {_WORDS[call.method]}"
            self._console.print(Panel(as_terminal(call.body), title=title, title_align="left", width=_WIDTH))

    def _said(self, access: KafkaAccess) -> Said:
        """Every transition the job has said, by incident and number: the messages name them."""
        said: Said = {}
        with closing(clients.consumer(access)) as consumer, suppress(KafkaTimeoutError):
            for record in read_to_end(consumer, partitions_of(consumer, f"{PREFIX}.incidents"), within_s=10):
                transition = decode_transition(record.value)
                said[transition.incident, transition.seq] = transition
        return said

    def _summarise(self, playback: Playback, said: Said, begun: float, settled: bool, keep: bool) -> int:
        told = [Told(s, said[s.incident, s.seq]) for s in self._shown if (s.incident, s.seq) in said]
        interrupted = self._stop.wait(0) and not keep
        if not told:
            self._console.print("Interrupted before an alert came." if interrupted else "No alert came.")
            return 130 if interrupted else 1
        table = Table.grid(padding=(0, 2))
        for incident in dict.fromkeys(t.shown.incident for t in told):
            _describe(table, [t for t in told if t.shown.incident == incident], playback)
        minutes = playback.span_ms / 60_000
        seconds = time.time() - begun
        table.add_row("first message", f"{self._shown[0].call.at - begun:.0f} s after the start of the demo")
        table.add_row("in all", f"{playback.played} records in {seconds:.0f} s; when it happened, in {minutes:.1f} min")
        self._console.print(Panel(table, title="what was found", title_align="left", width=_WIDTH))
        if interrupted:
            return 130
        if not settled:
            self._console.print(f"Not everything was delivered within {_SETTLED_WITHIN_S:.0f} s: is the machine busy?")
        return 0 if settled else 1


class Player:
    """A thread that plays the recording and then keeps the stream's clock going, until the `with` block ends."""

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
            raise UserError(f"the recording was not played to its end: {self._error!r}") from self._error

    def _run(self) -> None:
        try:
            self._playback.run(self._stop)
            self.played.set()
            self._playback.go_on(self._stop)
        except KafkaError as error:
            self._error = error


def _describe(table: Table, told: list[Told], playback: Playback) -> None:
    """The rows of one incident: what it is, and how long after its proof the first message named the cause."""
    last = told[-1].transition
    first = next(t for t in told if t.transition.cause == last.cause)
    sent = [playback.sent_at.get((e.topic, e.partition, e.offset)) for e in first.transition.evidence]
    confirmed = max((at for at in sent if at is not None), default=None)
    edits = sum(t.shown.call.method == "chat.update" for t in told)
    table.add_row("incident", f"{last.incident}, {last.severity}, in {escape(last.cluster)}")
    table.add_row("cause", f"{last.cause}: {escape(last.summary)}")
    table.add_row("messages", f"{len(told) - edits} posted, {edits} edits")
    if confirmed is not None:
        delay = first.shown.call.at - confirmed
        table.add_row("alert", f"{delay:.1f} s after the record that confirmed the cause")
