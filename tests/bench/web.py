"""What the status site costs: `python tests/bench/web.py [--incidents N] [--requests N]`.

`flinkwatch deliver` as a user starts it, on a real broker, with N open incidents that were notified before. It runs
twice, without the site and with it: the difference of the resident memory is what the site takes. Then every page and
document is asked for, one request after the other, and so are scrapes. The last line is JSON.

With `--cpu` there is neither a broker nor a process: the CPU time of each page alone, over N incidents of three changes
each, which other work on the machine does not disturb; and what filling the store costs.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import msgspec
from kafka import KafkaAdminClient, KafkaProducer
from msgspec.structs import replace

from detectors.settings.live import CONFIG_KEY, LiveSettings, encode_published, publish
from sinks.kafka.topics import ensure_topics
from tests.bench.delivery import START_MS, TOPICS, Deliverer, deliverer, fill, incident, show_jobs
from tests.bench.latency import quantile
from tests.embedded.broker import Broker
from tests.fake_slack.server import SlackServer
from tests.unit.sinks.web.site.filled import FilledSite

PATHS = {
    "open": "/",
    "search": "/?q=overdue&cluster=cluster-7",
    "last_part": "/?offset=9900",
    "incident": "/incidents/open-00007",
    "history": "/history",
    "clusters": "/clusters",
    "cluster": "/clusters/cluster-7",
    "config": "/config",
    "receivers": "/receivers",
    "api_incidents": "/api/v1/incidents",
    "api_incident": "/api/v1/incidents/open-00007",
    "metrics": "/metrics",
}
# A busy machine needs long for ten thousand incidents.
_WITHIN_S = 400.0
GOALS = {"more_rss_mb": 20.0, "page_p99_ms": 100.0}


def settled_memory(running: Deliverer) -> float:
    """Resident MB once everything was read."""
    running.await_text("/-/ready", b"is ready", _WITHIN_S)
    running.await_text("/metrics", b'^flinkwatch_notifications_queue_length{integration="slack"} 0', _WITHIN_S)
    time.sleep(5)
    return running.memory()[0]


def timed(running: Deliverer, path: str, requests: int) -> list[float]:
    """Milliseconds of each request, after three that warm up."""
    found = []
    for number in range(requests + 3):
        begin = time.perf_counter()
        running.get(path)
        if number >= 3:
            found.append((time.perf_counter() - begin) * 1000)
    return found


def measure(incidents: int, requests: int) -> dict[str, float]:
    """The figures."""
    figures: dict[str, float] = {"incidents": incidents}
    with Broker() as broker, SlackServer() as slack:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            ensure_topics(admin, TOPICS, create=True)
        with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)) as producer:
            producer.send(
                TOPICS.config, key=CONFIG_KEY, value=encode_published(publish(LiveSettings(), START_MS, "ann"))
            )
            fill(producer, incidents)
            show_jobs(producer, 200)
        with deliverer(broker.bootstrap, slack, site=False) as running:
            figures["rss_without_mb"] = settled_memory(running)
            figures["metrics_without_p50_ms"] = quantile(timed(running, "/metrics", 20), 0.5)
        with deliverer(broker.bootstrap, slack) as running:
            began = time.monotonic()
            running.await_text("/api/v1/incidents?limit=1", b'"total"', _WITHIN_S)
            figures["filled_after_s"] = round(time.monotonic() - began, 1)
            figures["rss_with_mb"] = settled_memory(running)
            for name, path in PATHS.items():
                times = timed(running, path, requests)
                figures[f"{name}_p50_ms"] = round(quantile(times, 0.5), 1)
                figures[f"{name}_p99_ms"] = round(quantile(times, 0.99), 1)
            figures["rss_after_requests_mb"] = running.memory()[0]
    figures["more_rss_mb"] = round(figures["rss_after_requests_mb"] - figures["rss_without_mb"], 1)
    pages = [value for name, value in figures.items() if name.endswith("_p99_ms") and not name.startswith("metrics")]
    return figures | {"page_p99_ms": max(pages)}


def measure_cpu(incidents: int, requests: int) -> dict[str, float]:
    """CPU time in ms of each page, and of filling the store."""
    figures: dict[str, float] = {"incidents": incidents}
    with tempfile.TemporaryDirectory(prefix="flinkwatch-bench-") as folder:
        site = FilledSite(Path(folder))
        before, began = resident_mb(), time.thread_time()
        for number in range(incidents):
            for seq in (1, 2, 3):
                one = replace(incident(f"open-{number:05d}", number, START_MS), seq=seq)
                site.store.add(one, msgspec.json.encode(one))
            site.notified(one.incident, seq=3)
        figures["fill_cpu_s"] = round(time.thread_time() - began, 1)
        for name, path in PATHS.items():
            if name != "metrics":
                times = []
                for _ in range(requests + 3):
                    began = time.thread_time()
                    site.get(path)
                    times.append((time.thread_time() - began) * 1000)
                figures[f"{name}_p50_ms"] = round(quantile(times[3:], 0.5), 1)
                figures[f"{name}_p99_ms"] = round(quantile(times[3:], 0.99), 1)
        figures["more_rss_mb"] = round(resident_mb() - before, 1)
        figures["file_mb"] = round(sum(file.stat().st_size for file in Path(folder).rglob("*.sqlite*")) / 1e6, 1)
        site.store.close()
    return figures | {"page_p99_ms": max(value for name, value in figures.items() if name.endswith("_p99_ms"))}


def resident_mb() -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def main() -> None:
    """Measure and print; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--incidents", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--cpu", action="store_true", help="only the CPU time, without a broker")
    options = parser.parse_args()
    figures = (measure_cpu if options.cpu else measure)(options.incidents, options.requests)
    missed = [f"{name} is {figures[name]}, goal {goal}" for name, goal in GOALS.items() if figures[name] > goal]
    for line in missed:
        print(f"missed: {line}")
    print(json.dumps(figures))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
