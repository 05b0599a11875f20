"""How fast `flinkwatch replay` is, and how much memory it takes: `python tests/bench/replay.py [--mb 200]`.

Log files of four processes of which 3 % of the lines matter, and a recording of pages of 300 series of a cluster with
10 TaskManagers. Each is replayed by the program itself, once whole and once a tenth of it: the difference is the cost
without the start. For comparison, the head of each line is read with its regular expression, and each page as JSON: the
ratio to that depends less on the machine. CPU time. The last line is JSON.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from detectors.events.event import Record
from detectors.events.layouts import text_layout
from streaming.recordings.recording import line_of
from tests.bench.clusters import START
from tests.bench.corpus import sparse
from tests.bench.shipped import ShippedCluster

CLUSTERS = 4
LINE_BYTES = 165
GOAL_LINES, GOAL_SAMPLES = 100_000, 300_000
# Lines per second of the replay ÷ lines per second of the regular expression; the same for pages and their JSON.
LEAST_RATIO = 0.08


class Made(NamedTuple):
    """Files, and the number of lines or samples in them."""

    paths: list[Path]
    amount: int


class Cost(NamedTuple):
    """CPU seconds of a replay, and its greatest resident memory in MB."""

    cpu_s: float
    resident_mb: float


def logs(folder: Path, size: int) -> Made:
    """Log files of about `size` bytes in all."""
    folder.mkdir()
    files: dict[str, IO[str]] = {}
    count = size // LINE_BYTES
    for line in sparse(count, START, clusters=CLUSTERS):
        if line.cluster not in files:
            files[line.cluster] = (folder / f"flink-a-standalonesession-0-{line.cluster}.log").open("w")
        files[line.cluster].write(f"{line.text}\n")
    for file in files.values():
        file.close()
    return Made([folder], count)


def pages(file: Path, seconds: int) -> Made:
    """A recording of the pages of a cluster, packed as `flinkwatch capture` does."""
    cluster, records, samples = ShippedCluster("c", 2, 10, START), 0, 0
    with gzip.open(file, "wb", compresslevel=6) as out:
        for second in range(seconds):
            for topic, key, value in cluster.records(second):
                records += 1
                samples += value.count(b"\n") + 1 if topic == "flink.metrics" else 0
                out.write(line_of(Record(topic, 0, records, START + second * 1000 + 200, key, value)))
    return Made([file], samples)


def replayed(paths: Iterable[Path]) -> Cost:
    """Replay the files in a process of its own."""
    command = [sys.executable, "-m", "streaming", "replay", "--json", *map(str, paths)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the replay ended with {status}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def timed(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def heads(paths: list[Path]) -> None:
    """Read the head of each line with its regular expression, as the survey of a file did for each line."""
    for path in sorted(paths[0].iterdir()):
        with path.open("rb") as file:
            for line in file:
                text_layout.split(line.decode())


def documents(paths: list[Path]) -> None:
    """Read each record of a recording as JSON, and each line of its page."""
    with gzip.open(paths[0]) as file:
        for line in file:
            for series in msgspec.json.decode(line)["value"].splitlines():
                series.rpartition(" ")


def measured(
    whole: Made, tenth: Made, simple: Callable[[list[Path]], None], what: str, goal: int
) -> dict[str, float | int]:
    """Replay both; the figures."""
    small, large = replayed(tenth.paths), replayed(whole.paths)
    rate = (whole.amount - tenth.amount) / (large.cpu_s - small.cpu_s)
    reference = whole.amount / timed(lambda: simple(whole.paths))
    print(f"{what} per CPU-second: {rate:,.0f} (goal {goal:,}); the simple program {reference:,.0f}")
    print(f"  resident {small.resident_mb:.0f} MB with a tenth of it, {large.resident_mb:.0f} MB with all", flush=True)
    return {
        f"{what}_per_cpu_s": round(rate),
        f"{what}_ratio": round(rate / reference, 2),
        f"{what}_resident_mb": round(large.resident_mb),
        f"{what}_memory_ratio": round(large.resident_mb / small.resident_mb, 2),
    }


def main() -> int:
    """Measure and print; 1 if a ratio is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, size = Path(name), options.mb * 1_000_000
        found = measured(
            logs(folder / "whole", size), logs(folder / "tenth", size // 10), heads, "lines", GOAL_LINES
        ) | measured(
            pages(folder / "whole.jsonl.gz", size // 30_000),
            pages(folder / "tenth.jsonl.gz", size // 300_000),
            documents,
            "samples",
            GOAL_SAMPLES,
        )
    print(f"{os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}")
    print(json.dumps(found))
    flat = found["lines_memory_ratio"] < 1.25 and found["samples_memory_ratio"] < 1.25
    return 0 if flat and found["lines_ratio"] >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
