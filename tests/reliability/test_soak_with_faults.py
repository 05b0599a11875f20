"""A long run in which something breaks every half minute: nothing is lost, told out of order or told again.

`FLINKWATCH_SOAK_MINUTES` is how long it takes, at fifty times the speed at which it happened. A job that ends is
started again, as Kubernetes or systemd would. The faults and figures are shown with `--log-cli-level=INFO`.
"""

import itertools
import logging
import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from detectors.incident import Transition
from tests.bench.usage import tree
from tests.e2e.harness import Installation
from tests.embedded.broker import Broker
from tests.embedded.job_process import JobProcess, JobProcessError
from tests.fake_slack.server import TOKEN, SlackServer
from tests.reliability.history import judge
from tests.reliability.test_soak import EXPIRES_EVERY_S, play

_log = logging.getLogger(__name__)

MINUTES = float(os.environ.get("FLINKWATCH_SOAK_MINUTES", "10"))
SPEED = 50
HOURS = MINUTES * SPEED / 60
FAULT_EVERY_S = 30.0
# A starved machine has a backlog in the end.
_READ_WITHIN_S = 1_200.0
_EXPIRED = re.compile(r"Checkpoint \d+ of job \w+ expired")

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(MINUTES * 60 + 3_000)]


class Breaker:
    """Breaks one thing after the other, in an order that the seed decides; each at least once in a run of 5 minutes."""

    def __init__(self, here: Installation, broker: Broker, slack: SlackServer, seed: int) -> None:
        self._here = here
        self._broker = broker
        self._slack = slack
        self._random = random.Random(seed)
        self.done: Counter[str] = Counter()

    def faults(self) -> Iterator[Callable[[], None]]:
        every = [
            self.broker_away,
            self.jvm_frozen,
            self.worker_killed,
            self.job_killed,
            self.slack_limits,
            self.slack_fails,
            self.slack_hangs,
            self.hostile_records,
        ]
        while True:
            yield from self._random.sample(every, len(every))

    def broker_away(self) -> None:
        self._broker.kill()
        time.sleep(5)
        self._broker.restart()

    def jvm_frozen(self) -> None:
        if jvm := self._processes("java"):
            os.kill(jvm[0], signal.SIGSTOP)
            time.sleep(10)
            with suppress(ProcessLookupError):
                os.kill(jvm[0], signal.SIGCONT)

    def worker_killed(self) -> None:
        # The first is the driver.
        if workers := self._processes("python")[1:]:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(workers), signal.SIGKILL)

    def job_killed(self) -> None:
        self._here.job.kill()

    def slack_limits(self) -> None:
        self._slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "5"}, error="ratelimited")

    def slack_fails(self) -> None:
        self._slack.fail_next("chat.update", status=500, times=3)

    def slack_hangs(self) -> None:
        self._slack.fail_next("chat.postMessage", silent_s=20)

    def hostile_records(self) -> None:
        here, nested = self._here, b'{"a":' * 2_000 + b"1" + b"}" * 2_000
        values = [b"\0" * 300_000, b"{" + b"\1" * 200_000, nested, self._random.randbytes(10_000)]
        # As its neighbours are dated: by the clock of the machine it would be far ahead of them.
        producer = KafkaProducer(bootstrap_servers=here.bootstrap, max_request_size=4_000_000)
        for topic, value in itertools.product((here.logs, here.metrics, f"{here.prefix}.config"), values):
            if not (topic.endswith(".config") and len(value) > 100_000):
                producer.send(topic, key=b"detectors", value=value, timestamp_ms=1)
        producer.close()

    def _processes(self, name: str) -> list[int]:
        return [process.pid for process in tree(self._here.job.pid) if process.name.startswith(name)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    """One that may be killed."""
    with Broker() as running:
        yield running


def test_nothing_is_lost_or_told_again_while_something_breaks_every_half_minute(broker: Broker, tmp_path: Path) -> None:
    here = Installation(broker.bootstrap, tmp_path, "soak", {"trigger": "1s"})
    here.create_inputs()
    begins = int(time.time() - HOURS * 3600) * 1000
    # It may be asked whether a message exists: an answer that was lost doubles nothing.
    with SlackServer() as slack:
        told = {"enabled": True, "channel": slack.channel_id("flink-alerts"), "base_url": slack.base_url}
        configuration = {**here.configuration, "sinks": {"slack": {**told, "charts": False}}}
        here.job = JobProcess(tmp_path, configuration, environment={"SLACK_BOT_TOKEN": TOKEN})
        here.job.start()
        here.job.await_ready()
        breaker = Breaker(here, broker, slack, seed=12)
        starts = _run(here, breaker, begins)
        slack.forgive()
        _await_resolved(here)
        here.wait_for(lambda: not judge(here.transitions(), slack.calls, slack.parents()).lost)
        assert here.job.terminate() == 0, here.job.log_tail()
        verdict = judge(here.transitions(), slack.calls, slack.parents())
    said = here.transitions()
    counts = Counter(t.transition for t in said)
    _log.info("%s, %s starts, %s; %s", dict(breaker.done), starts, dict(counts), verdict)
    assert len(_expired(said)) == _expected()
    assert _open(said) == []
    assert verdict.out_of_order == []
    assert sum(verdict.doubled.values()) <= starts
    assert min(breaker.done.values()) >= 1


def _run(here: Installation, breaker: Breaker, begins: int) -> int:
    """Play to the end while things break; how often the job was started again."""
    ended = threading.Event()
    writer = threading.Thread(target=play, args=(here, begins, ended, HOURS, SPEED))
    writer.start()
    starts, faults, next_fault = 0, breaker.faults(), time.monotonic() + FAULT_EVERY_S
    try:
        while writer.is_alive():
            writer.join(1)
            if here.job.exit_status() is not None:
                _log.info("the job ended: %s", here.job.log_tail(1))
                here.job.start()
                starts += 1
            if time.monotonic() >= next_fault:
                fault = next(faults)
                _log.info("%s", fault.__name__)
                fault()
                breaker.done[fault.__name__] += 1
                next_fault = time.monotonic() + FAULT_EVERY_S
    finally:
        ended.set()
        writer.join()
    return starts


def _await_resolved(here: Installation) -> None:
    """Wait until all that was to be found was found and has ended; fails with what was not."""
    try:
        here.wait_for(lambda: _resolved(here), _READ_WITHIN_S)
    except JobProcessError as error:
        said = here.transitions()
        lines = [value.decode(errors="replace") for value in here.values("in.logs")]
        written = {found[0] for line in lines if (found := _EXPIRED.search(line))}
        missing = sorted(written - _expired(said))
        of = f"{len(missing)} of {len(written)} expired checkpoints were not found: {missing}"
        pytest.fail(f"{of}; open incidents: {_open(said)}; {error}")


def _resolved(here: Installation) -> bool:
    """Whether all that was to be found was found, and has ended."""
    if here.job.exit_status() is not None:
        here.job.start()
    with suppress(KafkaError):
        said = here.transitions()
        return len(_expired(said)) >= _expected() and not _open(said)
    return False


def _expired(said: Iterable[Transition]) -> set[str]:
    """Every expired checkpoint that an incident has as evidence, by job and number.

    Incidents may be fewer, since one that comes again soon is the same, or more: a broker that is away for five seconds
    is four minutes without data here.
    """
    return {found[0] for t in said for e in t.evidence if (found := _EXPIRED.search(e.text))}


def _open(said: Iterable[Transition]) -> list[str]:
    """Incidents of a checkpoint that have not ended."""
    newest = {t.incident: t for t in said}
    return [i for i, t in newest.items() if t.transition != "resolved" and _expired([t])]


def _expected() -> int:
    """How often a checkpoint expires."""
    return int(HOURS * 3600 - EXPIRES_EVERY_S / 2) // EXPIRES_EVERY_S + 1
