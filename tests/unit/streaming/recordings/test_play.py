"""`flinkwatch play` is an exercise: its messages say so, and it waits for a flinkwatch that is ready."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from detectors.events.identity import Identity
from sinks.contract.phrases import title
from sinks.integrations.pagerduty import event
from streaming.configuration.settings import Settings
from streaming.errors import ConfigError, UserError
from streaming.recordings.play import await_ready, exercise
from streaming.threads import Stop, Stopped
from tests.recorded import records, said
from tests.unit.sinks.samples import make_transition


@pytest.mark.parametrize("name", ["late-barrier-acks", "job-failed"])
def test_its_incidents_are_those_of_the_recording_in_clusters_of_their_own(name: str) -> None:
    plain = said(records(name))
    marked = said(exercise(records(name), Identity(), frozenset({"flink.metrics"})))
    assert [(t.at, t.cause, t.transition) for t in marked] == [(t.at, t.cause, t.transition) for t in plain]
    assert [t.cluster for t in marked] == [f"exercise-{t.cluster}" for t in plain]
    assert {t.incident for t in marked}.isdisjoint(t.incident for t in plain)


def test_messages_say_that_it_is_one() -> None:
    transition = make_transition(cluster="exercise-prod")
    assert "EXERCISE, Warning: Checkpoint overdue" in title(transition)
    assert event(transition, "key")["payload"]["summary"].startswith("EXERCISE: ")
    assert "EXERCISE" not in title(make_transition()) + str(event(make_transition(), "key"))


def test_where_no_header_counts_it_is_refused_instead_of_played_as_real() -> None:
    with pytest.raises(ConfigError, match=r"identity\.cluster: `header` must come first"):
        next(exercise(records("job-failed"), Identity(cluster=("key", "header")), frozenset()))


class _Page(ThreadingHTTPServer):
    """A page that is ready after some questions."""

    def __init__(self, not_ready: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.left = not_ready
        self.asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: _Page

    def do_GET(self) -> None:
        self.server.asked += 1
        self.server.left -= 1
        self.send_response(503 if self.server.left >= 0 else 200)
        self.end_headers()
        self.wfile.write(b"query: no batch yet")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so there
        pass


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Iterator[_Page]:
    with _Page(request.param) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def settings_for(page: _Page) -> Settings:
    return Settings.model_validate({"sinks": {"prometheus": {"port": page.server_port}}})


@pytest.mark.parametrize("page", [2], indirect=True)
def test_it_waits_until_flinkwatch_is_ready(page: _Page) -> None:
    await_ready(settings_for(page), Stop())
    assert page.asked == 3


@pytest.mark.parametrize("page", [1_000], indirect=True)
def test_one_that_does_not_become_ready_is_an_error_with_its_reason(page: _Page) -> None:
    with pytest.raises(UserError, match="not ready after 0 s: query: no batch yet"):
        await_ready(settings_for(page), Stop(), within_s=0.0)
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        await_ready(settings_for(page), stop)
