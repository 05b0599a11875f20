"""The chart: a PNG of the numbers behind an incident, drawn apart, uploaded in the background."""

import re
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from structlog.testing import capture_logs

from detectors.incident import Forecast, Series
from sinks.contract.outcome import Delivered
from sinks.contract.series_scale import scale_for
from sinks.contract.sink import Notification
from sinks.delivery import service as delivery_module
from sinks.delivery.service import Delivery
from sinks.integrations.slack.charts.draw import HEIGHT, WIDTH, ChartRequest, draw
from sinks.integrations.slack.charts.worker import Charts, DrawingError, draw_apart
from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.message.message import render
from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.slack.sink import SlackSink
from sinks.kafka.access import KafkaAccess
from sinks.prometheus.http_server import PrometheusConfig
from sinks.settings import Sinks
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.memory_kafka import TOPICS, MemoryKafka
from tests.unit.sinks.samples import OPENED_AT, make_transition

POINTS = [(OPENED_AT + 60_000 * n, 4.0 + n / 3) for n in range(40)]
ORDER = ChartRequest(
    title="Checkpoint duration creep · orders-enrichment",
    series=Series("checkpoint duration", "s", POINTS, threshold=30.0, fit=[POINTS[0], POINTS[-1]]),
    since=OPENED_AT + 600_000,
    forecast=Forecast(
        "checkpoints reach the timeout", OPENED_AT + 4_000_000, OPENED_AT + 3_000_000, OPENED_AT + 5_000_000
    ),
)


def size(png: bytes) -> tuple[int, int]:
    """Width and height that a PNG says of itself. The first chunk must be the header's."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert png[12:16] == b"IHDR"
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_a_chart_is_a_png_of_the_size_it_says() -> None:
    png = draw(ORDER)
    assert size(png) == (WIDTH, HEIGHT)
    assert len(png) < 200_000


def test_the_same_order_gives_the_same_bytes_in_every_process() -> None:
    assert draw_apart(ORDER) == draw(ORDER)


def test_other_numbers_give_another_picture() -> None:
    other = Series("checkpoint duration", "s", [(time, value + 1) for time, value in POINTS])
    assert draw(ORDER) != draw(ChartRequest(title=ORDER.title, series=other, since=ORDER.since))


def drawn(monkeypatch: pytest.MonkeyPatch, order: ChartRequest) -> Any:
    """The axes of the picture of an order."""
    kept = []
    add = Figure.add_subplot
    monkeypatch.setattr(Figure, "add_subplot", lambda self: kept.append(add(self)) or kept[-1])
    draw(order)
    return kept[-1]


def test_expired_checkpoints_are_crosses_at_their_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Completed ones alone fall and end before the incident: on a phone that says that it gets better."""
    falling = [(OPENED_AT + 15_000 * n, 0.28 - 0.015 * n) for n in range(14)]
    expired = [(OPENED_AT + 300_000 + 30_000 * n, 30.0) for n in range(6)]
    axes = drawn(
        monkeypatch, ChartRequest(title="t", series=Series("d", "s", falling, failed=expired), since=OPENED_AT)
    )
    (crosses,) = (line for line in axes.get_lines() if line.get_marker() == "x")
    assert list(crosses.get_ydata()) == [30.0] * 6
    assert axes.get_ylim()[1] > 30
    assert axes.get_xlim()[1] > date2num(datetime.fromtimestamp(expired[-1][0] / 1000, tz=UTC))


@pytest.mark.parametrize(
    ("minutes", "form"),
    [
        (5, r"\d\d:\d\d:\d\d"),
        (180, r"\d\d:\d\d"),
        (3 * 1440, r"[A-Z][a-z]{2} \d\d \d\d:\d\d"),
        (14 * 1440, r"[A-Z][a-z]{2} \d\d"),
    ],
)
def test_every_tick_says_a_whole_time(monkeypatch: pytest.MonkeyPatch, minutes: int, form: str) -> None:
    points = [(OPENED_AT + minutes * 2_000 * n, 1.0 + n) for n in range(31)]
    axes = drawn(monkeypatch, ChartRequest(title="t", series=Series("d", "s", points), since=OPENED_AT))
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert 2 <= len(ticks) <= 9
    assert all(re.fullmatch(form, tick) for tick in ticks)


NASTY_VALUES = st.floats() | st.sampled_from([1e308, -1e308, 5e-324, 0.0])
NASTY_TIMES = st.integers(-(2**63), 2**63) | st.just(OPENED_AT)
NASTY_TEXT = st.text(max_size=40) | st.sampled_from(["$x^{", "_hidden", "🔥" * 200, "\n\x00", "中文", "x" * 5000])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(NASTY_TIMES, NASTY_VALUES), max_size=80),
    st.none() | NASTY_VALUES,
    st.none() | st.builds(Forecast, NASTY_TEXT, NASTY_TIMES, NASTY_TIMES, NASTY_TIMES),
    NASTY_TEXT,
    st.sampled_from(["s", "bytes", "MB", "", "$%"]),
)
def test_any_numbers_give_a_picture_or_a_reason(
    points: list[Any], threshold: float | None, forecast: Forecast | None, text: str, unit: str
) -> None:
    series = Series(text, unit, points, threshold, points[::3])
    order = ChartRequest(title=text, series=series, since=OPENED_AT, until=OPENED_AT + 1, forecast=forecast)
    try:
        assert size(draw(order)) == (WIDTH, HEIGHT)
    except ValueError as error:
        assert "can be drawn" in str(error)  # noqa: PT017 - a picture will do as well


def test_an_order_that_cannot_be_drawn_says_why() -> None:
    with pytest.raises(DrawingError, match="no point of the series can be drawn"):
        draw_apart(ChartRequest(title="t", series=Series("n", "s", []), since=0))


def test_the_process_that_draws_knows_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def run(command: list[str], **arguments: Any) -> subprocess.CompletedProcess[bytes]:
        seen.update(arguments)
        return subprocess.CompletedProcess(command, 0, b"", b"")

    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    monkeypatch.setattr("sinks.integrations.slack.charts.worker.subprocess.run", run)
    draw_apart(ORDER)
    assert TOKEN not in str(seen["env"])


def test_whoever_delivers_does_not_load_matplotlib() -> None:
    modules = "sinks.integrations.slack.charts.worker, sinks.integrations.slack.client"
    code = f"import sys, {modules}; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


@pytest.mark.parametrize(
    ("unit", "value", "spoken"),
    [
        ("s", 0.02, "20 ms"),
        ("s", 30.0, "30 s"),
        ("s", 600.0, "10 min"),
        ("s", 90_000.0, "25 h"),
        ("bytes", 512.0, "512 bytes"),
        ("bytes", 3.0 * 2**30, "3 GB"),
        ("MB", 84.0, "84 MB"),
        ("", 7.0, "7"),
    ],
)
def test_units_are_those_people_use(unit: str, value: float, spoken: str) -> None:
    assert scale_for(unit, [value, value / 2]).format(value) == spoken


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as server:
        yield server


class Desk:
    """A message that exists, and charts for its thread that are drawn at once."""

    def __init__(self, slack: SlackServer) -> None:
        self.slack = slack
        self.drawn = 0
        self.config = SlackConfig(enabled=True, channel="flink-alerts", base_url=slack.base_url, timeout="3s")
        client = SlackClient(self.config)
        posted = client.post(render(make_transition()), "incident", 1)
        assert isinstance(posted, Delivered)
        self.posted = posted
        self.charts = Charts(client.upload, draw=self._draw, wait=0.01)

    def order(self) -> None:
        """Orders one and waits for what becomes of it."""
        self.charts.order(ORDER, self.posted.channel, self.posted.ts)
        worker = self.charts.worker
        if worker is not None:
            worker.join(timeout=120)

    def pictures(self) -> int:
        """How many stand in the thread."""
        return sum(len(reply.files) for reply in self.slack.replies(self.posted.ts))

    def _draw(self, _: ChartRequest) -> bytes:
        self.drawn += 1
        return b"\x89PNG"


@pytest.fixture
def desk(slack: SlackServer) -> Desk:
    return Desk(slack)


def test_a_chart_ends_in_the_thread_with_words_for_who_cannot_see_it(desk: Desk) -> None:
    desk.order()
    (reply,) = desk.slack.replies(desk.posted.ts)
    upload = desk.slack.file(reply.files[0])
    assert upload.content == b"\x89PNG"
    assert upload.title == ORDER.title
    assert "checkpoint duration over time" in upload.alt


def test_a_token_without_files_write_is_reported_once_and_no_chart_is_drawn_again(desk: Desk) -> None:
    desk.slack.take_scope("files:write")
    with capture_logs() as logged:
        for _ in range(3):
            desk.order()
    assert desk.drawn == 1
    assert [line["event"].startswith("Slack refused a chart") for line in logged] == [True]


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "upload", "files.completeUploadExternal"])
@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"reset": True},
        {"silent_s": 4},
        {"error": "channel_not_found"},
        {"error": "some_new_error"},
        {"status": 429, "headers": {"Retry-After": "300"}},
    ],
    ids=str,
)
def test_no_failure_of_a_chart_touches_the_message_or_the_next_chart(
    desk: Desk, method: str, fault: dict[str, Any]
) -> None:
    before = desk.slack.parents()[0].blocks
    desk.slack.fail_next(method, **fault, times=3)
    desk.order()
    assert desk.slack.parents()[0].blocks == before
    assert desk.pictures() <= 1
    desk.slack.forgive()
    desk.order()
    assert desk.pictures() >= 1


def test_a_limited_upload_waits_as_long_as_slack_asks(desk: Desk) -> None:
    desk.slack.fail_next("files.getUploadURLExternal", status=429, headers={"Retry-After": "1"}, error="ratelimited")
    desk.order()
    assert desk.pictures() == 1
    first, second = [call.at for call in desk.slack.calls if call.method == "files.getUploadURLExternal"]
    assert second - first >= 1


def test_in_a_storm_few_charts_wait_and_the_newest_are_drawn(slack: SlackServer) -> None:
    go, drawn = threading.Event(), []

    def upload(channel: str, ts: str, picture: Any) -> Delivered:
        drawn.append(ts)
        return Delivered(channel, ts)

    def slow(_: ChartRequest) -> bytes:
        go.wait(10)
        return b""

    charts = Charts(upload, draw=slow)
    for number in range(1000):
        charts.order(ORDER, "C1", str(number))
    worker = charts.worker
    assert worker is not None
    go.set()
    worker.join(timeout=120)
    assert len(drawn) <= 21
    assert drawn[-1] == "999"


def test_after_close_nothing_more_is_drawn(desk: Desk) -> None:
    desk.charts.close()
    desk.order()
    assert desk.drawn == 0


def test_what_is_not_drawn_when_the_process_ends_is_reported(desk: Desk) -> None:
    go = threading.Event()
    charts = Charts(SlackClient(desk.config).upload, draw=lambda _: str(go.wait(10)).encode())
    for ts in ("1.1", "2.2", "3.3"):
        charts.order(ORDER, desk.posted.channel, ts)
    with capture_logs() as logged:
        charts.close()
    go.set()
    assert [(line["event"], line["count"]) for line in logged] == [("charts dropped at shutdown", 3)]


def test_a_chart_that_waits_when_the_process_ends_is_drawn(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may take longer to start the process that draws.
    monkeypatch.setattr(delivery_module, "DRAIN_S", 120.0)
    kafka = MemoryKafka()
    sinks = Sinks(slack=desk.config, prometheus=PrometheusConfig(enabled=False))
    delivery = Delivery(KafkaAccess(bootstrap_servers="localhost:9092"), TOPICS, sinks, clients=kafka)
    with capture_logs() as logged:
        delivery.start()
        transition = make_transition(series=ORDER.series)
        kafka.write(TOPICS.incidents, transition.incident, msgspec.json.encode(transition))
        delivery.stop()
    assert [line for line in logged if line["log_level"] != "info"] == []
    assert sum(len(message.files) for message in desk.slack.messages) == 1


def test_an_incident_with_numbers_gets_a_real_picture_into_its_thread(slack: SlackServer) -> None:
    """From the transition to the bytes in Slack, with the process that draws."""
    shared = threading.Event()
    slack.on_call = lambda call: shared.set() if call.method == "files.completeUploadExternal" else None
    config = SlackConfig(enabled=True, channel="flink-alerts", base_url=slack.base_url)
    sink = SlackSink(config, SlackClient(config))
    delivered = sink.send(Notification(transition=make_transition(series=ORDER.series), at=OPENED_AT))
    assert isinstance(delivered, Delivered)
    for attachment in delivered.attachments:
        attachment.call()
    assert shared.wait(30)
    (reply,) = slack.replies(delivered.ts)
    upload = slack.file(reply.files[0])
    assert upload.content is not None
    assert size(upload.content) == (WIDTH, HEIGHT)
    assert upload.title == "Checkpoint overdue · orders-enrichment"
