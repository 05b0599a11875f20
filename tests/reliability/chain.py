"""One installation whose deliverers are killed one after another while incidents go on: a chain of lives."""

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from kafka import KafkaAdminClient, KafkaProducer

from detectors.incident import Silenced, Transition
from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.topics import TopicNames, ensure_topics
from tests.fake_slack.server import Call, SlackServer
from tests.reliability.deliverer import IN_PROCESS, Deliverer, configuration
from tests.reliability.history import Verdict, judge, shows
from tests.unit.sinks.samples import make_transition

_numbers = itertools.count(1)
_PAUSE_S = 0.05
# A busy machine takes its time; a step that never comes is what these bounds are for.
START_S = 180.0
STEP_S = 120.0
SILENCE = Silenced("a1", 1 << 42, "ann", "backfill")


class Chain:
    """Topics of its own, a Slack of its own, and incidents that open, change and end by a seed."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        seed: int,
        *,
        may_look_up: bool = True,
        silences: bool = False,
        **slack: Any,
    ) -> None:
        self.seed = seed
        self._silences = silences
        self._silenced: set[str] = set()
        self.kills = 0
        self.produced: list[Transition] = []
        self._random = random.Random(seed)
        self._open: dict[str, int] = {}
        self._victim: Deliverer | None = None
        self._strikes_after = 0
        self.slack = SlackServer(on_call=self._called)
        self._id = self.slack.channel_id("flink-alerts")
        if not may_look_up:
            self.slack.fail_next("conversations.history", error="missing_scope", times=1_000_000)
        self._access = KafkaAccess(bootstrap_servers=bootstrap)
        self.topics = TopicNames(prefix=f"chain{next(_numbers)}", partitions=2)
        # The channel by its ID, so that a message can be looked up before any was answered.
        self._configuration = configuration(
            bootstrap, self.topics.prefix, self.slack.base_url, **{"channel": self._id, **slack}
        )
        self._folder = folder / self.topics.prefix
        self._folder.mkdir()
        with closing(KafkaAdminClient(**client_options(self._access))) as admin:
            ensure_topics(admin, self.topics, create=True)
        self._producer = KafkaProducer(**client_options(self._access))
        self._alive: list[Deliverer] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        for one in self._alive:
            one.kill()
        self._producer.close(timeout=2)
        self.slack.close()

    def start(self, point: str = "", count: int = 1, **options: int) -> Deliverer:
        one = Deliverer(self._folder, self._configuration, point, count, **options)
        self._alive.append(one)
        return one

    def begin(self) -> None:
        """A first run without transitions, since incidents older than the notification log are not all sent."""
        first = self.start()
        # Once for each partition.
        self.wait_for(lambda: first.log_tail(100).count("notification log is empty") == 2, first, within=START_S)
        assert first.terminate() == 0, first.log_tail()

    def told(self, method: str = "chat.postMessage") -> int:
        """How often Slack was called so."""
        return sum(call.method == method for call in list(self.slack.calls))

    def say(self, count: int = 1) -> None:
        """The job writes so many transitions: an incident opens, or one that is open changes or ends."""
        for _ in range(count):
            if not self._open or self._random.random() < 0.4:
                incident, seq, change = f"incident-{len(self.produced)}", 1, "opened"
            else:
                incident = self._random.choice(sorted(self._open))
                seq, change = self._open[incident] + 1, self._random.choice(["updated", "updated", "resolved"])
            if change == "resolved":
                del self._open[incident]
            else:
                self._open[incident] = seq
            if self._silences and self._random.random() < 0.3:
                self._silenced ^= {incident}
            silence = SILENCE if incident in self._silenced else None
            self.tell(make_transition(incident=incident, seq=seq, transition=change, silence=silence))
        self._producer.flush(timeout=STEP_S)

    def tell(self, one: Transition) -> None:
        """This transition."""
        self.produced.append(one)
        self._producer.send(self.topics.incidents, key=one.incident.encode(), value=msgspec.json.encode(one))

    def delete_notification_log(self) -> None:
        """As an operator may by mistake. Returns when the brokers no longer list it."""
        with closing(KafkaAdminClient(**client_options(self._access))) as admin:
            admin.delete_topics([self.topics.deliveries])
            deadline = time.monotonic() + STEP_S
            while self.topics.deliveries in admin.list_topics():
                assert time.monotonic() < deadline
                time.sleep(_PAUSE_S)

    def live_until_killed(self, point: str) -> None:
        """A deliverer's life: incidents go on until it is dead."""
        count = self._random.randint(1, 6)
        if point == "during a rebalance":
            self._die_in_a_rebalance()
        elif point in IN_PROCESS:
            self._watch_die(self.start(point, count))
        else:
            victim = self.start()
            self.strike(victim, count)
            self._watch_die(victim)
        self.kills += 1

    def strike(self, victim: Deliverer, count: int = 1) -> None:
        """Kills it when Slack has taken its count-th call from now on and has not answered."""
        with self._lock:
            self._victim, self._strikes_after = victim, count

    def finish(self, last: Deliverer | None = None) -> Verdict:
        """A last deliverer, a new one if none is given, tells the rest and one change more, and ends in order."""
        last = last or self.start()
        self.say()
        try:
            self.wait_for(lambda: not self.verdict().lost, last)
        except AssertionError as error:
            raise AssertionError(f"{self.verdict()}\n{error}") from None
        status = last.terminate()
        assert status == 0, f"exit status {status}\n{last.log_tail()}"
        return self.verdict()

    def verdict(self) -> Verdict:
        """What the history so far is worth."""
        return judge(self.produced, self.slack.calls, self.slack.parents())

    def was_silent(self) -> bool:
        """Whether there is an incident that was to be told to nobody, and was not."""
        told = {one.incident for one in self.produced if one.silence is None}
        return bool({one.incident for one in self.produced} - told - shows(self.slack.parents()).keys())

    def wait_for(self, met: Callable[[], bool], alive: Deliverer, within: float = STEP_S) -> None:
        deadline = time.monotonic() + within
        while not met():
            assert not alive.ended(), f"seed {self.seed}: the deliverer ended:\n{alive.log_tail()}"
            assert time.monotonic() < deadline, f"seed {self.seed}: not within {within} s:\n{alive.stacks()}"
            time.sleep(0.02)

    def _watch_die(self, one: Deliverer, within: float = START_S) -> None:
        deadline = time.monotonic() + within
        while not one.ended(_PAUSE_S):
            assert time.monotonic() < deadline, f"seed {self.seed}: it did not get there:\n{one.stacks()}"
            self.say()
        assert one.exit_status() == -signal.SIGKILL, one.log_tail()

    def _die_in_a_rebalance(self) -> None:
        """One delivers, a second joins: the first dies when its partitions are taken away."""
        first = self._alive[-1] if self._alive and not self._alive[-1].ended() else self.start("during a rebalance")
        told = len(self.slack.calls)
        deadline = time.monotonic() + START_S
        while len(self.slack.calls) < told + 3:
            self.say()
            assert not first.ended(_PAUSE_S), first.log_tail()
            assert time.monotonic() < deadline, f"seed {self.seed}: it told nothing:\n{first.log_tail()}"
        self.start("during a rebalance")
        self._watch_die(first)

    def _called(self, call: Call) -> None:
        """In the thread of the request: the answer is decided and not yet sent."""
        with self._lock:
            if self._victim is None or call.method == "conversations.history":
                return
            self._strikes_after -= 1
            if self._strikes_after <= 0:
                os.kill(self._victim.pid, signal.SIGKILL)
                self._victim = None
