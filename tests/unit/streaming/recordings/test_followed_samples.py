"""Samples as they are scraped: each once, although every look back has older ones in it."""

import queue
from collections.abc import Iterator

import pytest

from streaming.recordings.followed_samples import FollowedSamples
from streaming.recordings.prometheus_api import PrometheusApi
from streaming.recordings.prometheus_samples import PrometheusSamples
from tests.unit.streaming.recordings.prometheus_answers import Answers

HEAP = "flink_taskmanager_Status_JVM_Memory_Heap_Used"
START = 1_795_168_800_000


@pytest.fixture
def server() -> Iterator[Answers]:
    with Answers() as answers:
        yield answers


def test_a_sample_is_read_once_and_arrives_now(server: Answers) -> None:
    samples = PrometheusSamples(PrometheusApi(server.url))
    followed = FollowedSamples(samples, START, lambda _: None)
    arrived: list[int] = []
    for at in (10_000, 20_000, 30_000):
        now = START + at + 500
        # A scrape shows only when it has ended.
        server.scrapes.append((HEAP, {"instance": "tm-1:9249", "at": "1"}, now - 8_000))
        followed.poll(now)
        arrived += [r.timestamp for r in followed.records(now)]
    assert arrived == [START + 10_500, START + 20_500, START + 30_500]
    assert server.asked("/api/v1/query") == 3


def test_names_are_asked_for_again_until_there_are_some(server: Answers) -> None:
    followed = FollowedSamples(PrometheusSamples(PrometheusApi(server.url)), START, lambda _: None)
    followed.poll(START + 1_000)
    server.scrapes.append((HEAP, {"instance": "tm-1:9249"}, START + 1_500))
    followed.poll(START + 2_000)
    assert len(list(followed.records(START + 2_000))) == 1


def test_a_server_that_fails_is_reported_once_and_when_it_answers_again(server: Answers) -> None:
    """A server that is restarted does not end the watch."""
    warned: queue.Queue[str] = queue.Queue()
    server.failures.extend([(404, b"")] * 2)
    samples = PrometheusSamples(PrometheusApi(server.url))
    followed = FollowedSamples(samples, START, warned.put, every_s=0.01)
    followed.start()
    try:
        assert "HTTP status 404" in warned.get(timeout=60)
        assert warned.get(timeout=60).endswith("answers again")
    finally:
        followed.stop()
    assert server.asked("/api/v1/label/__name__/values") >= 3
