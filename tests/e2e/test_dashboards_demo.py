"""The dashboards and the alert beside the running demo: a real Prometheus scrapes it as shipped."""

import threading
import time
from pathlib import Path

import pytest
from kafka import KafkaProducer

from streaming.job.heartbeat import canary_value
from streaming.recordings.play import create_topics
from tests.dashboard_queries import NAMES, Span, await_data, scraping
from tests.demo.playback import Playback
from tests.demo.stack import Stack
from tests.prometheus_server import Prometheus, available
from tests.recorded import records

pytestmark = [
    pytest.mark.skipif(not available(), reason="Prometheus is not installed: apt-get install prometheus"),
    pytest.mark.e2e,
    pytest.mark.slow,
]

# Queries for which the demo has nothing to say, and why. The tests on recordings and on the page of everything have
# data for each.
NO_FORECAST = "late barrier acks do not get worse at a time that can be told"
NO_LEAK = "nothing leaks in the recording"
TOO_SHORT = "a trend needs twenty checkpoints"
ALL_WELL = "only under a fault"
BRIEF = "may begin and end between two scrapes at twenty times the speed"
NOT_IN_THE_DEMO: dict[str, dict[str, str]] = {
    "fleet": {
        "Next limit in A": NO_FORECAST,
        "Open incidents C": NO_FORECAST,
        "Time to limits A": NO_FORECAST,
        "Time to limits, earliest and latest A": NO_FORECAST,
        "Time to limits, earliest and latest B": NO_FORECAST,
    },
    "cluster": {
        "Open incidents C": NO_FORECAST,
        "Growth of checkpoint durations A": TOO_SHORT,
        "Time until checkpoints reach their limit A": TOO_SHORT,
        "Checkpoints since the last offset commit A": NO_LEAK,
        "Time until the heap is full A": NO_LEAK,
        "Clock skew A": "the clocks of the recording are right",
        "Age of the checkpoint in flight A": BRIEF,
        "warning incidents": BRIEF,
    },
    "flinkwatch": {
        "Suppressed notifications A": "nothing is silenced, folded or held back",
        "Delay of the stream's clock C": ALL_WELL,
        "Oldest waiting notification A": ALL_WELL,
        "Oldest unknown outcome A": ALL_WELL,
        "Unreadable records A": ALL_WELL,
        "Records not understood B": ALL_WELL,
        "Rejected records B": ALL_WELL,
        "Rejected records C": ALL_WELL,
    },
}
CLUSTER = "clickstream"


def test_every_query_has_data_while_the_demo_runs(tmp_path: Path) -> None:
    """But those of what the demo does not have; and the incident is an alert."""
    played = records("late-barrier-acks")
    with Stack(lambda _: None) as stack:
        create_topics(stack.broker.access, played)
        stack.job.start()
        stack.job.await_ready()
        with Prometheus(tmp_path, scraping(tmp_path, stack.job.page_port)) as server:
            first = time.time()
            Playback(stack.broker.access, played, "flinkwatch.heartbeat", speed=20).run(threading.Event())

            def missing() -> set[tuple[str, str]]:
                span = Span(server, first, time.time(), 1)
                return {(name, where) for name in NAMES for where in span.without(name, CLUSTER)}

            reasons = {(name, where) for name in NAMES for where in NOT_IN_THE_DEMO[name]}

            def left() -> set[tuple[str, str]]:
                # A slow host may scrape only once while something is told: a rate needs two values.
                tell(stack.broker.bootstrap, played[-1].timestamp)
                return missing() - reasons

            await_data(left, 600)
            # What waits or is unsettled may be so at the moment of a scrape.
            assert sorted(missing() - reasons) == []
            never = {
                where for name in NAMES for where, why in NOT_IN_THE_DEMO[name].items() if why not in (ALL_WELL, BRIEF)
            }
            assert never <= {where for _, where in missing()}
            alerts = server.over('ALERTS{alertname="FlinkIncident", alertstate="firing"}', first, time.time(), 1)
            assert CLUSTER in {one["metric"]["cluster"] for one in alerts}


def tell(bootstrap: str, now_ms: int) -> None:
    """A canary, and records that cannot be read: one now and one later, or there is no rate."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(2):
        producer.send("flinkwatch.heartbeat", value=canary_value(int(time.time() * 1000)), timestamp_ms=now_ms)
        producer.send("flink.logs", value=b"{not json", timestamp_ms=now_ms)
        producer.flush()
        time.sleep(4)
    producer.close()
