"""Every query of every panel, menu and annotation, asked of a real Prometheus: on what was recorded, on a page that has
everything, and beside the running demo.
"""

import math
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml
from kafka import KafkaProducer
from prometheus_client import start_http_server

from streaming import canary
from streaming.demo.playback import Playback, create_topics
from streaming.demo.stack import Stack
from tests.dashboard_queries import FOLDER, NAMES, questions, read
from tests.prometheus_server import Prometheus, available, import_samples
from tests.recorded import records
from tests.recorded_metrics import SCRAPE_S, Played, write_samples
from tests.unit.sinks.test_metric_table import Shown, every_metric
from tests.unit.streaming.test_telemetry import progress

pytestmark = [
    pytest.mark.skipif(not available(), reason="Prometheus is not installed: apt-get install prometheus"),
    pytest.mark.timeout(120),
]

RULES = FOLDER.parents[1] / "prometheus"
END = 1_800_000_000
# Together they have every reading: a leak, late acknowledgements with growing checkpoints, a slow sink.
SCENARIOS = {"post-mortem-001": "post-mortem-001", "rtc-yarn": "post-mortem-002"}
AHEAD_MS = 45_000
# Queries for which the demo has nothing to say, and why. The tests on recordings and on the page of everything have
# data for each.
NO_FORECAST = "late barrier acks do not get worse at a time that can be told"
NO_LEAK = "nothing leaks in the recording"
TOO_SHORT = "a trend needs twenty checkpoints"
ALL_WELL = "only under a fault"
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
        "Checkpoints reach their limit in A": TOO_SHORT,
        "Checkpoints since the last commit of offsets A": NO_LEAK,
        "Heap is full in A": NO_LEAK,
        "Clocks ahead A": "the clocks of the recording are right",
    },
    "flinkwatch": {
        "Not sent on purpose A": "nothing is silenced, folded or held back",
        "The oldest waits for A": ALL_WELL,
        "Ledger unsettled for A": ALL_WELL,
        "Records delivery could not read A": ALL_WELL,
        "Overrides A": "the demo overrides nothing",
    },
}
CLUSTER = "clickstream"


class Span(NamedTuple):
    """A server, and the times it has samples of, epoch s."""

    server: Prometheus
    first: float
    last: float
    step: float

    def data(self, dashboard: str, cluster: str = ".*") -> dict[str, bool]:
        """Whether each query of a dashboard has any."""
        return {
            one.where: bool(self.server.label_values(one.expr, one.label, self.first, self.last))
            if one.label
            else self._has_numbers(one.expr)
            for one in questions(read(dashboard), cluster)
        }

    def without(self, dashboard: str, cluster: str = ".*") -> list[str]:
        """The queries that have none."""
        return [where for where, has in self.data(dashboard, cluster).items() if not has]

    def _has_numbers(self, expr: str) -> bool:
        answer = self.server.over(expr, self.first, self.last, self.step)
        return any(not math.isnan(float(value)) for series in answer for _, value in series["values"])


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


def scraping(folder: Path, port: int) -> str:
    """The configuration that ships, with its rules, for a page on this host and a test in a hurry."""
    for rules in RULES.glob("*.rules.yaml"):
        shutil.copy(rules, folder)
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    return yaml.safe_dump(config)


def await_data(missing: Callable[[], set[Any]], within: float) -> set[Any]:
    """What is still missing when nothing is, or time is up."""
    deadline = time.monotonic() + within
    while (left := missing()) and time.monotonic() < deadline:
        time.sleep(1)
    return left


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
    """Batches and notifications, some of which fail."""
    batch = 0
    while not stop.wait(0.2):
        batch += 1
        shown.telemetry.progressed(progress(batch))
        shown.board.count_attempt("slack", "other")
        shown.board.observe_latency("slack", 0.1)
        shown.board.observe_delay("slack", 0.2)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_query_has_data_beside_the_running_demo(tmp_path: Path) -> None:
    """But those of what the demo does not have; and the incident is an alert."""
    played = records("late-barrier-acks")
    with Stack(lambda _: None) as stack:
        create_topics(stack.broker.bootstrap, played)
        stack.job.start()
        stack.job.await_ready()
        with Prometheus(tmp_path, scraping(tmp_path, stack.job.page_port)) as server:
            first = time.time()
            Playback(stack.broker.bootstrap, played, "flinkwatch.pulse", speed=20).run(threading.Event())
            tell(stack.broker.bootstrap, played[-1].timestamp)

            def missing() -> set[tuple[str, str]]:
                span = Span(server, first, time.time(), 1)
                return {(name, where) for name in NAMES for where in span.without(name, CLUSTER)}

            reasons = {(name, where) for name in NAMES for where in NOT_IN_THE_DEMO[name]}
            await_data(lambda: missing() - reasons, 120)
            # What waits or is unsettled may be so at the moment of a scrape.
            assert sorted(missing() - reasons) == []
            never = {where for name in NAMES for where, why in NOT_IN_THE_DEMO[name].items() if why != ALL_WELL}
            assert never <= {where for _, where in missing()}
            alerts = server.over('ALERTS{alertname="FlinkIncident", alertstate="firing"}', first, time.time(), 1)
            assert {(one["metric"]["kind"], one["metric"]["cluster"]) for one in alerts} >= {
                ("late_barrier_acks", CLUSTER)
            }


def tell(bootstrap: str, now_ms: int) -> None:
    """A canary, and records that cannot be read: one now and one later, or there is no rate."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(2):
        producer.send("flinkwatch.pulse", value=canary.value(int(time.time() * 1000)), timestamp_ms=now_ms)
        producer.send("flink.logs", value=b"{not json", timestamp_ms=now_ms)
        producer.flush()
        time.sleep(4)
    producer.close()
