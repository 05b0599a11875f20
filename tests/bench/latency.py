"""How long until Slack hears of it: `python tests/bench/latency.py [--incidents N] [--seconds S]`.

`flinkwatch run` as a user starts it, at its default trigger of 1 s, with delivery to a local stand-in for Slack.
Expired checkpoints of as many clusters are written one by one over two minutes; each is timed from its record being
handed to the producer to Slack's call coming in. A quarter of a minute before is warm-up, and not counted. The last
line is JSON;
`incident_p50_s` is the time to the record in flinkwatch.incidents, and the rest is delivery.
"""

import argparse
import json
import logging
import random
import re
import tempfile
import threading
import time
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from tests.bench.corpus import expired
from tests.bench.usage import Usage
from tests.embedded.broker import Broker
from tests.embedded.job_process import JobProcess
from tests.fake_slack.server import TOKEN, Call, SlackServer

WARM_UP_S = 15.0
WARM_UP_INCIDENTS = 20
GRACE_S = 30.0
_NAME = re.compile(rb"(?:warm|measured)-\d{4}")


class Arrivals:
    """When each name was seen first; epoch seconds."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def note(self, text: bytes, at: float) -> None:
        """Take in one message."""
        found = _NAME.search(text)
        if found is not None:
            self.at.setdefault(found[0].decode(), at)

    def slack(self, call: Call) -> None:
        """Take in one call of the stand-in."""
        if call.method == "chat.postMessage":
            self.note(json.dumps(call.body).encode(), call.at)


def follow(bootstrap: str, arrivals: Arrivals, ended: threading.Event) -> None:
    """Note when each incident's first record can be read."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    topic = "flinkwatch.incidents"
    consumer.assign([TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()])
    while not ended.is_set():
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                arrivals.note(record.value or b"", time.time())
    consumer.close()


def send(bootstrap: str, kind: str, count: int, seconds: float) -> dict[str, float]:
    """Write `count` records over `seconds`, at even distances but for a little chance; when each was written."""
    chance = random.Random(kind)
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
    begin, sent = time.time(), {}
    for number in range(count):
        # Chance keeps the records from marching in step with the trigger.
        time.sleep(max(0.0, begin + seconds * (number + chance.random()) / count - time.time()))
        name = f"{kind}-{number:04d}"
        at = sent[name] = time.time()
        line = expired(name, int(at * 1000))
        producer.send("flink.logs", value=line.filebeat(), partition=line.partition(2))
    producer.close()
    return sent


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of the values do not exceed, seconds."""
    return round(sorted(values)[max(0, round(share * len(values)) - 1)], 3)


def configuration(bootstrap: str, folder: str, slack: SlackServer) -> dict[str, object]:
    """As a user would write it, and no limit that would hold a message back: that is not what is measured."""
    slack_settings = {
        "enabled": True,
        "channel": "flink-alerts",
        "base_url": slack.base_url,
        "posts_per_minute": 6_000,
        "digest_above": 10_000,
    }
    return {
        "kafka": {"access": {"bootstrap_servers": bootstrap}},
        "streaming": {"checkpoint": f"{folder}/checkpoint"},
        "sinks": {"slack": slack_settings},
    }


def measure(options: argparse.Namespace, folder: str) -> dict[str, float]:
    """Start everything, write, wait for the last; the figures."""
    to_slack, to_topic, ended = Arrivals(), Arrivals(), threading.Event()
    with Broker() as broker, SlackServer(on_call=to_slack.slack) as slack:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        inputs = {"num_partitions": 2, "replication_factor": 1, "configs": {}}
        admin.create_topics({"flink.logs": inputs, "flink.metrics": inputs})
        document = configuration(broker.bootstrap, folder, slack)
        job = JobProcess(Path(folder), document, environment={"SLACK_BOT_TOKEN": TOKEN})
        job.start()
        try:
            job.await_ready()
            print("the job is ready", flush=True)
            reader = threading.Thread(target=follow, args=(broker.bootstrap, to_topic, ended), daemon=True)
            reader.start()
            send(broker.bootstrap, "warm", WARM_UP_INCIDENTS, WARM_UP_S)
            with Usage(job.pid) as usage:
                begin = time.time()
                sent = send(broker.bootstrap, "measured", options.incidents, options.seconds)
                deadline = time.time() + GRACE_S
                while not sent.keys() <= to_slack.at.keys() and time.time() < deadline:
                    time.sleep(0.1)
                end = time.time()
            ended.set()
            reader.join()
        finally:
            job.terminate()
    missing = sent.keys() - to_slack.at.keys()
    if missing:
        raise SystemExit(f"Slack never heard of {len(missing)} of {len(sent)} incidents")
    whole = [to_slack.at[name] - at for name, at in sent.items()]
    topic = [to_topic.at[name] - at for name, at in sent.items()]
    print("resident at the peak, MB:", ", ".join(f"{name} {size // 2**20}" for name, size in usage.peak()))
    return {
        "incidents": len(whole),
        "p50_s": quantile(whole, 0.5),
        "p99_s": quantile(whole, 0.99),
        "max_s": round(max(whole), 3),
        "incident_p50_s": quantile(topic, 0.5),
        "incident_p99_s": quantile(topic, 0.99),
        "cpu_share_of_a_core": round(usage.cpu_s(begin, end) / (end - begin), 3),
        "peak_rss_mb": usage.peak_rss() // 2**20,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--incidents", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    logging.getLogger("kafka").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="flinkwatch-bench-") as folder:
        figures = measure(options, folder)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
