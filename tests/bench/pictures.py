"""Pictures for the docs: `python tests/bench/pictures.py [fleet] [cluster] [flinkwatch] [message] [chart] [incident]`.

Fleet and Cluster show recordings as if they had happened at the same time; flinkwatch is scraped while the demo runs.
The message and the chart in its thread are what Slack would show; incident is the page of one. Needs Debian's packages
prometheus and chromium.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

from kafka import KafkaProducer

from streaming.job.heartbeat import canary_value
from streaming.recordings.play import create_topics
from streaming.recordings.redate import redated
from tests.bench.drawing import View, draw
from tests.bench.page_pictures import draw_page
from tests.bench.slack_pictures import draw_message
from tests.dashboard_queries import read, scraping
from tests.demo.playback import Playback
from tests.demo.stack import Stack
from tests.prometheus_server import Prometheus, import_samples
from tests.recorded import records
from tests.recorded_metrics import SCRAPE_S, Played, write_samples

IMAGES = Path(__file__).parents[2] / "docs" / "images"
END = 1_800_000_000
FLEET = {
    "post-mortem-001": "post-mortem-001",
    "rtc-yarn": "post-mortem-002",
    "oceanus-cql": "post-mortem-003",
    "creep-linear-6h": "checkpoint-creep-linear",
    "yingzi-dev": "post-mortem-004-drill-2",
    "gray-yarn": "memory-limit-kill",
    "ingest": "quiet-topic-healthy",
}
MESSAGES = {"message": ("late-barrier-acks", 4), "chart": ("checkpoint-creep", 1)}
"""The scenario and how many changes of its incident are shown."""
PAGE = ("post-mortem-002", 5)
"""The same for the page of an incident."""


def main(names: list[str]) -> None:
    """Write docs/images/dashboard-<name>.png, or <name>.png for the pictures of Slack."""
    with tempfile.TemporaryDirectory() as work:
        if {"fleet", "cluster"} & set(names):
            (Path(work) / "recorded").mkdir()
            recorded(names, Path(work) / "recorded")
        if "flinkwatch" in names:
            (Path(work) / "demo").mkdir()
            beside_the_demo(Path(work) / "demo")
    for name, (scenario, changes) in MESSAGES.items():
        if name in names:
            draw_message(scenario, changes, IMAGES / f"{name}.png", charts=name == "chart")
    if "incident" in names:
        draw_page(*PAGE, IMAGES / "incident.png")


def recorded(names: list[str], folder: Path) -> None:
    """Fleet, and the cluster whose checkpoints grow."""
    played = [Played(cluster, records(name)) for cluster, name in FLEET.items()]
    write_samples(played, END, folder / "samples.txt")
    import_samples(folder / "samples.txt", folder)
    with Prometheus(folder, lookback=f"{2.5 * SCRAPE_S:.0f}s") as server:
        if "fleet" in names:
            draw(read("fleet"), View(server, END - 3 * 3600, END, 60), IMAGES / "dashboard-fleet.png")
        if "cluster" in names:
            view = View(server, END - 1800, END - 300, SCRAPE_S, "rtc-yarn")
            draw(read("cluster"), view, IMAGES / "dashboard-cluster.png")


def beside_the_demo(folder: Path) -> None:
    """flinkwatch while the demo's recording happens again, with a canary every ten seconds."""
    with Stack(lambda _: None) as stack:
        create_topics(stack.broker.access, records("late-barrier-acks"))
        stack.job.start()
        stack.job.await_ready(300)
        with Prometheus(folder, scraping(folder, stack.job.page_port)) as server:
            first = time.time()
            played = list(redated(records("late-barrier-acks"), int(first * 1000)))
            playback = Playback(stack.broker.access, played, "flinkwatch.heartbeat", speed=1.0)
            thread = threading.Thread(target=playback.run, args=(threading.Event(),))
            thread.start()
            producer = KafkaProducer(bootstrap_servers=stack.broker.bootstrap)
            while thread.is_alive():
                producer.send("flinkwatch.heartbeat", value=canary_value(int(time.time() * 1000)))
                thread.join(10)
            producer.close()
            draw(read("flinkwatch"), View(server, first, time.time(), 2), IMAGES / "dashboard-flinkwatch.png", 60)


if __name__ == "__main__":
    main(sys.argv[1:] or ["fleet", "cluster", "flinkwatch", *MESSAGES, "incident"])
