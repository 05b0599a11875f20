"""The job's own incidents come back as part of its input: a broker that is away from two clusters is one incident."""

import time
from collections.abc import Callable, Iterator

import pytest

from detectors.events.event import Record
from tests.e2e.harness import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

REFUSED = (
    "[Consumer clientId={0}-0, groupId={0}] Connection to node 1 (kafka-1/10.0.0.9:9092) could not be established. "
    "Node may not be available."
)


def lines(cluster: str, until: int) -> Iterator[Record]:
    """A client of this cluster has tried to connect once a second for 40 s."""
    headers = (("cluster", cluster.encode()), ("host", b"tm-1"), ("file", b"/opt/flink/log/tm.log"))
    for at in range(until - 40_000, until, 1_000):
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at / 1000))
        text = f"{when},{at % 1000:03d} WARN  org.apache.kafka.clients.NetworkClient [] - {REFUSED.format(cluster)}"
        yield Record("flink.logs", 0, 0, at, cluster.encode(), text.encode(), headers)


def test_a_broker_that_two_clusters_cannot_reach_is_one_incident_also_after_kill_9(
    installation: Callable[..., Installation],
) -> None:
    here = installation(heartbeat=True)
    here.create_inputs()
    here.job.start()
    here.send(lines("billing", int(time.time() * 1000)))
    here.wait_for(lambda: len(here.transitions()) == 1)
    # The driver that knew of the first cluster is gone, and its successor reads of it in the topic.
    here.job.kill()
    here.job.start()
    here.send(lines("orders", int(time.time() * 1000)))
    here.wait_for(lambda: any(t.cause == "platform_incident" for t in here.transitions()))
    assert here.job.terminate() == 0
    opened = [t for t in here.transitions() if t.transition == "opened"]
    assert sorted((t.cause, t.cluster) for t in opened) == [
        ("broker_unreachable", "billing"),
        ("broker_unreachable", "orders"),
        ("platform_incident", "flinkwatch"),
    ]
    (platform,) = [t for t in opened if t.cause == "platform_incident"]
    assert platform.summary == "broker kafka-1:9092 fails under 2 clusters at once: billing, orders"
    members = sorted(t.incident for t in opened if t is not platform)
    assert sorted(platform.findings[0].entity["incidents"].split(", ")) == members
