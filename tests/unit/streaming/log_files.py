"""Log files as people have them, made from the scenarios: the lines of each process, and what tools put around them."""

import gzip
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from tests.recorded import records

JOBMANAGER = "flink-flink-standalonesession-0-jm-1.log"
TASKMANAGER = "flink-flink-taskexecutor-0-tm-2.log"

Lines = dict[str, list[str]]


@cache
def plain(scenario: str) -> Lines:
    """The log lines of a scenario by the name of their file."""
    found: Lines = {}
    for record in records(scenario):
        if record.topic == "flink.logs":
            headers = dict(record.headers)
            try:
                document = json.loads(record.value or b"")
                name, line = document["log"]["file"]["path"], document["message"]
            except (ValueError, TypeError, KeyError):
                name, line = headers.get("file", b"x.log").decode(), (record.value or b"").decode()
            found.setdefault(Path(name).name, []).append(line)
    return found


def write(folder: Path, files: Lines) -> list[Path]:
    """The files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in files]
    for path, lines in zip(paths, files.values(), strict=True):
        text = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return paths


def _stamped(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    time = "2026-11-21T02:00:00.000000000Z"
    for line in lines:
        if line[:2] == "20" and line[10] == " ":
            time = f"{line[:10]}T{line[11:19]}.{line[20:23]}123456Z"
        yield time, line


def _of_pods(wrap: Callable[[str, str, str], str]) -> list[str]:
    """The logs of both pods one after the other, as `kubectl logs -l` prints them."""
    files = plain("late-barrier-acks")
    return [
        wrap(pod, time, line)
        for pod, name in (("jobmanager-7d9f", JOBMANAGER), ("taskmanager-2", TASKMANAGER))
        for time, line in _stamped(files[name])
    ]


def _cut(time: str, line: str) -> str:
    """A line as containerd writes it: long ones in parts."""
    parts = [line[i : i + 150] for i in range(0, len(line), 150)] or [""]
    flags = ["P"] * (len(parts) - 1) + ["F"]
    return "\n".join(f"{time} stdout {flag} {part}" for flag, part in zip(flags, parts, strict=True))


def _aggregate() -> list[str]:
    found: list[str] = []
    for number, name in (("000001", JOBMANAGER), ("000002", TASKMANAGER)):
        found += [f"Container: container_1543309871234_0057_01_{number} on node-{number[-1]}_8041", "=" * 70]
        found += [
            f"LogType:{name}",
            "LogLastModifiedTime:Sat Nov 21 02:20:00 +0000 2026",
            "LogLength:9",
            "LogContents:",
        ]
        found += [*plain("late-barrier-acks")[name], f"End of LogType:{name}", "*" * 70, ""]
    return found


WRAPPED: dict[str, Callable[[], list[str]]] = {
    "`kubectl logs --prefix`": lambda: _of_pods(lambda pod, _, line: f"[pod/{pod}/flink-main] {line}"),
    "`kubectl logs --timestamps`": lambda: _of_pods(lambda _, time, line: f"{time} {line}"),
    "`kubectl logs --prefix --timestamps`": lambda: _of_pods(lambda p, t, line: f"[pod/{p}/flink-main] {t} {line}"),
    "a container runtime's log (CRI, /var/log/containers)": lambda: _of_pods(lambda _, time, line: _cut(time, line)),
    "Docker's json-file": lambda: _of_pods(
        lambda _, time, line: json.dumps({"log": f"{line}\n", "stream": "stdout", "time": time})
    ),
    "`docker compose logs`": lambda: _of_pods(lambda pod, _, line: f"{pod}  | {line}"),
    "documents of a log shipper": lambda: _of_pods(
        lambda pod, time, line: json.dumps({"@timestamp": time, "message": line, "host": {"name": pod}})
    ),
    "`yarn logs`": _aggregate,
}
"""What `replay` says a file looks like → such a file with both logs of the scenario late-barrier-acks."""
