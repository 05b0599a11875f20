"""What flinkwatch costs without input: `python tests/bench/idle.py [--seconds S] [--property KEY=VALUE ...]`.

`flinkwatch run` with its defaults reads empty topics, apart from its own heartbeat, for three minutes. CPU time per
second by process and, in the JVM, by thread. With `--property`, properties of Spark are compared with the defaults:
both jobs run at the same time, so that other work on the host meets both. The last line is JSON.
"""

import argparse
import json
import os
import re
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from kafka.admin import KafkaAdminClient

from tests.bench.usage import tree
from tests.embedded.broker import Broker
from tests.embedded.job_process import JobProcess

_TICK = os.sysconf("SC_CLK_TCK")
_NUMBER = re.compile(r"[-# ]*\d[\d.]*$")
_SHOWN = 20
WARM_UP_S = 60.0
GOAL = 0.25

Seconds = dict[str, float]


def threads(pid: int) -> Seconds:
    """CPU seconds of a process by the name of its threads, without their numbers."""
    found: Seconds = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        fields = rest.split()
        known = found.get(_NUMBER.sub("", name), 0.0)
        found[_NUMBER.sub("", name)] = known + (int(fields[11]) + int(fields[12])) / _TICK
    return found


def used(job: JobProcess) -> Seconds:
    """CPU seconds so far, by process; of those of the JVM, those of its threads that still run."""
    found: Seconds = {"flinkwatch": 0.0, "JVM": 0.0, "workers": 0.0}
    for process in tree(job.pid):
        if process.name == "java":
            found |= {f"  {name}": cpu for name, cpu in threads(process.pid).items()}
        of = "flinkwatch" if process.pid == job.pid else "JVM" if process.name == "java" else "workers"
        found[of] += process.cpu_s
    return found


def batches(job: JobProcess) -> float:
    """The number of batches so far, from the job's page."""
    with urllib.request.urlopen(f"{job.page_url}/metrics", timeout=10) as page:
        found = re.search(rb"^flinkwatch_batch_duration_seconds_count\S* (\S+)$", page.read(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def configuration(bootstrap: str, folder: Path, properties: dict[str, str]) -> dict[str, object]:
    own = {"spark": properties} if properties else {}
    return {
        "kafka": {"access": {"bootstrap_servers": bootstrap}},
        "streaming": {"checkpoint": str(folder / "checkpoint"), **own},
    }


def measure(seconds: float, properties: list[dict[str, str]]) -> list[Seconds]:
    """CPU seconds of one job for each set of properties, each with a broker of its own."""
    with ExitStack() as stack:
        jobs: list[JobProcess] = []
        for own in properties:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            broker = stack.enter_context(Broker())
            inputs = {"num_partitions": 2, "replication_factor": 1, "configs": {}}
            KafkaAdminClient(bootstrap_servers=broker.bootstrap).create_topics(
                {"flink.logs": inputs, "flink.metrics": inputs}
            )
            job = JobProcess(folder, configuration(broker.bootstrap, folder, own))
            job.start()
            stack.callback(job.terminate)
            jobs.append(job)
        for job in jobs:
            job.await_ready()
        time.sleep(WARM_UP_S)
        before = [{**used(job), "batches": batches(job)} for job in jobs]
        time.sleep(seconds)
        after = [{**used(job), "batches": batches(job)} for job in jobs]
    return [
        {name: cpu - known.get(name, 0.0) for name, cpu in now.items()}
        for now, known in zip(after, before, strict=True)
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    changed = dict(text.split("=", 1) for text in options.property)
    found = measure(options.seconds, [{}, changed] if changed else [{}])
    cores = [round((own["flinkwatch"] + own["JVM"] + own["workers"]) / options.seconds, 3) for own in found]
    for name in sorted(found[0], key=found[0].__getitem__, reverse=True)[:_SHOWN]:
        print(f"  {name:<40}" + "".join(f"{own.get(name, 0.0) / options.seconds:12.3f}" for own in found))
    print(json.dumps({"cores": cores[0], "goal": GOAL, **({"cores_changed": cores[1]} if changed else {})}))


if __name__ == "__main__":
    main()
