"""What the kinds of the data plane, of disks and of platforms cost every other line: `python tests/bench/step.py`.

The step over dense lines (checkpoints, jobs, tasks of 40 clusters) with all kinds and without those that came after the
first 21, batch by batch in turn, so that the machine's load is the same for both. CPU time. The last line is JSON.
"""

import argparse
import json

from detectors import DETECTORS
from detectors.engine import bucket
from detectors.settings.live import LiveSettings, publish
from tests.bench.scale import Meter, backlog_of_lines

LATER = (
    "broker_unreachable",
    "disk_full",
    "job_missing",
    "lag_growing",
    "late_records_dropped",
    "network_buffers_exhausted",
    "operator_failing",
    "platform_incident",
    "savepoint_failed",
    "sink_data_lost",
    "task_stuck",
    "thread_exhaustion",
    "transaction_timeout",
    "watermark_stalled",
)
GOAL = 1.10


def without(kinds: tuple[str, ...]) -> Meter:
    """A meter whose detectors of these kinds are disabled."""
    live = LiveSettings.model_validate({"detectors": {kind: {"enabled": False} for kind in kinds}})
    meter = Meter()
    meter.index = bucket.BucketIndex(published=publish(live, 0, "step"))
    return meter


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000)
    lines = parser.parse_args().lines
    every, first = without(()), without(LATER)
    for number, batch in enumerate(backlog_of_lines(lines)):
        for meter in (every, first) if number % 2 else (first, every):
            meter.step(batch, batch[-1].timestamp)
        if number == 0:
            # The first batch imports and compiles patterns.
            every.reset()
            first.reset()
    old, new, kinds = first.per_event_us(), every.per_event_us(), len(DETECTORS)
    print(f"{old:.1f} µs a line with {kinds - len(LATER)} kinds, {new:.1f} with {kinds}")
    print(json.dumps({"ratio": round(new / old, 3), "goal": GOAL}))


if __name__ == "__main__":
    main()
