"""Every query of every panel, menu and annotation, asked of a real Prometheus: on what was recorded, and on a page that
has everything.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client import start_http_server

from detectors.incident import Reading
from tests.dashboard_queries import Span, await_data, scraping
from tests.prometheus_server import Prometheus, available, import_samples
from tests.recorded import records
from tests.recorded_metrics import SCRAPE_S, Played, write_samples
from tests.unit.sinks.prometheus.test_catalogue import Shown, every_metric
from tests.unit.streaming.job.test_telemetry import progress

pytestmark = pytest.mark.skipif(not available(), reason="Prometheus is not installed: apt-get install prometheus")

END = 1_800_000_000
# Together they have every reading: a leak, late acknowledgements with growing checkpoints, a slow sink.
SCENARIOS = {"post-mortem-001": "post-mortem-001", "rtc-yarn": "post-mortem-002"}
AHEAD_MS = 45_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Span]:
    folder = tmp_path_factory.mktemp("recorded")
    played = [Played(cluster, records(name)) for cluster, name in SCENARIOS.items()]
    # As if Kafka's clock were right and that of the hosts ahead.
    slow = [msgspec.structs.replace(r, timestamp=r.timestamp - AHEAD_MS) for r in records("backpressure-slow-sink")]
    played.append(Played("1.20.5-slow-sink", tuple(slow)))
    first = write_samples(played, END, folder / "samples.txt")
    import_samples(folder / "samples.txt", folder)
    with Prometheus(folder, lookback=f"{2.5 * SCRAPE_S:.0f}s") as server:
        yield Span(server, first, END, 4 * SCRAPE_S)


def test_every_query_about_the_fleet_has_data(recorded: Span) -> None:
    assert recorded.without("fleet") == []


def test_every_query_about_a_cluster_has_data_for_one_of_them(recorded: Span) -> None:
    """No cluster has every trouble at once."""
    clusters = [set(recorded.without("cluster", cluster)) for cluster in (*SCENARIOS, "1.20.5-slow-sink")]
    assert set.intersection(*clusters) == set()


def test_a_cluster_that_is_not_there_has_none(recorded: Span) -> None:
    """The proof that the answers above are about the cluster that was chosen."""
    assert [where for where, has in recorded.data("cluster", "no-such-cluster").items() if has] == ["$cluster"]


def test_every_query_about_flinkwatch_has_data_on_a_page_of_everything(tmp_path: Path) -> None:
    """A page made by the classes that ship, scraped while its counters move."""
    shown = every_metric()
    page, thread = start_http_server(0, addr="127.0.0.1", registry=shown.registry)
    stop = threading.Event()
    moving = threading.Thread(target=move, args=(shown, stop))
    moving.start()
    try:
        with Prometheus(tmp_path, scraping(tmp_path, page.server_port)) as server:
            first = time.time()
            left = await_data(lambda: set(Span(server, first, time.time(), 1).without("flinkwatch")), 30)
    finally:
        stop.set()
        moving.join()
        page.shutdown()
        page.server_close()
        thread.join()
    assert left == set()


def move(shown: Shown, stop: threading.Event) -> None:
    """Batches and notifications, some of which fail, and records of which some are not understood."""
    batch = 0
    while not stop.wait(0.2):
        batch += 1
        shown.telemetry.progressed(progress(batch))
        shown.board.delivery.count_attempt("slack", "other")
        shown.board.delivery.latency.labels("slack").observe(0.1)
        shown.board.delivery.delay.labels("slack").observe(0.2)
        for name in ("records_understood_total", "records_not_understood_total"):
            counted = Reading(name=name, labels={"topic": "x"}, value=float(batch), at=batch, type="counter")
            shown.board.show_reading(counted.key(), counted)
