"""What the published alerting rules of `flink_rules.yaml` say on recorded scrapes: a real Prometheus, asked afterwards.

The scrapes become blocks of its database with their own times; each rule's expression is asked for every
`EVERY_S`, and its `for` is applied as Prometheus does. Blocks cannot hold the marks that end a series whose target is
gone, so a sample counts for two and a half scrapes instead of Prometheus' five minutes. Needs `promtool` and
`prometheus` (Debian: package prometheus).
"""

import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from detectors.units import parse_duration
from tests.bench.neutral import Recording, samples

EVERY_S = 15
RULES = Path(__file__).with_name("flink_rules.yaml")


class Alert(NamedTuple):
    """One rule begins to fire for one series; epoch ms. `since` is when its condition began to hold.

    `lasting` is False when the recording ended before `for` had passed: it would fire at that time, were the condition
    to hold on.
    """

    name: str
    since: int
    at: int
    lasting: bool


def available() -> bool:
    """Whether Prometheus is installed."""
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


def alerts(recordings: Iterable[Recording], folder: Path) -> dict[str, list[Alert]]:
    """The alerts on each recording that has metrics, in order; works in `folder`."""
    rules = [r for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for r in group["rules"]]
    names = {n for r in rules for n in re.findall(r"flink_\w+", r["expr"])}
    by_interval: dict[int, list[Recording]] = {}
    for recording in recordings:
        every_s = _import(recording, names, folder)
        if every_s:
            by_interval.setdefault(every_s, []).append(recording)
    said = {}
    for every_s, own in by_interval.items():
        port = _free_port()
        with _server(folder, port, every_s) as process:
            try:
                _await_ready(port, process)
                for recording in own:
                    found = [a for rule in rules for a in _fired(rule, recording, port)]
                    said[recording.name] = sorted(found, key=lambda a: a.at)
            finally:
                process.terminate()
    return said


def _import(recording: Recording, names: set[str], folder: Path) -> int:
    """Write the database's blocks; seconds between two scrapes of a process, 0 when there are no metrics."""
    text = folder / "metrics.txt"
    times: dict[tuple[str, int], list[int]] = {}
    with text.open("w", encoding="utf-8") as out:
        for entry in recording.entries:
            if entry.kind != "scrape" or not entry.body:
                continue
            times.setdefault((entry.host, entry.port), []).append(entry.t)
            target = f'recording="{recording.name}",job="flink",instance="{entry.host}:{entry.port}"'
            for name, labels, value in samples(entry.body):
                if name in names:
                    all_labels = f"{target},{labels}" if labels else target
                    out.write(f"{name}{{{all_labels}}} {value} {entry.t / 1000:.3f}\n")
        out.write("# EOF\n")
    gaps = [b - a for own in times.values() for a, b in pairwise(own)]
    if not gaps:
        return 0
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return max(1, round(statistics.median(gaps) / 1000))


def _server(folder: Path, port: int, every_s: int) -> subprocess.Popen[bytes]:
    config = folder / "prometheus.yml"
    config.write_text("{}", encoding="utf-8")
    (folder / "data").mkdir(exist_ok=True)
    return subprocess.Popen(
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--query.lookback-delta={2500 * every_s}ms",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ],
        env={**os.environ, "GOMAXPROCS": "2"},
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit("Prometheus does not start")


def _fired(rule: dict[str, Any], recording: Recording, port: int) -> list[Alert]:
    begin, end = recording.entries[0].t // 1000, recording.entries[-1].t // 1000
    steps = (end - begin) // EVERY_S
    hold = parse_duration(rule["for"]) // 1000
    fired: list[tuple[int, int, bool]] = []
    question = urllib.parse.urlencode(
        {
            "query": rule["expr"],
            "start": begin,
            "end": begin + steps * EVERY_S,
            "step": EVERY_S,
        }
    )
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query_range?{question}", timeout=60) as answer:
        result = json.load(answer)["data"]["result"]
    for series in result:
        if series["metric"].get("recording") == recording.name:
            fired += _held([int(t) for t, _ in series["values"]], hold, begin + steps * EVERY_S)
    return [Alert(rule["alert"], 1000 * since, 1000 * t, lasting) for since, t, lasting in sorted(set(fired))]


def _held(times: list[int], hold: int, end: int) -> list[tuple[int, int, bool]]:
    """(since, firing at, whether it came to that) of each stretch for which a series was true, if true long enough."""
    found: list[tuple[int, int, bool]] = []
    starts = [i for i, t in enumerate(times) if i == 0 or t - times[i - 1] > EVERY_S]
    for first, last in pairwise([*starts, len(times)]):
        since, until = times[first], times[last - 1]
        if until - since >= hold:
            found.append((since, since + hold, True))
        elif until == end:
            found.append((since, since + hold, False))
    return found
