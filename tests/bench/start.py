"""What a start of Spark costs with and without the archive of classes: `python tests/bench/start.py [--rounds N]`.

Each start is a process of its own that ends after the first batch of a query with state. In turn, so that other work on
the machine meets both. The last line is JSON: CPU time and wall time with the archive ÷ without.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from streaming.configuration.settings import Streaming
from streaming.job.spark import class_archive
from streaming.job.spark.archive_classes import run_a_query
from streaming.job.spark.jvm import Jvm
from streaming.job.spark.session import start_session


def start() -> tuple[float, float]:
    """Wall time until the first batch is done, and the CPU time of the JVM until then, in seconds."""
    began, jvm = time.monotonic(), Jvm()
    run_a_query(start_session(Streaming(), jvm))
    took = time.monotonic() - began
    times = Path(f"/proc/{jvm.pid}/stat").read_text().rpartition(")")[2].split()
    jvm.end()
    return took, sum(map(int, times[11:13])) / os.sysconf("SC_CLK_TCK")


def measured(archive: bool) -> tuple[float, float]:
    """`start` in a process of its own."""
    command = [sys.executable, __file__, "--one", "with" if archive else "without"]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True).stdout
    wall, cpu = json.loads(answer.splitlines()[-1])
    return wall, cpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=("with", "without"), help="a single start")
    options = parser.parse_args()
    if options.one:
        if options.one == "without":
            class_archive.ARCHIVE = Path("/nowhere")
        print(json.dumps(start()))
        return 0
    if not class_archive.ARCHIVE.exists():
        print(f"{class_archive.ARCHIVE} is missing; bin/setup makes it", file=sys.stderr)
        return 1
    rounds = [(measured(archive=True), measured(archive=False)) for _ in range(options.rounds)]
    for (wall, cpu), (wall_without, cpu_without) in rounds:
        print(f"with {wall:5.1f} s, CPU {cpu:5.1f} s; without {wall_without:5.1f} s, CPU {cpu_without:5.1f} s")
    ratios = [median(own[n] / other[n] for own, other in rounds) for n in (0, 1)]
    print(json.dumps({"wall_ratio": round(ratios[0], 2), "cpu_ratio": round(ratios[1], 2)}))
    return 0 if ratios[1] < 0.8 else 1


if __name__ == "__main__":
    sys.exit(main())
