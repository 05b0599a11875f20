"""Requests to a Prometheus server: repeated while that may help, else an error that says what to do."""

from collections.abc import Iterator

import pytest

from streaming.recordings.prometheus_api import PrometheusApi, PrometheusError, TooManySamplesError
from tests.unit.streaming.recordings.prometheus_answers import Answers


@pytest.fixture
def server() -> Iterator[Answers]:
    with Answers() as answers:
        yield answers


def names(server: Answers, paused: list[float] | None = None) -> list[str]:
    paused = [] if paused is None else paused
    return PrometheusApi(server.url, pause=paused.append).names("{}", 0, 1_000)


def test_a_request_is_repeated_while_the_server_is_overloaded_or_gone(server: Answers) -> None:
    server.scrapes = [("flink_a", {}, 0)]
    server.failures.extend([(503, b""), (0, b""), (429, b"")])
    paused: list[float] = []
    assert names(server, paused) == ["flink_a"]
    assert paused == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("failure", [(503, b""), (0, b"")])
def test_repeated_requests_end_with_the_reason(server: Answers, failure: tuple[int, bytes]) -> None:
    server.failures.extend([failure] * 5)
    with pytest.raises(PrometheusError, match=r"Prometheus at 127\.0\.0\.1:\d+: (HTTP status 503|it does not answer)"):
        names(server)
    assert len(server.paths) == 5


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b"", "--prometheus-auth names a file"),
        (404, b"<html>", "its path may have a prefix"),
        (302, b"https://login.example/", "has moved to https://login.example/"),
        (400, b'{"status":"error","errorType":"bad_data","error":"parse error: x"}', "400: parse error: x"),
        (200, b"<html>login</html>", "not that of Prometheus's HTTP API"),
    ],
)
def test_what_a_repetition_does_not_change_is_an_error_at_once(
    server: Answers, status: int, body: bytes, words: str
) -> None:
    server.failures.append((status, body))
    with pytest.raises(PrometheusError, match=words):
        names(server)
    assert len(server.paths) == 1


def test_a_query_that_takes_the_server_too_long_has_too_many_samples(server: Answers) -> None:
    server.failures.append((503, b'{"status":"error","errorType":"timeout","error":"query timed out"}'))
    with pytest.raises(TooManySamplesError):
        PrometheusApi(server.url).samples("{}", 0, 1_000)
    assert len(server.paths) == 1


@pytest.mark.parametrize(
    "url", ["prometheus:9090", "ftp://prometheus", "http://", "http://a:b", "http://a?x=1", "file:///etc/passwd"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(PrometheusError, match="not the address of a server"):
        PrometheusApi(url)


def test_an_address_with_a_password_is_refused_without_printing_it() -> None:
    with pytest.raises(PrometheusError) as refused:
        PrometheusApi("http://ann:s3cret@prometheus:9090")
    assert "s3cret" not in str(refused.value)
