"""What one host carries: `python tests/bench/fleet.py [--clusters N] [--times X …] [--seconds S]`.

`flinkwatch run` as a user starts it, against a fleet as it happens (`shipped.py`): 50 clusters with 10 TaskManagers and
two jobs each, 300 series of each process every 15 s as one record, 2,000 log lines a second. With `--times 1 2 4` the
same for multiples of the fleet, one after the other, to see where it saturates. The writer and the broker run on the
same host; their CPU time is told apart. The last line is JSON, one object for each multiple.
"""

import argparse
import json
import logging
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from kafka.admin import KafkaAdminClient

from tests.bench.usage import Usage
from tests.embedded.broker import Broker
from tests.embedded.job_process import JobProcess

WARM_UP_S = 75
PROJECT = Path(__file__).parents[2]


def page(job: JobProcess) -> dict[str, float]:
    """The samples of the job's page, by name and labels."""
    with urllib.request.urlopen(f"{job.page_url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(flinkwatch_\S+) (\S+)$", text, re.MULTILINE)}


def measure(clusters: int, tms: int, lines: int, seconds: int) -> dict[str, float | str]:
    """One fleet against a new broker and job."""
    with tempfile.TemporaryDirectory(prefix="flinkwatch-bench-") as folder, Broker() as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        inputs = {"num_partitions": 4, "replication_factor": 1, "configs": {"max.message.bytes": "4000000"}}
        admin.create_topics({"flink.logs": inputs, "flink.metrics": inputs})
        admin.close()
        job = JobProcess(
            Path(folder),
            {
                "kafka": {"access": {"bootstrap_servers": broker.bootstrap}},
                "streaming": {"checkpoint": f"{folder}/checkpoint"},
            },
        )
        job.start()
        try:
            job.await_ready()
            fleet = [str(n) for n in (clusters, tms, lines, WARM_UP_S + seconds)]
            command = [sys.executable, "-m", "tests.bench.shipped", broker.bootstrap, *fleet]
            with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as writer:
                assert writer.stdout is not None
                writer.stdout.readline()
                time.sleep(WARM_UP_S)
                with Usage(job.pid) as usage, Usage(writer.pid) as writing:
                    begin, before = time.time(), page(job)
                    time.sleep(seconds)
                    end, after = time.time(), page(job)
                said = writer.stdout.read().strip()
        finally:
            job.terminate()
    name, records = "flinkwatch_batch_duration_seconds", "flinkwatch_input_records_total"
    batches = after[f"{name}_count"] - before[f"{name}_count"]
    quick = after[f'{name}_bucket{{le="1.0"}}'] - before[f'{name}_bucket{{le="1.0"}}']
    return {
        "clusters": clusters,
        "taskmanagers": clusters * tms,
        "log_lines_per_s": lines,
        "series_per_s": round(clusters * (tms + 1) * 300 / 15),
        "batches": batches,
        "batch_mean_s": round((after[f"{name}_sum"] - before[f"{name}_sum"]) / max(batches, 1), 3),
        "batches_within_1_s": round(quick / max(batches, 1), 3),
        "records_per_s": round((_sum(after, records) - _sum(before, records)) / (end - begin)),
        "writer": said,
        "writer_cores": round(writing.cpu_s(begin, end) / (end - begin), 2),
        "cores": round(usage.cpu_s(begin, end) / (end - begin), 2),
        "peak_rss_mb": usage.peak_rss() // 2**20,
        "peak_pss_mb": usage.peak_pss() // 2**20,
        "incidents": _sum(after, "flinkwatch_incident_active"),
        "rejected": _sum(after, "flinkwatch_records_rejected_total"),
    }


def _sum(samples: dict[str, float], name: str) -> float:
    return sum(value for key, value in samples.items() if key.partition("{")[0] == name)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--tms", type=int, default=10)
    parser.add_argument("--lines", type=int, default=2_000, help="log lines a second")
    parser.add_argument("--times", type=float, nargs="+", default=[1])
    parser.add_argument("--seconds", type=int, default=120)
    options = parser.parse_args()
    logging.getLogger("kafka").setLevel(logging.ERROR)
    found = []
    for times in options.times:
        clusters, lines = round(options.clusters * times), round(options.lines * times)
        found.append(measure(clusters, options.tms, lines, options.seconds))
        print(json.dumps(found[-1]), flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
