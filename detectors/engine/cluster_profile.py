"""What is published of a cluster in addition to its detectors' numbers: Flink's version, settings, checkpoint sizes.

They rarely change, so they are published when they do, and otherwise only often enough that their series do not end.
"""

from zlib import crc32

import msgspec

from detectors.flink.job_states import ENDED
from detectors.flink.topology import Topology
from detectors.incident import Reading

REPEAT_MS = 120_000
"""Prometheus shows a reading for five minutes."""


class ClusterProfile(msgspec.Struct, array_like=True):
    """What was published: a checksum of version and settings, the clock, and the keys of the readings."""

    mark: int = 0
    at: int = 0
    keys: list[str] = []

    def publish(self, cluster: str, topology: Topology, now: int) -> tuple[list[Reading], list[str]]:
        """The readings that are due, and the keys of those that end."""
        mark = crc32(repr((topology.version, topology.settings.values)).encode())
        if mark == self.mark and 0 <= now - self.at < REPEAT_MS:
            return [], []
        found = _readings(cluster, topology, now)
        keys = [reading.key() for reading in found]
        gone = set(self.keys).difference(keys)
        self.mark, self.at, self.keys = mark, now, keys
        return found, sorted(gone)


def _readings(cluster: str, topology: Topology, now: int) -> list[Reading]:
    found: list[tuple[str, float, dict[str, str]]] = []
    if topology.version:
        found.append(("flink_info", 1.0, {"version": topology.version}))
    for key, value in sorted(topology.settings.values.items()):
        found.append(("flink_setting_info", 1.0, {"key": key, "value": value}))
    for job, known in topology.checkpoints.items():
        run = topology.jobs.get(job)
        if known.sizes and (run is None or run.state not in ENDED):
            label = topology.job_name(job) or job
            found.append(("checkpoint_size_bytes", float(max(known.sizes)), {"job": label}))
    made = [Reading(name=name, labels={"cluster": cluster, **own}, value=value, at=now) for name, value, own in found]
    # Two runs of a job have the same name: the newest counts.
    return [*{reading.key(): reading for reading in made}.values()]
