"""What delivery costs: `python tests/bench/delivery.py [--incidents N] [--jobs N] [--seconds S]`.

`flinkwatch deliver` as a user starts it, on a real broker, with a fake Slack that never limits. Topics hold N open
incidents that were notified before, so the process has them all in its collector and its notification log, and nothing
to send. Measured are its resident memory, then the time from a new incident's record to Slack's call, one about every
second, and last, with the readings of so many jobs and twice as many TaskManagers, a scrape (the best of seven counts,
because other work disturbs it). The last line is JSON.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
import yaml
from kafka import KafkaAdminClient, KafkaProducer

from detectors.incident import Reading, Series, Transition
from sinks.delivery.notification_log import Entry
from sinks.kafka.topics import TopicNames, ensure_topics
from sinks.prometheus.catalogue import READINGS
from tests.bench.latency import Arrivals, quantile
from tests.embedded.broker import DIE_WITH_PARENT, Broker
from tests.embedded.job_process import free_port
from tests.fake_slack.server import TOKEN, Call, SlackServer
from tests.unit.sinks.samples import late_acks_finding, make_transition, overdue_finding

PROJECT = Path(__file__).parents[2]
TOPICS = TopicNames()
START_MS = 1_772_373_780_000
WARM_UP = 5
JOBS = 2_000
GOALS = {"rss_mb": 150, "to_slack_p99_s": 0.3, "scrape_s": 1.0}
_encode = msgspec.json.Encoder().encode


def incident(name: str, number: int, at: int) -> Transition:
    """One as large as they come: two findings, evidence, a forecast, and a chart of 64 points."""
    points = [(at - 60_000 * back, 11_000.0 + 37.5 * back) for back in range(64, 0, -1)]
    return make_transition(
        incident=name,
        at=at,
        opened_at=at,
        cluster=f"cluster-{number % 200}",
        job_name=f"job-{number % JOBS}",
        findings=[overdue_finding(at=at, since=at - 96_000), late_acks_finding(at=at, since=at - 92_000)],
        series=Series("checkpoint duration", "ms", points, 30_000.0, [points[0], points[-1]]),
    )


def fill(producer: KafkaProducer, count: int) -> None:
    """Open incidents, and a notification log in which each was sent."""
    for number in range(count):
        name, partition = f"open-{number:05d}", number % TOPICS.partitions
        sent = Entry(
            incident=name, seq=1, state="sent", at=START_MS, channel="C0LOCAL01", ts=f"1772373780.{number:06d}"
        )
        value = _encode(incident(name, number, START_MS))
        producer.send(TOPICS.incidents, key=name.encode(), value=value, partition=partition)
        producer.send(TOPICS.deliveries, key=f"slack/{name}".encode(), value=_encode(sent), partition=partition)
    producer.flush(timeout=60)


def say_new(producer: KafkaProducer, kind: str, count: int, every: float) -> dict[str, float]:
    """New incidents, one after the other at odd distances; when each was written (epoch s)."""
    chance, written = random.Random(kind), {}
    for number in range(count):
        time.sleep(every * 2 * chance.random())
        name = f"{kind}-{number:04d}"
        at = written[name] = time.time()
        value = _encode(incident(name, number, int(at * 1000)))
        producer.send(TOPICS.incidents, key=name.encode(), value=value, partition=number % TOPICS.partitions)
        producer.flush(timeout=10)
    return written


def show_jobs(producer: KafkaProducer, jobs: int) -> int:
    """Every reading of every job and of its two TaskManagers; how many."""
    count = 0
    for job in range(jobs):
        places = [{"job": f"job-{job}"}, {"tm": f"tm-{job}-1"}, {"tm": f"tm-{job}-2"}]
        for labels in places:
            for one in READINGS.values():
                if set(labels) < set(one.labels):
                    known = {"cluster": f"cluster-{job % 200}", **labels}
                    reading = Reading(name=one.name, labels=known, value=float(job), at=START_MS)
                    producer.send(TOPICS.readings, key=reading.key().encode(), value=_encode(reading))
                    count += 1
    producer.flush(timeout=60)
    return count


class Deliverer:
    """`flinkwatch deliver` as a process of its own."""

    def __init__(self, bootstrap: str, slack: SlackServer, folder: Path, *, site: bool = True) -> None:
        self.port = free_port()
        document = {
            "kafka": {"access": {"bootstrap_servers": bootstrap}},
            "streaming": {"canary": "0s"},
            "sinks": {
                "slack": {
                    "enabled": True,
                    "channel": "flink-alerts",
                    "base_url": slack.base_url,
                    # What a limit or a digest holds back is not what is measured.
                    "posts_per_minute": 6_000,
                    "digest_above": 10_000,
                },
                "prometheus": {"address": "127.0.0.1", "port": self.port},
                "web": {"enabled": site},
            },
        }
        config, self.log = folder / "flinkwatch.yaml", folder / "deliver.log"
        config.write_text(yaml.safe_dump(document))
        command = [sys.executable, "-m", "streaming", "--log-format", "json", "deliver", "--config", str(config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid()), *command],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(PROJECT), "SLACK_BOT_TOKEN": TOKEN},
            )

    def get(self, path: str) -> bytes:
        """A page of it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return bytes(answer.read())

    def await_text(self, path: str, pattern: bytes, within: float = 60.0) -> None:
        """Until a page has a line that matches."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            with suppress(OSError):
                if re.search(pattern, self.get(path), re.MULTILINE):
                    return
            time.sleep(0.25)
        raise SystemExit(f"not within {within:.0f} s: {pattern!r}\n{self.log.read_text()[-3000:]}")

    def memory(self) -> tuple[float, float]:
        """Resident bytes now and at the peak, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        now, peak = (re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE) for name in ("VmRSS", "VmHWM"))
        assert now is not None
        assert peak is not None
        return round(int(now[1]) / 1024, 1), round(int(peak[1]) / 1024, 1)


@contextmanager
def deliverer(bootstrap: str, slack: SlackServer, *, site: bool = True) -> Iterator[Deliverer]:
    """Runs inside the block."""
    with tempfile.TemporaryDirectory(prefix="flinkwatch-bench-") as folder:
        running = Deliverer(bootstrap, slack, Path(folder), site=site)
        try:
            yield running
        finally:
            running.process.terminate()
            running.process.wait(40)


def measure(options: argparse.Namespace) -> dict[str, float]:
    """The figures."""
    arrivals = Arrivals()

    def heard(call: Call) -> None:
        arrivals.slack(call)

    with Broker() as broker, SlackServer(on_call=heard) as slack:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            ensure_topics(admin, TOPICS, create=True)
        with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)) as producer:
            fill(producer, options.incidents)
            with deliverer(broker.bootstrap, slack) as running:
                running.await_text("/-/ready", b"is ready")
                running.await_text("/metrics", b'^flinkwatch_notifications_queue_length{integration="slack"} 0')
                time.sleep(5)
                rss, peak = running.memory()
                again = len(slack.calls)
                say_new(producer, "warm", WARM_UP, 1.0)
                written = say_new(producer, "measured", options.seconds, 1.0)
                deadline = time.monotonic() + 30
                while not written.keys() <= arrivals.at.keys() and time.monotonic() < deadline:
                    time.sleep(0.1)
                readings = show_jobs(producer, options.jobs)
                running.await_text("/metrics", b'job="job-%d"' % (options.jobs - 1))
                time.sleep(2)
                scrapes = []
                for _ in range(7):
                    begin = time.perf_counter()
                    page = running.get("/metrics")
                    scrapes.append(time.perf_counter() - begin)
                rss_jobs, _ = running.memory()
    missing = written.keys() - arrivals.at.keys()
    if missing:
        raise SystemExit(f"Slack never heard of {len(missing)} of {len(written)} incidents")
    delays = [arrivals.at[name] - at for name, at in written.items()]
    return {
        "incidents": options.incidents,
        "told_again": again,
        "rss_mb": rss,
        "peak_rss_mb": peak,
        "to_slack_p50_s": quantile(delays, 0.5),
        "to_slack_p99_s": quantile(delays, 0.99),
        "to_slack_max_s": round(max(delays), 3),
        "jobs": options.jobs,
        "readings": readings,
        "rss_with_jobs_mb": rss_jobs,
        "scrape_s": round(min(scrapes), 3),
        "scrape_median_s": round(statistics.median(scrapes), 3),
        "page_mb": round(len(page) / 1e6, 1),
    }


def main() -> None:
    """Measure and print; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--incidents", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seconds", type=int, default=100, help="as many new incidents, one about each second")
    figures = measure(parser.parse_args())
    missed = [f"{name} is {figures[name]}, goal {goal}" for name, goal in GOALS.items() if figures[name] > goal]
    for line in missed:
        print(f"missed: {line}")
    print(json.dumps(figures))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
