"""What is shipped, and what must come of it: the log of a real job that fails at the same record again and again."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from detectors.events.event import MetricEvent, Record, Rejected
from streaming.recordings.redate import redated
from tests.recorded import READER, records, said

SAMPLES = Path(__file__).with_name("samples")
SCENARIO = "restart-loop"
CLUSTER = "prod-payments"
_FILE = re.compile(r"[^/]+$")


def write_logs(folder: Path, now: int) -> list[str]:
    """Writes the log files of the scenario as if it had just ended. Returns the last line of each."""
    recorded = [r for r in records(SCENARIO) if r.topic == "flink.logs"]
    length = recorded[-1].timestamp - recorded[0].timestamp
    lines: dict[str, list[str]] = {}
    for record in redated(recorded, now - length):
        document = msgspec.json.decode(record.value or b"{}")
        name = _FILE.findall(document["log"]["file"]["path"])[0]
        lines.setdefault(name, []).append(document["message"])
    for name, own in lines.items():
        (folder / name).write_text("\n".join(own) + "\n", encoding="utf-8")
    return [own[-1] for own in lines.values()]


def judge(shipped: Iterable[Record]) -> None:
    """The shipped records give the incident of the scenario: its cluster, its cause, the exception from the stack."""
    transitions = said(shipped)
    assert {(t.cluster, t.cause) for t in transitions} == {(CLUSTER, "restart_loop")}
    assert len({t.incident for t in transitions}) == 1
    last = transitions[-1].summary
    assert "java.lang.IllegalStateException: Cannot parse order event at offset 25000" in last
    assert "RecJob$Work.processElement(RecJob.java:118)" in last


PAGES_OF = "post-mortem-002"
Point = tuple[str, tuple[tuple[str, str], ...], float]


@cache
def page(host: str) -> Record:
    """The last page of a process in the recording whose pages are served."""
    return [r for r in records(PAGES_OF) if ("host", host.encode()) in r.headers and r.topic == "flink.metrics"][-1]


def points(given: Iterable[Record]) -> set[Point]:
    """The metrics that are read from records, and whose cluster is right."""
    found: set[Point] = set()
    for record in given:
        events = READER.read(msgspec.structs.replace(record, topic="flink.metrics"))
        assert not isinstance(events, Rejected), events
        for event in events:
            assert isinstance(event, MetricEvent)
            assert event.cluster == CLUSTER
            found |= {(s.name, tuple(sorted(s.labels.items())), s.value) for s in event.samples}
    return found


def pages_as_shipped() -> set[Point]:
    """What the pages of a JobManager and a TaskManager have."""
    headers = (("cluster", CLUSTER.encode()),)
    return points(msgspec.structs.replace(page(host), headers=headers) for host in ("jm-1", "tm-1"))
